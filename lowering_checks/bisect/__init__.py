"""Bisection: the first step, or the first pass of TVM, that makes a result wrong, and a script."""

from .first_bad import FirstBad, RunBisection, bisect_run, find_bad_pass
from .reproducer import Reproduction, require_ours, run_reproducer, write_reproducer

__all__ = [
    "FirstBad",
    "Reproduction",
    "RunBisection",
    "bisect_run",
    "find_bad_pass",
    "require_ours",
    "run_reproducer",
    "write_reproducer",
]
