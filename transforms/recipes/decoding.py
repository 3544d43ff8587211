"""Decoding: attention of one query for each head, which reads each key and value once.

Ranges of keys have running values of their own, which are combined by the same factor that repairs
these: in a block of threads, and in a second kernel (Flash-Decoding, T. Dao and others, 2023).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import ForKind

from ..binding import bind_loop
from ..fusion.fuse import fuse_reductions
from ..fusion.split import split_reductions
from ..loops import reorder_loops, split_loop, suggest_unrolling
from ..placement import compute_block_at, reverse_compute_block_at
from ..queries import get_own_loops, get_spatial_loops
from ..thread_rows import cache_row_at, find_vector, keep_in_registers, spread_over_threads
from ..tir import constant, is_among
from ..vectorize import vectorize_loop
from .fused_chains import ElementsConfig, bind_elements, share_rows
from .recipe import Example, get_sblocks
from .rungs import Family, knob, order

BLOCKS = "scores max exp sum weighted Y"
LONGEST, BLOCKS_OF_A_GPU = 2048, 1024
"""Keys of a range at most, and blocks at least, where keys can be split: by one run on an H200 of
few numbers of ranges at 64x32x8192, 1x32x65536 and 16x32x8192 (4 heads sharing keys); no model."""
Sums: TypeAlias = tuple[SBlockRV, ...]
"""The maximum, the sum of exponentials and the weighted sum."""


@dataclass(frozen=True, kw_only=True)
class DecodingConfig(ElementsConfig):
    """Knobs of attention of one query, whose scores go through global memory."""

    warps: bool = knob(False, "whether the threads of a warp share what is summed along a row")


def schedule_decoding(sch: Schedule, config: DecodingConfig) -> Iterator[str]:
    """One query for each head, in kernels for each block; a product of one row has no tiles."""
    scores, largest, power, total, weighted, result = get_sblocks(sch)
    rows = [scores, largest, total]
    if config.warps:
        for block in rows:
            share_rows(sch, block, config)
        yield "rows_shared"
    for block in (*([] if config.warps else rows), weighted, power, result):
        bind_elements(sch, block, config)
    yield "bound"


@dataclass(frozen=True, kw_only=True)
class RangesConfig:
    """Knobs of attention of one query that reads keys and values once.

    ``ranges * groups * keys`` divides the keys, and what the threads of a key read at once dim.
    """

    lanes: int = knob(16, "threads that share a key", choices=(8, 16, 32))
    keys: int = knob(8, "keys whose scores a thread holds at once", choices=(4, 8, 16))
    wide: bool = knob(False, "whether a thread reads 16 bytes of a key at once, or one element")
    ahead: bool = knob(False, "whether values are fetched before scores are computed")
    groups: int = knob(
        1, "groups of threads in a block, each with keys of its own", choices=(4, 8, 16)
    )
    ranges: int | None = knob(
        1,
        "ranges of keys, on blocks of their own; None for as many as fill a GPU",
        choices=(None, 1, 4, 16, 32, 64),
    )


def schedule_ranges(sch: Schedule, config: RangesConfig) -> Iterator[str]:
    """Keys and values are read once, and what their ranges come to is combined."""
    count = _choose_ranges(sch, config) if config.ranges is None else config.ranges
    config = replace(config, ranges=count)
    scores, largest, _, total, weighted, result = get_sblocks(sch)
    whole: Sums = (largest, total, weighted)
    ranges = _split(sch, whole, count)
    groups = _split(sch, ranges, config.groups)
    if groups is not whole:
        yield "split"
    nest = _fuse(sch, scores, groups, config)
    yield "fused"
    _bind(sch, nest, config)
    stores = _combine(sch, (whole, ranges, groups), result, nest)
    _spread(sch, nest, stores, config)
    yield "in_registers"
    _unroll(sch, nest)
    yield "unrolled"
    if ranges is not whole:
        _combine_ranges(sch, whole, result)
        yield "ranges_combined"


@dataclass(frozen=True)
class _Nest:
    """What is fused in one loop over tiles of keys.

    Attributes
    ----------
    grid : the loops over batches, heads of keys and ranges of keys, as far as there are some
    home : the innermost loop outside of groups
    group : over groups of threads; None without
    steps : over tiles
    scores, sums : blocks of tiles
    others : between these
    """

    grid: dict[str, LoopRV]
    home: LoopRV
    group: LoopRV | None
    steps: LoopRV
    scores: SBlockRV
    sums: Sums
    others: tuple[SBlockRV, ...]


@dataclass(frozen=True)
class _Stores:
    """What is behind the loop over tiles.

    Attributes
    ----------
    to_shared : of what groups come to: the copies to shared memory
    combined : the blocks that combine these
    single : copies of single numbers to global memory
    rows : the block that writes rows to global memory
    """

    to_shared: Sums
    combined: Sums
    single: Sums
    rows: SBlockRV


def _choose_ranges(sch: Schedule, config: RangesConfig) -> int:
    """The fewest ranges, a power of two, that are short enough and make blocks enough."""
    scores, *_ = get_sblocks(sch)
    operand = sch.get(scores).reads[1].source
    batch, heads, keys = (constant(extent) or 1 for extent in operand.shape[:3])
    ranges, tile = 1, config.groups * config.keys
    while keys > LONGEST * ranges or batch * heads * ranges < BLOCKS_OF_A_GPU:
        if keys % (2 * ranges * tile):
            break
        ranges *= 2
    return ranges


def _split(sch: Schedule, sums: Sums, parts: int) -> Sums:
    if parts == 1:
        return sums
    return tuple(split_reductions(sch, sums[0], sums[1:], parts=parts).parts)


def _fuse(sch: Schedule, scores: SBlockRV, sums: Sums, config: RangesConfig) -> _Nest:
    """One loop over tiles of keys, and the heads of queries that share these inside."""
    largest, total, weighted = sums
    batch, head, query, *ranges, key = sch.get_loops(largest)
    queries, keys = (region.source for region in sch.get(scores).reads[:2])
    shared = (constant(queries.shape[1]) or 1) // (constant(keys.shape[1]) or 1)
    steps, tile = split_loop(sch, key, inner=config.keys)
    if shared > 1:
        head, each = split_loop(sch, head, inner=shared)
        reorder_loops(sch, [head, query, *ranges, steps, each, tile])
    tiles, _ = fuse_reductions(sch, largest, total, steps)
    _, (power,) = fuse_reductions(sch, largest, weighted, steps)
    compute_block_at(sch, scores, steps)
    grid = {"blockIdx.y": batch, "blockIdx.x": head}
    if config.ranges != 1:
        grid["blockIdx.z"] = ranges[0]
    home = ranges[0] if "blockIdx.z" in grid else query
    group = ranges[-1] if config.groups > 1 else None
    return _Nest(grid, home, group, steps, scores, sums, (*tiles, power))


def _bind(sch: Schedule, nest: _Nest, config: RangesConfig) -> None:
    for axis, loop in nest.grid.items():
        bind_loop(sch, loop, axis=axis)
    if nest.group is not None:
        bind_loop(sch, nest.group, axis="threadIdx.y")


def _combine(
    sch: Schedule, levels: tuple[Sums, Sums, Sums], result: SBlockRV, nest: _Nest
) -> _Stores:
    """Combine groups in shared memory, and write what a block of threads comes to."""
    whole, ranges, groups = levels
    to_shared: Sums = ()
    if nest.group is not None:
        for block in ranges:
            reverse_compute_block_at(sch, block, nest.home)
        to_shared = _publish(sch, groups, ranges, nest.group, "shared")
    combined = ranges if to_shared else ()
    if ranges is whole:
        reverse_compute_block_at(sch, result, nest.home)
        return _Stores(to_shared, combined, (), result)
    *single, rows = _publish(sch, ranges, whole, nest.home, "global")
    return _Stores(to_shared, combined, tuple(single), rows)


def _publish(
    sch: Schedule, sums: Sums, readers: Sums, loop: LoopRV, scope: str
) -> tuple[SBlockRV, ...]:
    """Copies under a loop of what ranges come to, which readers behind it read."""
    copies = []
    for block in sums:
        buffer = sch.get(block).writes[0].source
        reads = {
            at: [it.source for it in sch.get(reader).reads] for at, reader in enumerate(readers)
        }
        users = [readers[at] for at, sources in reads.items() if is_among(buffer, sources)]
        operands = [region.source for region in sch.get(users[0]).reads]
        place = next(at for at, source in enumerate(operands) if source.same_as(buffer))
        copies.append(sch.cache_read(users[0], place, scope, users))
        reverse_compute_block_at(sch, copies[-1], loop)
    return tuple(copies)


def _spread(sch: Schedule, nest: _Nest, stores: _Stores, config: RangesConfig) -> None:
    """Spread keys, values and results over threads, each of which holds its share in registers."""
    keys = sch.get(nest.scores).reads[1].source
    vector = find_vector(constant(keys.shape[-1]), keys.dtype, most=16) if config.wide else 1
    spread_over_threads(sch, nest.scores, threads=config.lanes, vector=vector)
    _spread_row(sch, nest.sums[2], config.lanes, vector)
    if stores.to_shared:
        *single, row = stores.to_shared
        for copy in single:
            _write_once(sch, copy, config.lanes, 1)
        elements = _spread_row(sch, row, config.lanes, vector)
        if vector > 1:
            vectorize_loop(sch, split_loop(sch, elements, inner=min(vector, 4)).inner)
        for block in (stores.combined[2], stores.rows):
            _spread_among_groups(sch, block, config)
    else:
        _spread_row(sch, stores.rows, config.lanes, vector)
    for copy in stores.single:
        _write_once(sch, copy, config.lanes, config.groups)
    for block in (nest.scores, *nest.sums, *nest.others):
        keep_in_registers(sch, block)
    for block in stores.combined:
        sch.set_scope(block, 0, "local")
    cache_row_at(sch, nest.scores, nest.group or nest.home, operand=0)
    cache_row_at(sch, nest.scores, nest.steps, operand=1)
    cache_row_at(sch, nest.sums[2], nest.steps, operand=3, ahead=config.ahead)


def _spread_row(sch: Schedule, block: SBlockRV, threads: int, vector: int) -> LoopRV:
    """Spread the columns of a row as keys are; the loop over neighbouring ones."""
    vectors, elements = split_loop(sch, get_spatial_loops(sch, block)[-1], inner=vector)
    _, among = split_loop(sch, vectors, inner=threads)
    bind_loop(sch, among, axis="threadIdx.x")
    return elements


def _spread_among_groups(sch: Schedule, block: SBlockRV, config: RangesConfig) -> None:
    """Spread the columns of a row over all threads of a block."""
    column = get_spatial_loops(sch, block)[-1]
    _bind_both(sch, column, config.lanes, config.groups)


def _write_once(sch: Schedule, copy: SBlockRV, lanes: int, groups: int) -> None:
    """Let one thread store what all of them have: of a key's threads, or of a block's."""
    _bind_both(sch, sch.add_unit_loop(copy), lanes, groups)


def _bind_both(sch: Schedule, loop: LoopRV, lanes: int, groups: int) -> None:
    rest, lane = split_loop(sch, loop, inner=lanes, tail="guard")
    bind_loop(sch, lane, axis="threadIdx.x")
    if groups > 1:
        _, group = split_loop(sch, rest, inner=groups, tail="guard")
        bind_loop(sch, group, axis="threadIdx.y")


def _unroll(sch: Schedule, nest: _Nest) -> None:
    """Let what a thread does for a tile be unrolled: what lies in registers has constant places."""
    for block in (nest.scores, nest.sums[2]):
        outermost = [it for it in get_own_loops(sch, block) if sch.get(it).kind == ForKind.SERIAL]
        suggest_unrolling(sch, outermost[0])


def _combine_ranges(sch: Schedule, sums: Sums, result: SBlockRV) -> None:
    """One more kernel, of a thread for each column of a row, which goes over the ranges once."""
    largest, total, weighted = sums
    batch, head, query, parts = sch.get_loops(largest)
    for block in (total, weighted):
        fuse_reductions(sch, largest, block, parts)
    reverse_compute_block_at(sch, result, query)
    bind_loop(sch, batch, axis="blockIdx.y")
    bind_loop(sch, head, axis="blockIdx.x")
    for block in (weighted, result):
        bind_loop(sch, get_spatial_loops(sch, block)[-1], axis="threadIdx.x")
    for block in sums:
        for place in range(len(sch.get(block).writes)):
            sch.set_scope(block, place, "local")


DECODED = {"batch": 16, "heads": 32, "keys": 8192, "dim": 128}
DECODING = Family(
    kernel="decode_attention",
    config=DecodingConfig,
    schedule=schedule_decoding,
    blocks=(BLOCKS,),
    default_example=Example(DECODED),
    small=Example({"batch": 3, "heads": 2, "keys": 12, "dim": 4}, config={"threads": (2, 3)}),
    tiles=("threads",),
)
one_by_one = DECODING.root(
    "naive",
    why="Each block of the program is a kernel, and each element has a thread",
    expects={"bound": ("kernels == 6", "barriers == 0")},
)
by_warps = one_by_one.plus(
    "warps",
    warps=True,
    why="A warp reads each key and shares each row, so that its threads read side by side",
)
BY_RANGES = Family(
    kernel="decode_attention",
    config=RangesConfig,
    schedule=schedule_ranges,
    blocks=(BLOCKS,),
    default_example=Example(DECODED),
    small=Example({"batch": 3, "heads": 2, "keys": 32, "dim": 16}, config={"lanes": 4, "keys": 4}),
    tiles=("lanes", "keys"),
)
fused = BY_RANGES.root(
    "fused",
    why="One kernel: threads that share a key have its running maximum and sums in registers, and "
    "repair the sums where the maximum moves",
    expects={"unrolled": ("kernels == 1", "barriers == 0", "shared_bytes == 0")},
)
wide = fused.plus(
    "wide",
    wide=True,
    why="A thread reads 16 bytes of a key and of a value at once",
    expects={"unrolled": ("kernels == 1", "barriers == 0", "LDG.128 >= 1 on sm_90a")},
)
ahead = wide.plus(
    "ahead",
    ahead=True,
    why="The loads of values are on their way while scores are computed",
)
grouped = ahead.plus(
    "grouped",
    groups=8,
    golden={"groups": 2},
    searched=("groups",),
    why="The groups of threads of a block have keys of their own, and are combined behind the last",
    expects={"unrolled": ("kernels == 1", "LDG.128 >= 1 on sm_90a")},
)
split = grouped.plus(
    "split",
    ranges=4,
    golden={"ranges": 2},
    searched=("ranges",),
    why="Ranges of keys have blocks of their own, and a second kernel combines them by the factor "
    "of the repair",
    expects={"ranges_combined": ("kernels == 2", "LDG.128 >= 1 on sm_90a")},
)
filled = split.plus(
    "filled",
    ranges=None,
    why="As many ranges as fill the GPU: of 2,048 keys at most, and on 1,024 blocks at least",
)
DECODE_ATTENTION = order(
    "one query: a kernel for each block, and one that reads keys and values once",
    *DECODING.rungs,
    *BY_RANGES.rungs,
)
