"""How a schedule of matmul, and its config, are chosen for a shape: by a model of time, which knows
the rates that were measured of some tiles of each schedule.

It needs no GPU, and some milliseconds. The schedules and their rungs are in `gemm`, `mma`, `wgmma`
and `skinny`; the ladders that end in a recipe which chooses are here.

Products with more around them are on the schedules of matmul, too: batches of them, and a bias and
a function of the sums, which become part of the store. A kernel has ladders of the schedules of
`mma` and `wgmma`, and of `gemm` for all types. What each knob adds, the ladders of matmul show;
theirs have configs of the upper rungs, and what `choose` does.

A `Forecast` is what the model expects of any config, of those too that nobody has measured: one
whose tile has no rates borrows those of the most similar one. That is a guess, good enough to say
which of some hundred configs to time first.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from tvm import DataType
from tvm.s_tir import Schedule

from ..gpu_limits import MAX_SHARED_BYTES, WARP
from ..hopper.tma_tiles import ATOM, PITCH
from ..hopper.wgmma_intrinsics import THREADS
from ..reduction import HALVES
from ..schedule import TransformError
from ..warp_tiling import STRIP
from . import gemm, mma, skinny, wgmma
from .gemm import GemmConfig
from .matmul_tutorials import matmul_bias_relu_shared_blocking
from .mma import MmaConfig
from .recipe import Example, Recipe, recipe
from .row_ladders import RowConfig, schedule_matvec
from .row_ladders import rank_configs as rank_rows
from .rungs import Expects, Family, Ladder, Rung, order, read_pairs
from .skinny import SkinnyConfig
from .tiled_product import VECTOR_BYTES, Engine
from .time_model import (
    GPUS,
    H200,
    Costs,
    Gpu,
    Product,
    Ranked,
    TileRate,
    choose_tail,
    count_tiles,
    estimate,
    list_parts,
    read_costs,
    read_gpu,
    read_sizes,
    read_table,
    read_tiles,
)
from .wgmma import SLAB, WgmmaConfig, count_slot_bytes

_FEW_ROWS, _LONG = 2, 512
"""Rows that are multiplied without tiles, along so long a k."""
_FEW_UNALIGNED, _FEW_SCATTERED = 8, 4
"""Rows that are, where tensor cores would take copies of operands; and where no vector reads B."""
_SHORT = 1024
"""Bytes along k: of fewer, all tiles of wgmma go 128 at a time."""
_TRANSPOSED = 0.8
"""Relative rate where threads transpose B's tiles element by element: from 5 TF32 matmuls on an
H100 that need split-K."""
_LARGE_TILE, _LEAST, _NARROWER = 128 * 192, 0.75, 0.91
"""Elements of the smallest tile that may be made narrower, to which part of its columns at least,
and the relative rate of that tile then, whose rows of B straddle lines of the L2 cache: from 30
bfloat16 matmuls on an H200."""
_PARTS = (1, 2, 4, 8, 16)
_WGMMA_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
"""Slices of the reduction that are tried."""

COPY_US, COPY_BYTES_PER_US = 2.0, 2.4e6
"""Cost of a kernel that zero-pads an operand on an H200: before its first byte, and per byte."""
SHORT_K, _FEW_TILES = 64, 8
"""Matmuls that mma.sync multiplies in one step, with at most so many tiles per multiprocessor."""
_FEW_COLUMNS, _READ_US, _READ_BYTES_PER_US = 16, 4.5, 1.6e6
"""Matmuls bound by reading A: time before the first product, and for reading element by element."""
_SLOWER = 1.2
"""What the ladder matmul takes for 16 bits, of what its model says, whose times are of 32."""
_LOAD_FLOPS = 400.0
"""What a copy by a thread of fewer than 16 bytes takes, in flops: from 18 bfloat16 matmuls."""
_BLOCKS_READING = 6.5
"""Blocks of a multiprocessor that read A at the same time."""
_READ_ROWS, _WEIGHT_BYTES_PER_US = 64, 1.9e6
"""Matmuls of so few rows that they are bound by reading B, element by element."""


ENGINES: Mapping[type, type[Engine]] = {
    GemmConfig: gemm.GemmEngine,
    MmaConfig: mma.MmaEngine,
    WgmmaConfig: wgmma.WgmmaEngine,
}
"""The engine that multiplies the tiles of a config."""


class Choice(NamedTuple):
    """A config, of whichever schedule, and why it is not the model's first; "" where it is."""

    config: Any
    why: str = ""


