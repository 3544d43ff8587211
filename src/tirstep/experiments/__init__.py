"""Passes as experiments: try a change of TVM's pipeline on recipes, files and a drawn corpus.

`tirstep pass` is its command. `pass_experiment` declares a pass, `assert_keeps_promises` tests it.
"""

from .corpus import Corpus, list_steps
from .declaring import Declaration, get_declaration, pass_experiment
from .editing import Edit, ExperimentError, list_passes, take_passes
from .holding import PromiseReport, assert_keeps_promises
from .promises import PROMISES
from .subject import Subject, make_subject
from .trying import Experiment, Trial, TryOptions, try_change

__all__ = [
    "PROMISES",
    "Corpus",
    "Declaration",
    "Edit",
    "Experiment",
    "ExperimentError",
    "PromiseReport",
    "Subject",
    "Trial",
    "TryOptions",
    "assert_keeps_promises",
    "get_declaration",
    "list_passes",
    "list_steps",
    "make_subject",
    "pass_experiment",
    "take_passes",
    "try_change",
]
