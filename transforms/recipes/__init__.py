"""The recipes, and the ladders that put the recipes of one kernel in order, slow to fast."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from ..errors import TransformError
from .activations import (
    gelu_batches,
    gelu_bound,
    gelu_persistent,
    gelu_vectors,
    relu_batches,
    relu_bound,
    relu_persistent,
    relu_vectors,
)
from .conv1d_fast import (
    conv1d_coalesced,
    conv1d_folded,
    conv1d_registers,
    conv1d_window,
)
from .convolution import (
    depthwise_conv2d_blocks_2d,
    depthwise_conv2d_fused_blocks,
    depthwise_conv2d_naive,
    depthwise_conv2d_outer_fusion,
    depthwise_conv2d_threads_2d,
)
from .depthwise_fast import (
    depthwise_conv2d_planes,
    depthwise_conv2d_registers,
    depthwise_conv2d_shared,
)
from .depthwise_strips import depthwise_conv2d_strips
from .elementwise import (
    vector_add_batches,
    vector_add_bound,
    vector_add_persistent,
    vector_add_vectors,
)
from .matmul import (
    matmul_naive,
    matmul_registers,
    matmul_rows_on_blocks,
    matmul_shared,
    matmul_threads_1d,
    matmul_threads_2d,
    matmul_tiled,
    matmul_tiled_shared,
)
from .matmul_best import matmul_best
from .matmul_blocking import (
    matmul_bias_relu_shared_blocking,
    matmul_local_blocking,
    matmul_shared_blocking,
)
from .matmul_fast import (
    matmul_fragments,
    matmul_grouped,
    matmul_interleaved,
    matmul_strips,
    matmul_warps,
)
from .matmul_pipelined import matmul_async, matmul_prefetched, matmul_split_k
from .matvec import matvec_naive, matvec_rows, matvec_threads, matvec_vectors
from .movement import transpose_naive, transpose_padded, transpose_shared, transpose_vectors
from .normalizations import (
    layer_norm_naive,
    layer_norm_registers,
    layer_norm_rows,
    layer_norm_threads,
    rms_norm_naive,
    rms_norm_registers,
    rms_norm_rows,
    rms_norm_threads,
)
from .recipe import Example, Recipe, Step, recipe
from .rows import (
    row_sum_naive,
    row_sum_rows,
    row_sum_threads,
    row_sum_vectors,
    softmax_naive,
    softmax_online,
    softmax_registers,
    softmax_rows,
    softmax_threads,
)
from .stencil import (
    conv1d_memory_hierarchy,
    conv1d_naive,
    conv1d_refactored,
    conv1d_threads,
    conv1d_threads_2d,
    conv1d_unrolled,
    window_sum_bound,
    window_sum_shared,
)

LADDERS: Mapping[str, tuple[Recipe, ...]] = MappingProxyType(
    {
        "vector_add": (
            vector_add_bound,
            vector_add_vectors,
            vector_add_batches,
            vector_add_persistent,
        ),
        "relu": (relu_bound, relu_vectors, relu_batches, relu_persistent),
        "gelu": (gelu_bound, gelu_vectors, gelu_batches, gelu_persistent),
        "transpose": (transpose_naive, transpose_shared, transpose_padded, transpose_vectors),
        "row_sum": (row_sum_naive, row_sum_threads, row_sum_vectors, row_sum_rows),
        "softmax": (
            softmax_naive,
            softmax_threads,
            softmax_registers,
            softmax_online,
            softmax_rows,
        ),
        "rms_norm": (rms_norm_naive, rms_norm_threads, rms_norm_registers, rms_norm_rows),
        "layer_norm": (
            layer_norm_naive,
            layer_norm_threads,
            layer_norm_registers,
            layer_norm_rows,
        ),
        "window_sum": (window_sum_bound, window_sum_shared),
        "matvec": (matvec_naive, matvec_threads, matvec_vectors, matvec_rows),
        "matmul": (
            matmul_naive,
            matmul_threads_1d,
            matmul_threads_2d,
            matmul_rows_on_blocks,
            matmul_tiled,
            matmul_shared,
            matmul_registers,
            matmul_tiled_shared,
            matmul_local_blocking,
            matmul_shared_blocking,
            matmul_fragments,
            matmul_strips,
            matmul_warps,
            matmul_interleaved,
            matmul_grouped,
            matmul_prefetched,
            matmul_async,
            matmul_split_k,
            matmul_best,
        ),
        "matmul_bias_relu": (matmul_bias_relu_shared_blocking,),
        "conv1d": (
            conv1d_naive,
            conv1d_refactored,
            conv1d_threads,
            conv1d_threads_2d,
            conv1d_memory_hierarchy,
            conv1d_unrolled,
            conv1d_window,
            conv1d_registers,
            conv1d_folded,
            conv1d_coalesced,
        ),
        "depthwise_conv2d": (
            depthwise_conv2d_naive,
            depthwise_conv2d_blocks_2d,
            depthwise_conv2d_fused_blocks,
            depthwise_conv2d_threads_2d,
            depthwise_conv2d_outer_fusion,
            depthwise_conv2d_shared,
            depthwise_conv2d_registers,
            depthwise_conv2d_planes,
            depthwise_conv2d_strips,
        ),
    }
)
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {one.name: one for ladder in LADDERS.values() for one in ladder}
)

__all__ = ["LADDERS", "RECIPES", "Example", "Recipe", "Step", "find_recipe", "recipe"]


def find_recipe(name: str) -> Recipe:
    """The recipe of a name; an unknown one is refused with the nearest names."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(RECIPES)}"
    raise TransformError("find_recipe", f"there is no recipe '{name}'", hint)
