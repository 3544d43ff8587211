"""Bisection: the first step, or the first pass of TVM, that makes a result wrong, and a script."""

from .first_bad import FirstBad as FirstBad
from .first_bad import RunBisection as RunBisection
from .first_bad import bisect_run as bisect_run
from .first_bad import find_bad_pass as find_bad_pass
from .reproducer import Reproduction as Reproduction
from .reproducer import require_ours as require_ours
from .reproducer import run_reproducer as run_reproducer
from .reproducer import write_reproducer as write_reproducer
