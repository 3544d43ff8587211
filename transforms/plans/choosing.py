"""Which configs plans are tried with for a function, the best first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import IterVar

from ..queries import is_reduction
from ..recipes import mma
from ..recipes.elementwise import FlatConfig
from ..recipes.gemm import GemmConfig
from ..recipes.gemm_best import rank_configs
from ..recipes.gpus import read_gpu
from ..recipes.rows import RowConfig, choose_config
from ..recipes.tile_choice import Sizes
from ..tir import constant
from .roles import find_row_iterators
from .rows import find_row_axes

DEVICE = "NVIDIA H200"
"""Of which the models of time know most; others are taken by their properties."""
PLAIN_ROWS = RowConfig(threads=256, tail="guard")
"""Rows of any length, that are read again by each block."""
FLAT = FlatConfig(threads=256, vector=8, tail="guard")
OPEN_MATMUL = GemmConfig(
    threads=(8, 16), thread_tile=(8, 4), tile_k=16, warp=(4, 8), stages=2, tail="pad"
)
"""Tiles of 64 rows and columns: of sizes that are not known when it is compiled."""
_HALVES = ("float16", "bfloat16")
_TRIED, _MANY = 3, 1 << 16


def choose_matmul(
    sch: Schedule, block: SBlockRV, *, device: str = DEVICE, tensor_cores: bool = False
) -> list[GemmConfig | mma.MmaConfig]:
    """Configs for a product: the fastest by a model of time; one of any size where some are open.

    With `tensor_cores` products of half precision are first tried on these.
    """
    node = sch.get(block)
    extents = [constant(iterator.dom.extent) for iterator in node.iter_vars]
    if None in extents:
        return [OPEN_MATMUL]
    *outer, m, n, k = (extent or 1 for extent in extents)
    sizes = Sizes(m, n, k, node.reads[-1].source.dtype, tuple(outer))
    ranked: list[GemmConfig] = [
        each.config for each in rank_configs(sizes.product, read_gpu(device))[:_TRIED]
    ]
    simple = [replace(config, split_k=1, tail="pad") for config in ranked[:1]]
    found: list[GemmConfig | mma.MmaConfig] = [*ranked, *simple, OPEN_MATMUL]
    if tensor_cores and str(sizes.dtype) in _HALVES:
        found.insert(0, mma.choose_for(sizes, "matmul_mma", device))
    return found


def choose_rows(
    sch: Schedule, blocks: Sequence[SBlockRV], *, device: str = DEVICE
) -> list[RowConfig]:
    """Configs for rows: by the rules of the recipes for rows, and one of rows of any length."""
    block = next(each for each in blocks if is_reduction(sch, each))
    node = sch.get(block)
    row = find_row_iterators(sch, block, [])
    length = _multiply(row)
    height = _multiply([it for it in node.iter_vars if it.iter_type != IterVar.CommReduce])
    axes = find_row_axes(sch, blocks)
    dimensions = len(sch.get(blocks[-1]).iter_vars)
    is_inner = len(row) == 1 and axes in ([], [dimensions - 1])
    if length is None or not is_inner:
        return [PLAIN_ROWS]
    dtype = node.reads[0].source.dtype
    chosen = choose_config(
        height or _MANY, length, dtype, is_single=len(blocks) == 1, device=device
    )
    if height is None:
        chosen = replace(chosen, rows=1)
    if not axes and not is_reduction(sch, blocks[-1]):  # one number for each row is stored
        chosen = replace(chosen, in_registers=False, each=0, parts=1)
    plain = replace(PLAIN_ROWS, threads=chosen.threads, rows=chosen.rows)
    return [chosen, plain, replace(plain, rows=1), PLAIN_ROWS]


def choose_flat() -> list[FlatConfig]:
    """Configs for elements: in vectors where there are some, and one by one."""
    return [FLAT, replace(FLAT, vector=1)]


def _multiply(iterators: Sequence[IterVar]) -> int | None:
    """How many points iterators have together; None of an open size."""
    extents = [constant(iterator.dom.extent) for iterator in iterators]
    return None if None in extents else math.prod(extent or 1 for extent in extents)
