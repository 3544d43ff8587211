"""Passes as experiments: try a change of TVM's pipeline on recipes, files and a drawn corpus.

`tirstep pass` is its command. `pass_experiment` declares a pass, `assert_keeps_promises` tests it.
"""

from .corpus import Corpus, list_steps
from .counterexample import show_counterexample
from .editing import Edit, ExperimentError, list_passes, take_passes
from .promises import (
    PROMISES,
    Declaration,
    PromiseReport,
    assert_keeps_promises,
    get_declaration,
    pass_experiment,
)
from .subject import Subject, make_subject
from .trying import Experiment, Trial, try_change

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
    "assert_keeps_promises",
    "get_declaration",
    "list_passes",
    "list_steps",
    "make_subject",
    "pass_experiment",
    "show_counterexample",
    "take_passes",
    "try_change",
]
