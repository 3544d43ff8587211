"""Passes as experiments: try a change of TVM's pipeline on recipes, files and a drawn corpus.

`tirstep pass` is its command. `pass_experiment` declares a pass, `assert_keeps_promises` tests it.
"""

from .corpus import Corpus as Corpus
from .corpus import list_steps as list_steps
from .editing import Edit as Edit
from .editing import ExperimentError as ExperimentError
from .editing import list_passes as list_passes
from .editing import take_passes as take_passes
from .promises import PROMISES as PROMISES
from .promises import Declaration as Declaration
from .promises import PromiseReport as PromiseReport
from .promises import assert_keeps_promises as assert_keeps_promises
from .promises import get_declaration as get_declaration
from .promises import pass_experiment as pass_experiment
from .promises import show_counterexample as show_counterexample
from .trying import Experiment as Experiment
from .trying import Subject as Subject
from .trying import Trial as Trial
from .trying import make_subject as make_subject
from .trying import try_change as try_change
