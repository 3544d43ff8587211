"""Attention on scalar units: from six kernels, one for each block, to one.

What is fused by rolling updates is FlashAttention (T. Dao and others, 2022): scores never leave a
block of threads, and sums are repaired where the maximum of a row moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import ForKind

from ..binding import bind_loop
from ..caching import cache_read_at, fetch_cooperatively, place_copy_at, stage_operand_at
from ..fusion.fuse import fuse_reductions
from ..gpu_limits import MAX_SHARED_BYTES
from ..layout import pad_longer_rows
from ..loops import Tail, fuse_loops, reorder_loops, split_loop, suggest_unrolling
from ..masked_loops import end_loop_at_mask
from ..padding import pad_axis
from ..pass_options import set_pass_option, set_pipeline
from ..placement import compute_block_at, reverse_compute_block_at
from ..queries import get_extent, get_own_loops, get_spatial_loops, is_reduction_loop
from ..reduction import decompose_reduction_at
from ..schedule import TransformError
from ..thread_rows import keep_in_registers, spread_over_threads
from ..tir import LARGEST_INDEX, constant
from .fused_chains import TilesConfig, bind_elements, share_rows, tile_product
from .recipe import Example, get_sblocks
from .rungs import Family, Pair, knob, order, pairs

BLOCKS = "scores max exp sum weighted Y"
FORMS = (BLOCKS, BLOCKS.replace("max", "mask masked max"))
"""Without a mask that is data, and with one."""
SMALL_CONFIG = {"threads": (2, 2), "thread_tile": (2, 2), "tile_k": 4}


@dataclass(frozen=True, kw_only=True)
class UnfusedConfig(TilesConfig):
    """Knobs of attention whose scores go through global memory."""

    rows: bool = knob(False, "whether the threads of a warp share a row of scores")
    stored: bool = knob(True, "whether exponentials are stored, or computed where they are read")


def schedule_unfused(sch: Schedule, config: UnfusedConfig) -> Iterator[str]:
    """Products, rows and what is between them in kernels of their own."""
    scores, *mask, largest, power, total, weighted, result = get_sblocks(sch)
    for block in mask:  # computed where its results are read
        sch.compute_inline(block)
    sizes = [constant(size) for size in sch.get(scores).writes[0].source.shape]
    count = math.prod(size or 1 for size in sizes)
    if count > LARGEST_INDEX:
        raise TransformError(
            "schedule_unfused",
            f"the scores are {count} elements in global memory, and indices of 32 bits end at "
            f"{LARGEST_INDEX}",
            "use a recipe in one kernel, or choose smaller sizes",
        )
    if config.tiled:
        for block, name in ((scores, "scores"), (weighted, "values")):
            tile_product(sch, block, config)
            yield f"{name}_tiled"
    if not config.stored:
        sch.compute_inline(power)
        yield "exponentials_inlined"
    if config.rows:
        for block in (largest, total):
            share_rows(sch, block, config)
        yield "rows_shared"
    products = [] if config.tiled else [scores, weighted]
    rows = [] if config.rows else [largest, total]
    for block in (*products, *rows, *([power] if config.stored else []), result):
        bind_elements(sch, block, config)
    yield "bound"


SMALL = {"batch": 1, "heads": 2, "queries": 12, "keys": 16, "dim": 8}
SHAPE = {"batch": 4, "heads": 16, "queries": 2048, "keys": 2048, "dim": 64}
"""Sizes that fill a GPU, where ladders are timed; judging them takes minutes."""
FEWER = {"batch": 1, "heads": 8, "queries": 1024, "keys": 1024}
EXAMPLE = {**SHAPE, **FEWER}
UNFUSED = Family(
    kernel="attention",
    config=UnfusedConfig,
    schedule=schedule_unfused,
    blocks=FORMS,
    default_example=Example(EXAMPLE),
    small=Example(SMALL, config=SMALL_CONFIG),
    tiles=("threads",),
)
naive = UNFUSED.root(
    "naive",
    why="One kernel for each TIR block, and one thread for each element",
    expects={"bound": ("kernels == 6", "barriers == 0")},
)
tiled = naive.plus(
    "tiled",
    tiled=True,
    searched=("thread_tile", "tile_k"),
    why="Tiles of queries, keys and values in shared memory, and of the products in registers",
    expects={"bound": ("kernels == 6", "barriers_per_step == 4")},
)
rows = tiled.plus(
    "rows",
    rows=True,
    why="A warp shares each row of scores, so that its threads read adjacent elements",
)
rows.plus(
    "inlined",
    stored=False,
    why="Exponentials are computed where they are read, as tiles are fetched, and never stored",
    expects={"bound": ("kernels == 5", "barriers_per_step == 4")},
)


FEW = 8
"""Rows of a result, below which guards leave loops of a single iteration: TVM would use their
variables behind them."""


def pad_tiles(
    sch: Schedule, blocks: Sequence[SBlockRV], *, queries: int, keys: int, dim: int
) -> Iterator[str]:
    """Queries, keys and elements of a head in whole tiles, where they are none.

    A kernel of its own crops a padded result of fewer rows than `FEW`.
    """
    scores, *_, largest, _, _, weighted, result = blocks
    sizes = ((largest, 2, queries), (largest, 3, keys), (scores, 4, dim), (weighted, 3, dim))
    extents = [get_extent(sch, sch.get_loops(block)[place]) or 1 for block, place, _ in sizes]
    if extents[0] < FEW:
        crop = fuse_loops(sch, sch.get_loops(sch.cache_write(result, 0, "global")))
        elements = split_loop(sch, crop, inner=128, tail="guard")
        bind_loop(sch, elements.outer, axis="blockIdx.x")
        bind_loop(sch, elements.inner, axis="threadIdx.x")
    for block, place, multiple in sizes:
        pad_axis(sch, sch.get_loops(block)[place], multiple=multiple)
    if any(extent % size[2] for extent, size in zip(extents, sizes, strict=True)):
        yield "padded"


@dataclass(frozen=True, kw_only=True)
class QueryConfig:
    """Knobs of attention in one kernel with a query for each thread."""

    threads: int = knob(64, "queries of a block, one for each thread", choices=(32, 64, 128))
    keys: int = knob(16, "keys whose scores a thread holds at once", choices=(8, 16, 32))
    staged: bool = knob(False, "whether tiles of keys and values lie in shared memory")
    tail: Tail = knob("refuse", "what happens where these do not divide")


def schedule_queries(sch: Schedule, config: QueryConfig) -> Iterator[str]:
    """One kernel, whose threads each go over all keys for a query."""
    scores, *mask, largest, power, total, weighted, result = get_sblocks(sch)
    for block in mask:
        sch.compute_inline(block)
    batch, head, query, key = sch.get_loops(largest)
    grid, row = split_loop(sch, query, inner=config.threads, tail=config.tail)
    steps, _ = split_loop(sch, key, inner=config.keys, tail=config.tail)
    tiles, _ = fuse_reductions(sch, largest, total, steps)
    _, (power,) = fuse_reductions(sch, largest, weighted, steps)
    yield "fused"
    compute_block_at(sch, scores, steps)
    reverse_compute_block_at(sch, result, row)
    yield "all_in_one_nest"
    _bind(sch, {"blockIdx.z": batch, "blockIdx.y": head, "blockIdx.x": grid, "threadIdx.x": row})
    for block in (scores, *tiles, largest, power, total, weighted):
        keep_in_registers(sch, block)
    cache_read_at(sch, scores, row, operand=0, scope="local")
    yield "in_registers"
    if config.staged:
        for block, operand in ((scores, 1), (weighted, 3)):
            stage_operand_at(sch, block, steps, operand=operand, threads=config.threads)
        yield "keys_and_values_in_shared_memory"
    for block in (scores, weighted):
        _unroll_product(sch, block)
    yield "unrolled"


def _unroll_product(sch: Schedule, block: SBlockRV) -> None:
    """Let the steps of a product be outermost, its repair or zeros in front of them, and all of it
    be unrolled: what lies in registers has constant places.
    """
    loops = [it for it in get_own_loops(sch, block) if sch.get(it).kind == ForKind.SERIAL]
    steps = [it for it in loops if is_reduction_loop(sch, block, it)]
    if not steps:
        return  # of one step, which TVM knows by itself
    depth = steps[0]
    reorder_loops(sch, [depth, *(it for it in loops if it is not depth)])
    decompose_reduction_at(sch, block, depth)
    suggest_unrolling(sch, depth)


def _bind(sch: Schedule, loops: Mapping[str, LoopRV]) -> None:
    for axis, loop in loops.items():
        bind_loop(sch, loop, axis=axis)


@dataclass(frozen=True, kw_only=True)
class TileConfig:
    """Knobs of attention in one kernel with a tile of queries for each block of threads.

    What the tiles do not divide is padded.
    """

    threads: Pair = knob(
        (16, 16), "rows and columns of threads in a block", choices=pairs((8, 16), (8, 16, 32))
    )
    thread_tile: Pair = knob(
        (4, 2),
        "rows and columns of scores that a thread computes",
        choices=pairs((2, 4, 8), (1, 2, 4)),
    )
    padding: int = knob(
        0, "words of 4 bytes that the rows of the tile of keys are padded by", least=0
    )
    ends_at_mask: bool = knob(
        False, "whether fully masked tiles of keys are skipped; causal attention only"
    )


def schedule_tiles(sch: Schedule, config: TileConfig) -> Iterator[str]:
    """One kernel, whose blocks of threads share queries, keys, values and exponentials."""
    scores, *mask, largest, power, total, weighted, result = blocks = get_sblocks(sch)
    (lines, columns), (each, wide) = config.threads, config.thread_tile
    yield from pad_tiles(sch, blocks, queries=lines * each, keys=columns * wide, dim=columns)
    for block in mask:
        sch.compute_inline(block)
    batch, head, query, key = sch.get_loops(largest)
    tiles, rest = split_loop(sch, query, inner=lines * each)
    line, row = split_loop(sch, rest, inner=each)
    steps, _ = split_loop(sch, key, inner=columns * wide)
    reorder_loops(sch, [line, steps, row])
    (tile, part), _ = fuse_reductions(sch, largest, total, steps, accumulate="apart")
    _, (power,) = fuse_reductions(sch, largest, weighted, steps)
    yield "fused"
    compute_block_at(sch, scores, steps)
    reverse_compute_block_at(sch, result, line)
    yield "all_in_one_nest"
    _bind(sch, {"blockIdx.z": batch, "blockIdx.y": head, "blockIdx.x": tiles, "threadIdx.y": line})
    for block in (part, power, tile):  # readers first
        spread_over_threads(sch, block, threads=columns, vector=wide)
    # The columns of results, neighbouring ones on one thread, and those of scores as rows are.
    queries = sch.get(scores).reads[0].source
    dim = constant(queries.shape[-1]) or 1
    for block, size in ((result, dim // columns), (weighted, dim // columns), (scores, wide)):
        among, _ = sch.split(get_spatial_loops(sch, block)[-1], [columns, size])
        bind_loop(sch, among, axis="threadIdx.x")
    # Results in registers of the threads that compute them, and one for all threads of a block.
    for block in (scores, tile, part, largest, total, weighted):
        for place in range(len(sch.get(block).writes)):
            sch.set_scope(block, place, "local")
    sch.set_scope(power, 0, "shared")
    set_pipeline(sch)  # whose passes keep sums over threads in registers
    set_pass_option(sch, name="tirx.disable_storage_rewrite", value=True)
    yield "in_registers"
    # More than 48 KiB of queries, keys, values and exponentials want dynamic shared memory.
    operands = lines * each * dim + columns * wide * (2 * dim + config.padding)
    exponentials = lines * each * columns * wide * sch.get(scores).writes[0].source.dtype.itemsize
    used = operands * queries.dtype.itemsize + exponentials
    scope = "shared.dyn" if used > MAX_SHARED_BYTES["shared"] else "shared"
    keys = place_copy_at(sch, scores, steps, operand=1, scope=scope, inlines=True)
    pad_longer_rows(sch, keys, elements=config.padding)
    fetch_cooperatively(sch, keys, threads=config.threads, tail="guard")
    for block, loop, operand in ((weighted, steps, 3), (scores, line, 0)):
        stage_operand_at(sch, block, loop, operand=operand, threads=config.threads, scope=scope)
    yield "in_shared_memory"
    for block in (scores, weighted):
        _unroll_product(sch, block)
    yield "unrolled"
    if config.ends_at_mask:
        end_loop_at_mask(sch, steps)
        yield "ends_at_mask"


BY_QUERIES = Family(
    kernel="attention",
    config=QueryConfig,
    schedule=schedule_queries,
    blocks=FORMS,
    default_example=Example(EXAMPLE),
    small=Example(SMALL, config={"threads": 4, "keys": 4}),
    tiles=("threads", "keys"),
)
fused = BY_QUERIES.root(
    "fused",
    why="One kernel: a thread holds a query's scores, maximum and sums in registers, and rescales "
    "the sums when the maximum changes",
    expects={"unrolled": ("kernels == 1", "barriers == 0", "shared_bytes == 0")},
)
fused.plus(
    "staged",
    staged=True,
    why="All threads of a block read the same keys and values, once, from shared memory",
    expects={"unrolled": ("kernels == 1", "barriers_per_step == 2")},
)
BY_TILES = Family(
    kernel="attention",
    config=TileConfig,
    schedule=schedule_tiles,
    blocks=FORMS,
    default_example=Example(EXAMPLE),
    small=Example(SMALL, config={"threads": (2, 2), "thread_tile": (2, 2)}),
    tiles=("threads", "thread_tile"),
)
registers = BY_TILES.root(
    "registers",
    why="A block has a tile of queries, and each thread rows and columns of its scores and of its "
    "results in registers",
    expects={"unrolled": ("kernels == 1", "barriers_per_step == 3")},
)
padded = registers.plus(
    "padded",
    padding=1,
    why="Rows of the tile of keys begin in different banks of shared memory",
)
padded.plus(
    "wider",
    thread_tile=(8, 4),
    golden={"thread_tile": (2, 4)},
    why="A thread computes four times as many scores of what it reads",
    expects={"unrolled": ("kernels == 1", "barriers_per_step == 5")},
)
BY_CAUSAL_TILES = BY_TILES.of_kernel(causal=True)
causal = BY_CAUSAL_TILES.root(
    "causal",
    padding=1,
    why="All scores are computed; those of keys after the query are masked",
    expects={"unrolled": ("kernels == 1", "barriers_per_step == 3")},
)
causal.plus(
    "causal_ended",
    ends_at_mask=True,
    why="A block ends at the last key that one of its queries attends to: half of the tiles are "
    "never computed",
    expects={"ends_at_mask": ("kernels == 1", "barriers_per_step == 3")},
)
LADDERS = (
    order(
        "causal attention in one kernel",
        *BY_CAUSAL_TILES.rungs,
        name="attention_causal",
        shape=SHAPE,
    ),
    order(
        "from one kernel per block to a single one",
        *UNFUSED.rungs,
        *BY_QUERIES.rungs,
        *BY_TILES.rungs,
        shape=SHAPE,
    ),
)
