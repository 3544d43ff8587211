"""Products of 16 bits whose rows are no multiples of 16 bytes, without copies of their operands.

wgmma takes copies of them, by kernels of their own. Other schedules read them as they lie, and are
faster where these kernels are most of the time: without tiles for few rows, by mma.sync for a short
k and for few columns, and without tensor cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tvm.s_tir import Schedule

from . import gemm, gemm_best, mma, skinny
from .costs import read_costs
from .gemm import GemmConfig
from .gpus import H200, Gpu
from .mma import MmaConfig
from .skinny import SkinnyConfig
from .tile_choice import VECTOR_BYTES, Sizes
from .time_model import Product, Rank

Config = SkinnyConfig | GemmConfig | MmaConfig

COPY_US, COPY_BYTES_PER_US = 2.0, 2.4e6
"""Of a kernel that copies an operand between zeros, on an H200: before its first byte, and then."""
SHORT_K, FEW_TILES = 64, 8
"""Of a product that mma.sync multiplies in one step, in so many tiles of a multiprocessor."""
FEW_COLUMNS, READ_US, READ_BYTES_PER_US = 16, 4.5, 1.6e6
"""Of a product whose time is that of reading A: before its first product, and element by element.
"""
SLOWER = 1.2
"""What the ladder matmul takes for 16 bits, of what its model says, whose times are of 32."""
_PER_MULTIPROCESSOR = 6.5
"""Blocks that read A at the same time."""
_BYTES = 2


def choose_without_copies(sch: Schedule, sizes: Sizes, rank: Rank, gpu: Gpu) -> Config | None:
    """The config in place of a tile that takes copies of operands, or of few rows; None where the
    fastest tile of `rank` is faster.

    Times are compared by models, but for up to 8 rows and for one step of k. What these
    constants say was measured at 19 products on an H100.
    """
    few = skinny.choose_for_odd_rows(sch, sizes, gpu)
    is_known = sizes.across_k and not sizes.outer and sizes.dtype.itemsize == _BYTES
    if few is not None or sizes.has_whole_rows or not is_known:
        return few
    if _is_small(sizes, gpu):
        return _make_mma_config((32, 32), stages=1, parts=1)
    product = sizes.product
    most = rank(product, gpu)[0].choice.estimate.us + count_copies(product, gpu)
    chosen: Config | None = None
    if sizes.n <= FEW_COLUMNS and (us := _count_few_columns(sizes, gpu)) < most:
        most, chosen = us, _cut_few_columns(sizes, gpu)
    for it in gemm_best.rank_configs(product, gpu):
        if SLOWER * it.choice.estimate.us >= most:
            break
        if gemm_best.fits(sch, it.config):
            chosen = it.config
            break
    return chosen


def schedule_without_copies(sch: Schedule, config: Config) -> Iterator[str]:
    """The steps of a config that `choose_without_copies` chose, on block "C" of matmul."""
    if isinstance(config, SkinnyConfig):
        return skinny.schedule(sch, config)
    if isinstance(config, MmaConfig):
        return mma.schedule(sch, config)
    return gemm.schedule(sch, config)


def count_copies(product: Product, gpu: Gpu) -> float:
    """The microseconds of the kernels that copy operands, whose rows are no whole vectors."""
    us = 0.0
    for rows, length in ((product.m, product.k), (product.k, product.n)):
        if length * product.size % VECTOR_BYTES:
            us += COPY_US + _slow_down(2 * rows * length * product.size / COPY_BYTES_PER_US, gpu)
    return us


def _slow_down(us: float, gpu: Gpu) -> float:
    """What takes so long on an H200 for its memory."""
    return us * H200.bytes_per_us / gpu.bytes_per_us


def _is_small(sizes: Sizes, gpu: Gpu) -> bool:
    """Whether all of k is one step of a few tiles by mma.sync, all of whose loads are in flight."""
    tiles = math.ceil(sizes.m / 32) * math.ceil(sizes.n / 32)
    return sizes.k <= SHORT_K and tiles <= FEW_TILES * gpu.multiprocessors


def _count_few_columns(sizes: Sizes, gpu: Gpu) -> float:
    """The microseconds of a product of few columns, in slices of k that a second kernel adds up."""
    costs = read_costs("matmul").costs
    read = sizes.m * sizes.k * _BYTES / READ_BYTES_PER_US
    return costs.launch_us + READ_US + _slow_down(read, gpu) + costs.sums_us


def _cut_few_columns(sizes: Sizes, gpu: Gpu) -> MmaConfig:
    """Slices of k for all multiprocessors, each of which reads rows of A once."""
    tile = (64, 16)
    wanted = int(_PER_MULTIPROCESSOR * gpu.multiprocessors / math.ceil(sizes.m / tile[0]))
    parts = max(1, min(wanted, sizes.k // SHORT_K))
    return replace(_make_mma_config(tile, stages=2, parts=parts), layout="padded")


def _make_mma_config(tile: tuple[int, int], *, stages: int, parts: int) -> MmaConfig:
    return replace(
        MmaConfig(**mma.rows.config),  # type: ignore[arg-type]
        tile=tile,
        warp=(16, 16),
        tile_k=SHORT_K,
        stages=stages,
        split_k=parts,
        tail="pad",
    )