FEW_ROWS = "too few rows for tiles: this is from the ladder matmul_skinny"
VECTOR = "a matrix times a vector is scheduled row by row, as by the ladder of matvec"
UNALIGNED = "rows that are not whole vectors are read as they are, by this config of the ladder "


class MeasuredTile(NamedTuple):
    """A tile of the model: the config of its schedule, and its rates."""

    config: GemmConfig
    rate: TileRate


def make_best(family: Family, kind: str, expects: Expects, golden: Example | None = None) -> Recipe:
    """The recipe ``<kernel>_<kind>_best`` of a family, which chooses a config."""

    def best(sch: Schedule, *, device: str = "NVIDIA H200") -> Iterator[str]:
        config = choose(sch, best.__name__, device).config
        if isinstance(config, SkinnyConfig):
            yield from skinny.schedule(sch, config)
        elif isinstance(config, RowConfig):
            yield from schedule_matvec(sch, sch.get_sblock("C"), config)
        else:
            yield from ENGINES[type(config)].run(sch, config)

    best.__name__ = "_".join(filter(None, (family.kernel, kind, "best")))
    best.__doc__ = (
        "The knobs that the time model expects to be fastest.\n\n"
        "Where tiles do not divide the shape, they are zero-padded as they are fetched; for\n"
        "tensor cores, a kernel before zero-pads operands with unaligned rows. Matmuls of few\n"
        "rows, or on tensor cores of few unaligned columns, use other ladders of matmul.\n"
        'Knobs: device, a GPU by its name, or by its properties, "multiprocessors=84\n'
        'megahertz=1695 shared_kib=99 gigabytes=936".'
    )
    return recipe(
        kernel=family.kernel,
        blocks=family.blocks,
        default_example=family.default_example,
        golden=golden or Example(family.small.shape, options=family.small.options),
        expects=expects,
        dtypes=family.dtypes,
        arch=family.arch,
    )(best)


matmul_best = make_best(
    gemm.GEMM, "", {"parts_added": ("vector_stores >= 1",)}, Example({"m": 32, "n": 48, "k": 1024})
)
matmul_mma_best = make_best(
    mma.MMA, "mma", {"next_tiles_asynchronously": ("cp_async_bytes == 16", *mma.ON_TENSOR_CORES)}
)
matmul_wgmma_best = make_best(wgmma.WGMMA, "wgmma", {"tensorized": wgmma.ON_TENSOR_CORES})


