"""Recipes under MetaSchedule: a design space, a builder and a runner for any tuner of TVM's, and
the tuner of ``tirstep tune``, whose best goes into a database that TVM applies alone.

`space` makes the space, `building` and `running` try its candidates in processes of their own,
`proposing` says which come next, `trials` keeps what came of them, `database` has the results.
"""

from .building import make_builder
from .running import make_runner
from .space import as_space

__all__ = ["as_space", "make_builder", "make_runner"]
