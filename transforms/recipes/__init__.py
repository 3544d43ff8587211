"""The recipes, and the ladders that put the recipes of one kernel in order, slow to fast."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from ..schedule import TransformError
from .attention import ATTENTION, ATTENTION_CAUSAL
from .attention_mma import ATTENTION_MMA, ATTENTION_MMA_CAUSAL
from .attention_wgmma import ATTENTION_WGMMA, ATTENTION_WGMMA_BEST, ATTENTION_WGMMA_CAUSAL
from .conv1d import (
    CONV1D,
    conv1d_memory_hierarchy,
    conv1d_naive,
    conv1d_refactored,
    conv1d_threads,
    conv1d_threads_2d,
    conv1d_unrolled,
    window_sum_bound,
    window_sum_shared,
)
from .conv2d import CONV2D
from .decoding import DECODE_ATTENTION
from .depthwise_conv2d import (
    DEPTHWISE,
    depthwise_conv2d_blocks_2d,
    depthwise_conv2d_fused_blocks,
    depthwise_conv2d_naive,
    depthwise_conv2d_outer_fusion,
    depthwise_conv2d_threads_2d,
)
from .element_ladders import ELEMENTWISE_BEST, GELU, RELU, VECTOR_ADD
from .fused_chains import MLP_SWIGLU, RMS_NORM_MATMUL
from .matmul_best import MATMUL, MATMUL_MMA, MATMUL_WGMMA
from .matmul_tutorials import (
    matmul_bias_relu_shared_blocking,
    matmul_local_blocking,
    matmul_naive,
    matmul_registers,
    matmul_rows_on_blocks,
    matmul_shared,
    matmul_shared_blocking,
    matmul_threads_1d,
    matmul_threads_2d,
    matmul_tiled,
    matmul_tiled_shared,
)
from .products import BATCHED_MATMUL, MATMUL_BIAS_GELU, MATMUL_BIAS_RELU
from .recipe import Example, Recipe, Step, recipe
from .row_ladders import ROWS, ROWS_BEST
from .rungs import Ladder, Rung
from .skinny import LADDER as MATMUL_SKINNY
from .transpose import LADDER as TRANSPOSE


def _order(title: str, *recipes: Recipe, name: str = "") -> Ladder:
    """A ladder at the shape of its last recipe's example; named after its kernel by default."""
    kernel, shape = recipes[-1].kernel_name, recipes[-1].default_example.shape
    return Ladder(name or kernel, kernel, title, recipes, shape)


_ALL = (
    VECTOR_ADD,
    RELU,
    GELU,
    *ELEMENTWISE_BEST,
    TRANSPOSE,
    *ROWS,
    *ROWS_BEST,
    _order('"GPU and hardware acceleration, part 1"', window_sum_bound, window_sum_shared),
    _order(
        "the GEMM tutorial, v0 to v4",
        matmul_naive,
        matmul_threads_1d,
        matmul_threads_2d,
        matmul_shared,
        matmul_registers,
        name="gemm-tutorial",
    ),
    _order(
        "the step-by-step blog, 1 to 3",
        matmul_rows_on_blocks,
        matmul_tiled,
        matmul_tiled_shared,
        name="step-by-step",
    ),
    _order(
        'the blocking of "GPU and hardware acceleration"',
        matmul_local_blocking,
        matmul_shared_blocking,
        name="blocking",
    ),
    MATMUL_MMA,
    MATMUL_WGMMA,
    MATMUL_SKINNY,
    MATMUL,  # the last of its kernel: its last recipe is for all types
    *MATMUL_BIAS_RELU,
    _order('the blocking of "GPU and hardware acceleration"', matmul_bias_relu_shared_blocking),
    *MATMUL_BIAS_GELU,
    *BATCHED_MATMUL,
    _order(
        "the convolution tutorials, from the naive kernel to the unrolled one",
        conv1d_naive,
        conv1d_refactored,
        conv1d_threads,
        conv1d_threads_2d,
        conv1d_memory_hierarchy,
        conv1d_unrolled,
        name="conv1d-tutorial",
    ),
    CONV1D,
    _order(
        "the convolution tutorial, from images on blocks to fused loops",
        depthwise_conv2d_naive,
        depthwise_conv2d_blocks_2d,
        depthwise_conv2d_fused_blocks,
        depthwise_conv2d_threads_2d,
        depthwise_conv2d_outer_fusion,
        name="depthwise-tutorial",
    ),
    DEPTHWISE,
    *CONV2D,
    MLP_SWIGLU,
    RMS_NORM_MATMUL,
    ATTENTION_MMA,
    ATTENTION_MMA_CAUSAL,
    ATTENTION_WGMMA,
    ATTENTION_WGMMA_CAUSAL,
    ATTENTION_WGMMA_BEST,
    ATTENTION_CAUSAL,
    ATTENTION,  # the last of its kernel: its recipes are for all
    DECODE_ATTENTION,
)
_NORMS = ("softmax", "rms_norm", "layer_norm")
LADDERS: Mapping[str, Ladder] = MappingProxyType({ladder.name: ladder for ladder in _ALL})
"""By name: a kernel's fast ladder has the kernel's name, a tutorial's one of its own."""
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {recipe.name: recipe for ladder in LADDERS.values() for recipe in ladder}
)

__all__ = [
    "LADDERS",
    "RECIPES",
    "Example",
    "Ladder",
    "Recipe",
    "Rung",
    "Step",
    "find_recipe",
    "list_ladders",
    "recipe",
]


def list_ladders(kernel: str) -> list[Ladder]:
    """The ladders of a kernel, tutorials first; none of a kernel without recipes."""
    return [ladder for ladder in LADDERS.values() if ladder.kernel == kernel]


def find_recipe(name: str) -> Recipe:
    """The recipe of a name; an unknown one is refused with the nearest names."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(RECIPES)}"
    raise TransformError("find_recipe", f"there is no recipe '{name}'", hint)