def choose(sch: Schedule, recipe_name: str, device: str) -> Choice:
    """The config that a choosing recipe takes for a schedule of its matmul, at block "C".

    Without tensor cores it is the tile that the model expects to be fastest, or none for few rows.
    Operands of 16 bits with unaligned rows are read as they lie: by mma.sync for a short k and for
    few columns, by wgmma for few of them, and else without tensor cores, but where the fastest tile
    of wgmma is faster, with the kernels that copy operands for it. Times are compared by models,
    but for one step of k. What the constants say was measured at 19 products on an H100, and at 18
    on an H200.
    """
    kind = "wgmma" if "wgmma" in recipe_name else "mma"
    is_plain = recipe_name == f"matmul_{kind}_best"
    instead = f"matmul_{kind}_async" if is_plain else "constant sizes"
    if recipe_name == "matmul_best":
        read_gpu(device)
        instead = "matmul_prefetched with sizes"
    sizes, gpu = read_sizes(sch, sch.get_sblock("C"), recipe_name, instead), find_gpu(device)
    if not sizes.outer and sizes.is_by_vector and (recipe_name == "matmul_best" or is_plain):
        (best, _), *_ = rank_rows(sizes.m * sizes.n, sizes.k, sizes.dtype, sums=0, gpu=gpu)
        return Choice(best, VECTOR)
    is_few = sizes.m <= _FEW_ROWS and sizes.k >= _LONG and sizes.across_k
    if recipe_name == "matmul_best":
        if is_few:
            return Choice(skinny.choose_config(sch, sizes, gpu), FEW_ROWS)
        ranked = [it.config for it in rank_gemm(sizes, gpu)]
        # Types of other sizes have rules of their own for vectors.
        if str(sizes.dtype) != "float32":
            ranked = [next((it for it in ranked if fits(sch, it)), ranked[0])]
        return Choice(ranked[0])
    if is_plain and is_few and sizes.dtype.bits == 16:
        return Choice(skinny.choose_config(sch, sizes, gpu), FEW_ROWS)
    # With a bias and a function a product is tiled as without.
    if not is_plain or sizes.has_whole_rows or not sizes.across_k:
        return choose_for(sizes, kind, gpu)
    is_scattered = sizes.n * sizes.size % VECTOR_BYTES > 0
    if sizes.m <= (_FEW_SCATTERED if is_scattered else _FEW_UNALIGNED):
        return Choice(skinny.choose_config(sch, sizes, gpu), FEW_ROWS)
    if kind == "mma" or sizes.dtype.bits != 16:
        return choose_for(sizes, kind, gpu)
    by_mma: Any = {**mma.rows.config, "warp": (16, 16), "tile_k": SHORT_K, "tail": "pad"}
    tiles = math.ceil(sizes.m / 32) * math.ceil(sizes.n / 32)
    if sizes.k <= SHORT_K and tiles <= _FEW_TILES * gpu.multiprocessors:
        by_mma |= {"tile": (32, 32), "stages": 1}
        return Choice(MmaConfig(**by_mma), UNALIGNED + "matmul_mma")
    ranked = rank_wgmma(sizes, gpu)
    most, chosen = ranked[0].choice.us + count_copies(sizes, gpu), None
    if sizes.n % 2 == sizes.k % 2 == 0:  # threads copy no fewer than 4 bytes asynchronously
        costs = replace(get_costs("matmul_wgmma", sizes.size, gpu), load_flops=_LOAD_FLOPS)
        for it in ranked:
            us = estimate(sizes, it.choice.rate, it.choice.parts, costs).us
            if it.config.copies == "threads" and us < most:
                config = replace(it.config, tail="pad", transpose="tile")
                most, chosen = us, Choice(config, UNALIGNED + "matmul_wgmma")
    # One operand is read once, element by element, in slices of k for all multiprocessors.
    read, tiles = 0.0, 0
    if sizes.n <= _FEW_COLUMNS:
        read, tiles = sizes.m / _READ_BYTES_PER_US, math.ceil(sizes.m / 64)
        by_mma |= {"tile": (64, 16), "stages": 2, "layout": "padded"}
    elif sizes.m <= _READ_ROWS < sizes.n and is_scattered:
        read, tiles = sizes.n / _WEIGHT_BYTES_PER_US, math.ceil(sizes.n / 64)
        by_mma |= {"tile": (64, 64), "warp": (32, 32), "stages": 1}
    if tiles:
        costs, read = read_costs("matmul"), read * sizes.k * sizes.size
        us = costs.launch_us + _READ_US + read * H200.gigabytes / gpu.gigabytes + costs.sums_us
        if us < most:
            wanted = int(_BLOCKS_READING * gpu.multiprocessors / tiles)
            by_mma["split_k"] = max(1, min(wanted, sizes.k // SHORT_K))
            most, chosen = us, Choice(MmaConfig(**by_mma), UNALIGNED + "matmul_mma")
    for it in rank_gemm(sizes, gpu):
        if _SLOWER * it.choice.us >= most:
            break
        if fits(sch, it.config):
            return Choice(it.config, UNALIGNED + "matmul")
    return chosen or choose_for(sizes, kind, gpu)


def rank_configs(recipe_name: str, product: Product, gpu: Gpu) -> list[Ranked]:
    """The configs among which a recipe chooses by the model, fastest first."""
    if recipe_name == "matmul_best":
        return rank_gemm(product, gpu)
    return (rank_wgmma if "wgmma" in recipe_name else rank_mma)(product, gpu)


def find_gpu(device: str) -> Gpu:
    """The GPU of a name or a description; an H200 for a name that is not known."""
    return read_gpu(device) if device in GPUS or "=" in device else H200


def choose_for(sizes: Product, kind: str, gpu: Gpu) -> Choice:
    """The config of tensor cores, by "mma" or by "wgmma", that the model has for a product.

    Tiles of wgmma that are transposed are copied by threads, but behind a kernel: there tiles come
    first that divide the problem, whose results the TMA stores.
    """
    if kind == "mma":
        config = rank_mma(sizes, gpu)[0].config
    elif not sizes.across_k or sizes.dtype.bits == 16:
        config = rank_wgmma(sizes, gpu)[0].config
    elif sizes.outer or sizes.m < wgmma.REUSED:
        config = rank_wgmma_gathered(sizes, gpu, transposes=True)[0].config
    else:
        ranked = [it.config for it in rank_wgmma(sizes, gpu)]
        whole = (it for it in ranked if choose_tail(sizes, it.tile, it.tile_k) == "refuse")
        config = next(whole, ranked[0])
    tail = choose_tail(sizes, config.tile, config.tile_k * config.split_k)
    if kind == "wgmma" and tail != "refuse":
        config = replace(config, transpose="tile")  # the one that was timed
    return Choice(replace(config, tail=tail))


def count_copies(product: Product, gpu: Gpu) -> float:
    """The microseconds of the kernels that copy operands, whose rows are no whole vectors."""
    us = 0.0
    for rows, length in ((product.m, product.k), (product.k, product.n)):
        if length * product.size % VECTOR_BYTES:
            moved = 2 * rows * length * product.size / COPY_BYTES_PER_US
            us += COPY_US + moved * H200.gigabytes / gpu.gigabytes
    return us


def rank_gemm(product: Product, gpu: Gpu) -> list[Ranked]:
    """The configs without tensor cores that are tried for a product on a GPU, the fastest first:
    tiles with any number of slices of the reduction, and with a padding where something does not
    divide.
    """
    costs, ranked = read_costs("matmul").scale(gpu), []
    for tile, rate in list_tiles(product.size):
        if tile.strip != STRIP and not product.n % STRIP:
            continue  # whole vectors are stored
        whole = product.m % tile.tile[0] == product.n % tile.tile[1] == 0
        for parts in list_parts(product, rate, costs):
            divides = whole and product.k % (tile.tile_k * parts) == 0
            tail: Any = "refuse" if divides else "pad"
            config = replace(tile, split_k=parts, tail=tail)
            ranked.append(Ranked(config, estimate(product, rate, parts, costs)))
    return sorted(ranked, key=lambda it: it.choice.us)


@cache
def list_tiles(size: int) -> tuple[MeasuredTile, ...]:
    """The tiles of the model without tensor cores, for elements of so many bytes."""
    found = []
    for entry in read_table("matmul")["tiles"]:
        config = GemmConfig(**{**gemm.inner_rows.config, **read_pairs(entry["config"])})  # type: ignore[arg-type]
        rates = {name: entry[name] for name in ("rate", "crowded", "registers")}
        found.append(MeasuredTile(config, describe_tile(config, size)._replace(**rates)))
    return tuple(found)


def rank_mma(product: Product, gpu: Gpu) -> list[Ranked]:
    """The configs by mma.sync that are tried for a product on a GPU, the fastest first."""
    row_bytes = 128 if product.k * product.size >= 512 else 64
    tiles = [rate._replace(row_bytes=row_bytes) for rate in read_tiles("matmul_mma")]
    return _rank(product, gpu, "matmul_mma", tiles, _PARTS)


def rank_wgmma(product: Product, gpu: Gpu, *, narrows: bool = False) -> list[Ranked]:
    """The configs by wgmma that are tried for a product on a GPU, the fastest first: the TMA copies
    and stores tiles where that is fastest.

    Large tiles may also be as narrow as the same number of them along the columns allows, or one
    more. With `narrows` all are: where B lies as (columns, k), a tile of any width is as fast.
    """
    length, tiles = product.k * product.size, []
    known, narrower = read_tiles("matmul_wgmma"), list[TileRate]()
    wider, more = known if narrows or product.size == 2 else (), (0,) if narrows else (0, 1)
    for rate, extra in itertools.product(wider, more):
        wide = -(-product.n // (-(-product.n // rate.tile[1]) + extra))
        unit = 32 if narrows and wide > 32 else 16  # a row of the result is slabs of so many
        made, elements = -(-wide // unit) * unit, math.prod(rate.tile)
        if narrows:
            narrower.append(rate._replace(tile=(rate.tile[0], made)))
        elif rate.roles and _LEAST <= made / rate.tile[1] < 1 and elements >= _LARGE_TILE:
            left = _NARROWER if elements == _LARGE_TILE else 1.0
            slower = rate._replace(rate=rate.rate * left, crowded=rate.crowded * left)
            narrower.append(slower._replace(tile=(rate.tile[0], made), padding=-made % SLAB))
    for rate in narrower if narrows else (*known, *narrower):
        if rate.row_bytes > 128 and length < _SHORT:
            continue
        if not rate.stays:
            # Of 8 bits, sums of 32 bits and roles without blocks that stay ptxas waits for one
            # product after the other.
            is_serial = rate.roles and math.prod(rate.part) > 1 and product.result_bytes > 2
            tiles += [] if is_serial and product.size == 1 else [rate]
            continue
        if length <= rate.row_bytes and rate.tile[1] != 192:  # whose vectors then have guards
            rate = rate._replace(row_bytes=rate.row_bytes // 2)
        # A pipeline has two steps or more, and blocks that stay have their stages beside the
        # result, of rows that the TMA can write.
        stages = rate.stages * (sum(rate.tile) + rate.padding) * rate.row_bytes
        row = rate.tile[1] * product.result_bytes
        stored = rate.tile[0] * (count_slot_bytes(row) if rate.stays == 1 else row)
        has_room = stages + stored + ATOM <= MAX_SHARED_BYTES["shared.dyn"] // rate.stays
        is_whole = product.n * product.result_bytes % PITCH == 0
        if is_whole and length > rate.row_bytes and has_room:
            tiles.append(rate)
    return _rank(product, gpu, f"{'conv2d' if narrows else 'matmul'}_wgmma", tiles, _WGMMA_PARTS)


def rank_wgmma_gathered(product: Product, gpu: Gpu, *, transposes: bool = False) -> list[Ranked]:
    """The configs by wgmma where threads must copy tiles, a convolution's, say, and may transpose
    B's.

    Of small ones the next step of k is the sooner there the less waits.
    """
    tiles = []
    for rate in read_tiles("gathered_wgmma"):
        if product.k * product.size < _SHORT and rate.row_bytes > 128:
            rate = rate._replace(row_bytes=128, stages=6)
        slower = _TRANSPOSED if transposes else 1.0
        tiles.append(rate._replace(rate=rate.rate * slower, crowded=rate.crowded * slower))
    return _rank(product, gpu, "gathered_wgmma", tiles, _PARTS)


def _rank(
    product: Product, gpu: Gpu, table: str, tiles: list[TileRate], parts: tuple[int, ...]
) -> list[Ranked]:
    """The configs of tensor cores with tiles, and slices of k, the fastest first."""
    ranked, by_wgmma = [], table.endswith("wgmma")
    known: Any = WgmmaConfig(**wgmma.rows.config) if by_wgmma else MmaConfig(**mma.rows.config)  # type: ignore[arg-type]
    costs = get_costs(table, product.size, gpu)
    found = [
        estimate(product, tile, count, costs)
        for tile in tiles
        for count in parts
        # Few tiles leave nothing to stay for.
        if not tile.stays
        or (count == 1 and count_tiles(product, tile, 1) > gpu.multiprocessors * tile.stays)
    ]
    for it in sorted(found, key=lambda it: it.us):
        rate, knobs = it.rate, dict[str, Any](warp=it.rate.part)
        if by_wgmma:
            knobs = {
                "warpgroups": rate.part,
                "copies": rate.copies,
                "roles": rate.roles,
                "persistent": rate.stays * gpu.multiprocessors,
                "store": "tma" if rate.copies == "tma" else "shared",
                "transpose": "kernel" if product.m >= wgmma.REUSED else "tile",
            }
        knobs |= {"tile": rate.tile, "stages": rate.stages, "split_k": it.parts}
        config = replace(known, tile_k=rate.row_bytes // product.size, **knobs)
        ranked.append(Ranked(config, it))
    return ranked


def get_costs(table: str, size: int, gpu: Gpu) -> Costs:
    """The costs of a schedule for elements of so many bytes: wgmma's rate was measured in 16 bits,
    and goes with the bytes in other types.
    """
    costs = read_costs(table)
    if table.endswith("wgmma"):
        costs = replace(costs, flops_per_us=costs.flops_per_us * 2 / size)
    return costs.scale(gpu)


def describe_tile(config: GemmConfig | MmaConfig | WgmmaConfig, size: int) -> TileRate:
    """The tile of a config, for elements of so many bytes, without its rates."""
    row_bytes, stages = config.tile_k * size, config.stages
    if isinstance(config, GemmConfig):
        return TileRate(
            config.tile,
            config.warp or (1, WARP),
            1.0,
            math.prod(config.threads),
            row_bytes,
            stages if size == 4 else min(stages, 2),
            padding=config.padding,
            is_staged=False,
            strip=config.strip,
        )
    if isinstance(config, MmaConfig):
        threads = max(1, config.warps) * WARP
        return TileRate(config.tile, config.warp, 1.0, threads, row_bytes, stages)
    roles = config.copies == "tma" and config.roles
    return TileRate(
        config.tile,
        config.warpgroups,
        1.0,
        (max(1, config.groups) + roles) * THREADS,
        row_bytes,
        stages,
        copies=config.copies,
        roles=roles,
        stays=-(-config.persistent // H200.multiprocessors) if roles else 0,
    )


def fits(sch: Schedule, config: GemmConfig) -> bool:
    """Whether the schedule takes a config for a matmul."""
    try:
        for _ in gemm.GemmEngine.run(sch.copy(), config):
            pass
    except TransformError:
        return False
    return True


HALF: Mapping[str, object] = {"dtype": "bfloat16", "out": "bfloat16"}
BATCH = Example({"batch": 64, "m": 1024, "n": 1024, "k": 128}, options=HALF)
LINEAR = Example({"m": 4096, "n": 4096, "k": 4096}, options=HALF)


def get_whole_types(family: Family) -> tuple[str, ...]:
    """The types that a family multiplies without losing bits of operands or sums."""
    lost = ("tf32", "float8") if family.arch == wgmma.WGMMA.arch else ("tf32",)
    return tuple(dtype for dtype in family.dtypes if not dtype.startswith(lost))


_KINDS: Mapping[str, tuple[Family, tuple[int, ...], Expects]] = {
    "mma": (mma.MMA, (32, 64, 96), {"next_tiles_asynchronously": mma.ON_TENSOR_CORES}),
    "wgmma": (wgmma.WGMMA, (64, 128, 192), {"tensorized": wgmma.ON_TENSOR_CORES}),
    "": (
        gemm.GEMM,
        (64, 48, 32),
        {"barriers_dropped": ("barriers_per_step == 1", "spills == 0 on sm_90a")},
    ),
}
"""Schedules of matmul, the shapes of their goldens, and what is expected."""


def _make_ladder(
    kernel: str,
    kind: str,
    title: str,
    rung: Rung | None = None,
    why: str = "",
    expects: Expects | None = None,
) -> Ladder:
    """The ladder ``<kernel>_<kind>`` of a schedule of matmul, or of the kernel's own name: a root
    with the config of a rung of matmul, and on tensor cores the recipe that chooses.
    """
    (of, small, expected), is_batched = _KINDS[kind], kernel == "batched_matmul"
    example = replace(BATCH if is_batched else LINEAR, options=HALF if kind else {})
    shape = {**({"batch": 2} if is_batched else {}), **dict(zip("mnk", small, strict=True))}
    # gelu is float32's, and so are its sums; only matmul allows tensor cores to keep fewer bits.
    dtypes = HALVES if kernel == "matmul_bias_gelu" else get_whole_types(of)
    family = replace(
        of,
        kernel=kernel,
        blocks=("C", "C C_cast") if is_batched else ("C D",),
        default_example=example,
        small=replace(of.small, shape=shape, options=example.options),
        dtypes=dtypes if kind else (),
    )
    recipes: list[Recipe] = []
    if rung is not None:
        told = {"expects": expects or expected, "golden": rung.golden.config, **rung.config}
        recipes.append(family.root(kind or "prefetched", why=why, **told))
    if kind:
        recipes.append(make_best(family, kind, expected))
    return order(title, *recipes, name=f"{kernel}_{kind}" if kind else "")


BATCHED_MATMUL = (
    _make_ladder(
        "batched_matmul",
        "mma",
        "tensor cores by mma.sync, one matmul per plane of the grid",
        mma.rows,
        "One matmul per plane of blockIdx.z",
    ),
    _make_ladder(
        "batched_matmul",
        "wgmma",
        "Hopper's tensor cores by wgmma, one matmul per plane of the grid",
        wgmma.roles,
        "One matmul per plane of blockIdx.z, and tiles of three-dimensional tensors by the TMA",
        {"warps_specialized": wgmma.BY_TMA},
    ),
    _make_ladder(
        "batched_matmul",
        "",
        "tiles in registers, one matmul per plane of the grid",
        gemm.prefetched,
        "One matmul per plane of blockIdx.z, as matmul_prefetched computes one",
    ),
)
_TITLE = "with the bias and the function in the store"
MATMUL_BIAS_RELU, _GELU = (
    (
        _make_ladder(kernel, "mma", f"mma.sync, {_TITLE}"),
        _make_ladder(kernel, "wgmma", f"wgmma, {_TITLE}"),
    )
    for kernel in ("matmul_bias_relu", "matmul_bias_gelu")
)
MATMUL_BIAS_GELU = (
    *_GELU,
    _make_ladder(
        "matmul_bias_gelu",
        "",
        "tiles in registers, with the bias and gelu in the store",
        gemm.prefetched,
        "The schedule of matmul_prefetched, with bias and gelu before the store",
    ),
)
PRODUCTS = (*BATCHED_MATMUL, *MATMUL_BIAS_RELU, *MATMUL_BIAS_GELU)
"""Kernels with the schedules of matmul's ladders."""
_LARGE = {"m": 4096, "n": 4096, "k": 4096}
LADDERS = (
    order(
        "tensor cores by mma.sync, one change per rung",
        *mma.MMA.rungs,
        matmul_mma_best,
        name="matmul_mma",
        shape=_LARGE,
    ),
    order(
        "Hopper's tensor cores by wgmma, one knob per rung",
        *wgmma.WGMMA.rungs,
        matmul_wgmma_best,
        name="matmul_wgmma",
        shape=_LARGE,
    ),
    skinny.LADDER,
    order(  # the last of its kernel: its last recipe is for all types
        "tiles in registers, fed by a pipeline, one knob per rung",
        *gemm.GEMM.rungs,
        matmul_best,
        shape=_LARGE,
    ),
    *MATMUL_BIAS_RELU,
    order(
        'the blocking of "TVM Learning (8)-GPU and Hardware Acceleration, Part 1"',
        matmul_bias_relu_shared_blocking,
    ),
    *MATMUL_BIAS_GELU,
    *BATCHED_MATMUL,
)


_MODELS: Mapping[type, tuple[str, Callable[[Product, Gpu], list[Ranked]]]] = {
    WgmmaConfig: ("matmul_wgmma", rank_wgmma),
    MmaConfig: ("matmul_mma", rank_mma),
    GemmConfig: ("matmul", rank_gemm),
}
"""By the config of a family: its table of costs, and who ranks its configs for a product."""
LEAST_REGISTERS = 32
"""Least registers per thread."""


class Forecast(NamedTuple):
    """The expectations of a recipe's configs, for a matmul on a GPU."""

    recipe: Rung
    product: Product
    gpu: Gpu

    def predict(self, config: Mapping[str, object]) -> float:
        """The microseconds of a config, whose other knobs are the recipe's; infinite where its tile
        has no room.
        """
        size, (table, _) = self.product.size, _MODELS[self.recipe.family.config]
        made = self.recipe.family.config(**{**self.recipe.config, **config})
        tile = _borrow_rates(describe_tile(made, size), table, size)
        return estimate(self.product, tile, made.split_k, get_costs(table, size, self.gpu)).us

    def list_best(self, count: int) -> list[dict[str, object]]:
        """The knobs of configs that the model itself would choose, fastest first, one a tile."""
        _, rank = _MODELS[self.recipe.family.config]
        return [dict(vars(it.config)) for it in keep_tiles(rank(self.product, self.gpu))[:count]]


def keep_tiles(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The fastest of each tile; the others differ in slices."""
    first: dict[TileRate, Ranked] = {}
    for it in ranked:
        first.setdefault(it.choice.rate, it)
    return [*first.values()]


def make_forecast(recipe: Recipe, problem: Any, gpu: Gpu) -> Forecast | None:
    """A forecast for a problem of a recipe's kernel; None for a recipe without a model of time."""
    if not isinstance(recipe, Rung) or recipe.family.config not in _MODELS:
        return None
    if [*problem.shape][-3:] != ["m", "n", "k"]:  # a convolution is a product of other sizes
        return None
    return Forecast(recipe, read_product(problem), gpu)


def read_product(problem: Any) -> Product:
    """The product of matrices that a problem of a kernel is: sizes m, n, k, behind a batch."""
    *outer, m, n, k = problem.shape.values()
    size, stored = (DataType(problem.arguments[it].dtype).itemsize for it in (0, -1))
    return Product(m, n, k, size, outer[0] if outer else 1, stored)


@functools.lru_cache(maxsize=4096)  # thousands of configs have a few hundred tiles
def _borrow_rates(tile: TileRate, table: str, size: int) -> TileRate:
    """A tile with the rates of that measured one which is most like it.

    Alike are tiles by the factors between their rows and columns, those of their warps, their
    threads, bytes along k and stages, and by who copies, whether blocks stay and how sums lie.
    """

    def differ(known: TileRate) -> float:
        pair = tile, known
        sizes = ((*it.tile, *it.part, it.threads, it.row_bytes, it.stages) for it in pair)
        ways = ((it.copies, it.roles, it.stays, it.strip) for it in pair)
        factors = (abs(math.log2(one / other)) for one, other in zip(*sizes, strict=True))
        return sum(factors) + sum(one != other for one, other in zip(*ways, strict=True))

    is_gemm = table == "matmul"
    measured = [it.rate for it in list_tiles(size)] if is_gemm else read_tiles(table)
    like = min(measured, key=differ)
    registers = 0
    if like.registers:
        mine, known = (it.tile[0] * it.tile[1] // it.threads for it in (tile, like))
        registers = max(LEAST_REGISTERS, mine - known + like.registers)
    return tile._replace(
        rate=like.rate, crowded=like.crowded, registers=registers, store=like.store
    )
