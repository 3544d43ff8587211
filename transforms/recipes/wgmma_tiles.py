"""What the model of time knows of tiles by wgmma: their rates, and who copies and stores them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..gpu_limits import MAX_SHARED_BYTES, REGISTERS
from ..intrinsics.warpgroups import ROWS, THREADS
from ..tma_tiles import ATOM, PITCH
from .gpus import Gpu
from .ladder import Pair
from .tile_choice import rank_tiles
from .time_model import Costs, Product, TileChoice, TileRate
from .wgmma_stores import count_slot_bytes

BY_THREADS = (
    TileRate((128, 256), (2, 1), 1.0, 256),
    TileRate((256, 128), (2, 1), 0.98, 256),
    TileRate((128, 128), (2, 1), 0.81, 256, stages=3),
    TileRate((64, 256), (1, 1), 0.8, 128),
    TileRate((128, 64), (2, 1), 0.45, 256),
    TileRate((64, 128), (1, 1), 0.62, 128, row_bytes=256),
    TileRate((64, 64), (1, 1), 0.51, 128, row_bytes=256, stages=6),
)
"""Rates where threads must copy, as measured on an H200, in bfloat16; those of few rows lie in what
a step of k takes."""


def _by_tma(tile: Pair, rate: float, crowded: float, way: str, **rest: Any) -> TileRate:
    """A tile that the TMA copies and whose result it writes: for all warpgroups at once, for roles,
    or for roles of one or two blocks that stay.

    Where roles share registers out, one block takes all.
    """
    part, roles = (1, 1) if tile[0] == ROWS else (2, 1), way != "all"
    threads = (math.prod(part) + roles) * THREADS
    registers = REGISTERS // threads // 8 * 8 if roles and math.prod(part) > 1 else 0
    return TileRate(
        tile,
        part,
        rate,
        threads,
        crowded=crowded,
        registers=registers,
        copies="tma",
        roles=roles,
        stays={"one stays": 1, "two stay": 2}.get(way, 0),
        store={"all": 0.98, "roles": 1.19, "one stays": 0.49, "two stay": 1.01}[way],
        **rest,
    )


def _by_threads(tile: Pair, rate: float, crowded: float, **rest: Any) -> TileRate:
    """A tile that threads copy, and whose result they write."""
    part = (1, 1) if tile[0] == ROWS else (2, 1)
    threads = math.prod(part) * THREADS
    return TileRate(tile, part, rate, threads, crowded=crowded, store=1.5, **rest)


TILES = (
    _by_tma((128, 256), 1.04, 1.02, "one stays"),
    _by_tma((128, 256), 0.95, 0.93, "one stays", stages=3),
    _by_tma((128, 192), 1.10, 1.08, "one stays"),
    _by_tma((128, 128), 0.91, 0.95, "one stays", stages=6),
    _by_tma((128, 128), 0.86, 0.90, "one stays", stages=5),
    _by_tma((128, 64), 0.79, 0.75, "one stays", stages=6),
    _by_tma((64, 128), 0.77, 0.76, "two stay"),
    _by_tma((128, 256), 1.13, 1.02, "roles"),
    _by_tma((256, 128), 1.08, 1.02, "roles"),
    _by_tma((128, 192), 1.11, 0.98, "roles", stages=5),
    _by_tma((64, 256), 0.84, 1.05, "roles", stages=5),
    _by_tma((128, 128), 1.11, 1.06, "roles", stages=6),
    _by_tma((64, 128), 0.93, 0.88, "roles", stages=8),
    _by_tma((64, 128), 0.92, 0.82, "roles", row_bytes=256),
    _by_tma((128, 64), 0.79, 0.75, "roles", stages=8),
    _by_tma((64, 64), 0.61, 0.55, "roles", row_bytes=256, stages=6),
    _by_tma((128, 256), 1.11, 1.01, "all"),
    _by_tma((256, 128), 1.11, 1.02, "all"),
    _by_tma((128, 128), 0.92, 0.90, "all", stages=6),
    _by_tma((128, 128), 0.45, 0.80, "all", stages=3),
    _by_tma((64, 128), 0.83, 0.69, "all", row_bytes=256),
    _by_tma((64, 128), 0.81, 0.74, "all", stages=6),
    _by_tma((128, 64), 0.50, 0.71, "all"),
    _by_tma((64, 64), 0.58, 0.55, "all", row_bytes=256, stages=6),
    _by_threads((128, 128), 0.73, 0.91, stages=3),
    _by_threads((64, 128), 1.07, 0.64, row_bytes=256),
    _by_threads((64, 128), 0.56, 0.63),
    _by_threads((128, 64), 0.96, 0.56),
    _by_threads((64, 64), 0.49, 0.49, row_bytes=256, stages=6),
    _by_threads((64, 64), 0.52, 0.49, stages=6),
)
"""Fitted, with `COSTS`, to 219 times of 33 products on an H200, none of them a test shape of
docs/shapes.md and most in bfloat16, where rates of five stages were guessed. Of 181 of these times,
whose tiles are here, the root mean square of what is missed is 5 %, and the worst 27 %. The rates
of 128 by 192 whose blocks stay, of 64 by 256 with roles and of 128 by 64 by threads are those of a
later fit to 141 times of 26 products, on an H100 and an H200, which as a whole chose slower tiles
at 1024 and 4096 cubed."""
FLOPS_PER_US = 8.6e8
"""Of all multiprocessors of an H200 in 16 bits, between the first copies of a tile and its store;
of other types as many bytes."""
COSTS = Costs(
    flops_per_us=FLOPS_PER_US,
    sums_bytes_per_us=7.6e6,
    dram_bytes_per_us=3.72e6,
    fill_us=1.2,
    store_us=5.32e-5,
    crowd=0.239,
    hidden=0.162,
    sums_us=2.36,
    launch_us=4.57,
    l2_bytes_per_us=1.6e7,
    begun=0.215,
    astride=2.3,
)
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
"""Slices of the reduction that are tried."""
_SHORT = 1024
"""Bytes along k: of fewer, all tiles go 128 at a time."""


TRANSPOSED = 0.8
"""Of the rate where threads transpose B's tiles, an element at a time: at 5 products in TF32 on an
H100, whose slices of k it has to choose."""


def rank_any(product: Product, gpu: Gpu) -> list[TileChoice]:
    """The tiles for a product, fastest first: the TMA copies and stores them where that is fastest.

    Blocks stay where their stages lie beside a result, of rows that the TMA can write.
    """
    tiles = [rate for rate in (_fit_tile(product, rate) for rate in TILES) if rate is not None]
    return rank_tiles(product, tiles, get_costs(product.size), gpu, _PARTS)


def rank_by_threads(product: Product, gpu: Gpu, *, transposes: bool = False) -> list[TileChoice]:
    """The tiles for a product, fastest first, where threads must copy them, and may transpose B's.

    Of small ones the next step of k is the sooner there the less waits.
    """
    is_short = product.k * product.size < _SHORT
    tiles: Sequence[TileRate] = [
        rate._replace(row_bytes=128, stages=6) if is_short and rate.row_bytes > 128 else rate
        for rate in BY_THREADS
    ]
    speed = FLOPS_PER_US * 2 / product.size * (TRANSPOSED if transposes else 1)
    return rank_tiles(product, tiles, Costs(flops_per_us=speed), gpu)


def get_costs(size: int) -> Costs:
    """What the parts of a product of elements of so many bytes cost, on an H200."""
    return replace(COSTS, flops_per_us=FLOPS_PER_US * 2 / size)


def _fit_tile(product: Product, rate: TileRate) -> TileRate | None:
    """A tile for the depth of a product; None where it is none for it.

    A pipeline has two steps or more, and blocks that stay have their stages beside the result. Of 8
    bits, sums of 32 bits and roles without them ptxas waits for one product after the other.
    """
    length = product.k * product.size
    if rate.row_bytes > 128 and length < _SHORT:
        return None
    if not rate.stays:
        is_serial = rate.roles and math.prod(rate.part) > 1 and product.result_bytes > 2
        return None if is_serial and product.size == 1 else rate
    if length <= rate.row_bytes and rate.tile[1] != 192:  # whose vectors then have guards
        rate = rate._replace(row_bytes=rate.row_bytes // 2)
    is_whole = product.n * product.result_bytes % PITCH == 0
    return rate if is_whole and length > rate.row_bytes and _has_room(product, rate) else None


def _has_room(product: Product, rate: TileRate) -> bool:
    """Whether shared memory holds a result beside all stages, of each block that stays."""
    stages = rate.stages * sum(rate.tile) * rate.row_bytes
    row = rate.tile[1] * product.result_bytes
    stored = rate.tile[0] * (count_slot_bytes(row) if rate.stays == 1 else row)
    return stages + stored + ATOM <= MAX_SHARED_BYTES["shared.dyn"] // rate.stays
