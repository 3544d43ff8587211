"""Recipes under MetaSchedule: a design space, a builder and a runner for any tuner of TVM's, and
the tuner of ``tirstep tune``, whose best goes into a database that TVM applies alone.

`space` makes the space, `candidates` has the processes that try them, `tuner` says which come next,
and `database` has the results; `tirstep.bench.trials` keeps what came of each.
"""

from .candidates import make_builder, make_runner
from .space import as_space

__all__ = ["as_space", "make_builder", "make_runner"]
