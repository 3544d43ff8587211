"""Plans: the schedules of the fast recipes, for blocks of any function, by their handles.

A plan takes blocks by the roles that they play, whatever they are called::

    roles = match_matmul(sch)
    if roles:
        schedule_matmul(sch, roles.blocks[0], config=GemmConfig(tail="pad"))
    else:
        print(roles.reason)

What stands around these blocks is inlined, or left as a kernel of its own.
"""

from ..recipes.element_ladders import FlatConfig
from ..recipes.gemm import GemmConfig
from ..recipes.mma import MmaConfig
from ..recipes.row_ladders import RowConfig
from ..recipes.wgmma import WgmmaConfig
from .flat import match_flat, schedule_flat
from .plan import make_recipe_rule, match_recipe, schedule_function
from .product_plan import (
    MatmulConfig,
    WindowsConfig,
    match_convolution,
    match_matmul,
    schedule_convolution,
    schedule_matmul,
    schedule_windows,
)
from .roles import Mismatch, Roles
from .row_plan import match_rows, schedule_rows

__all__ = [
    "FlatConfig",
    "GemmConfig",
    "MatmulConfig",
    "Mismatch",
    "MmaConfig",
    "Roles",
    "RowConfig",
    "WgmmaConfig",
    "WindowsConfig",
    "make_recipe_rule",
    "match_convolution",
    "match_flat",
    "match_matmul",
    "match_recipe",
    "match_rows",
    "schedule_convolution",
    "schedule_flat",
    "schedule_function",
    "schedule_matmul",
    "schedule_rows",
    "schedule_windows",
]
