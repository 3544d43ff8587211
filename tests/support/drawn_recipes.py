"""Recipes for which shapes, types and configs are drawn.

Schedules of matmul under other kernels are drawn for matmul alone: test_products.py and
test_conv2d.py have these at chosen shapes, and test_attention.py, test_attention_wgmma.py and
test_decoding.py those of whole tiles or vectors, and causal ones, which want as many keys as
queries.
"""

from tirstep.transforms.recipes import RECIPES, Rung
from tirstep.transforms.recipes.attention_mma import AttentionMmaConfig
from tirstep.transforms.recipes.attention_wgmma import AttentionWgmmaConfig
from tirstep.transforms.recipes.conv2d import LADDERS as CONV2D
from tirstep.transforms.recipes.decoding import RangesConfig
from tirstep.transforms.recipes.matmul_best import PRODUCTS

SHARED = {recipe.name for ladder in (*PRODUCTS, *CONV2D) for recipe in ladder}
WHOLE_TILES = (RangesConfig, AttentionMmaConfig, AttentionWgmmaConfig)
WHOLE = {
    name
    for name, recipe in RECIPES.items()
    if isinstance(recipe, Rung) and recipe.family.config in WHOLE_TILES
}
WHOLE |= {"attention_wgmma_best", "attention_causal", "attention_causal_ended"}
DRAWN = [recipe for name, recipe in RECIPES.items() if name not in SHARED | WHOLE]
