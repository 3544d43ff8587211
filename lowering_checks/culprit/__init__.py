"""The culprit: the step, or the pass of TVM, that made an answer wrong, and a script of it."""

from .bad_pass import find_bad_pass
from .culprit import Culprit, Search, find_culprit, search_culprit
from .reproducer import Reproduction, require_ours, run_reproducer, write_reproducer

__all__ = [
    "Culprit",
    "Reproduction",
    "Search",
    "find_bad_pass",
    "find_culprit",
    "require_ours",
    "run_reproducer",
    "search_culprit",
    "write_reproducer",
]
