"""Recipes for which shapes, types and configs are drawn.

Schedules of matmul under other kernels are drawn for matmul alone: test_products.py and
test_conv2d.py have these at chosen shapes.
"""

from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.conv2d import CONV2D
from tirstep.transforms.recipes.products import PRODUCTS

SHARED = {recipe.name for ladder in (*PRODUCTS, *CONV2D) for recipe in ladder}
DRAWN = [recipe for name, recipe in RECIPES.items() if name not in SHARED]
