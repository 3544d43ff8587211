"""Plans: the schedules of the fast recipes, for blocks of any function, by their handles.

A plan takes blocks by the roles that they play, whatever they are called::

    roles = match_matmul(sch)
    if roles:
        schedule_matmul(sch, roles.blocks[0], config=GemmConfig(tail="pad"))
    else:
        print(roles.reason)

What stands around these blocks is inlined, or left as a kernel of its own.
"""

from ..recipes.element_ladders import FlatConfig as FlatConfig
from ..recipes.gemm import GemmConfig as GemmConfig
from ..recipes.mma import MmaConfig as MmaConfig
from ..recipes.row_ladders import RowConfig as RowConfig
from ..recipes.wgmma import WgmmaConfig as WgmmaConfig
from .flat import match_flat as match_flat
from .flat import schedule_flat as schedule_flat
from .plan import make_recipe_rule as make_recipe_rule
from .plan import match_recipe as match_recipe
from .plan import schedule_function as schedule_function
from .product_plan import MatmulConfig as MatmulConfig
from .product_plan import WindowsConfig as WindowsConfig
from .product_plan import match_convolution as match_convolution
from .product_plan import match_matmul as match_matmul
from .product_plan import schedule_convolution as schedule_convolution
from .product_plan import schedule_matmul as schedule_matmul
from .product_plan import schedule_windows as schedule_windows
from .roles import Mismatch as Mismatch
from .roles import Roles as Roles
from .row_plan import match_rows as match_rows
from .row_plan import schedule_rows as schedule_rows
