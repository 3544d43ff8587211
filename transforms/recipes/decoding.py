"""Decoding: attention of one query for each head, which reads each key and value once.

Ranges of keys have running values of their own, which are combined by the same factor that repairs
these: in a block of threads, and in a second kernel (Flash-Decoding, T. Dao and others, 2023).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import ForKind

from ..binding import bind_loop
from ..fusion.fuse import fuse_reductions, split_reductions
from ..gpu_limits import MAX_SHARED_BYTES, REGISTERS, THREADS, WARP, count_registers
from ..loops import reorder_loops, split_loop, suggest_unrolling
from ..masked_loops import end_loop_at_mask, mask_operand, split_loop_at_mask
from ..padding import pad_axis
from ..placement import compute_block_at, reverse_compute_block_at
from ..queries import get_extent, get_own_loops, get_spatial_loops
from ..schedule import TransformError
from ..thread_rows import cache_row_at, find_vector, keep_in_registers, spread_over_threads
from ..tir import constant, find_choices, is_among
from ..vectorize import vectorize_loop
from .fused_chains import ElementsConfig, bind_elements, share_rows
from .recipe import Example, get_sblocks, recipe
from .rungs import Family, knob, order
from .time_model import Gpu, read_gpu

BLOCKS = "scores max exp sum weighted Y"
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

    Keys are padded to a multiple of ``ranges * groups * keys`` where they are none, and lanes are
    idle where dim is no multiple of what the threads of a key read at once.
    """

    lanes: int = knob(16, "threads that share a key", choices=(8, 16, 32))
    keys: int = knob(8, "keys whose scores a thread holds at once", choices=(4, 8, 16))
    wide: bool = knob(
        False,
        "whether a thread reads 16 bytes of a key at once, and values before it computes scores, "
        "or one element",
    )
    groups: int = knob(1, "groups of threads per block, each with its own keys", choices=(4, 8, 16))
    ranges: int = knob(1, "ranges of keys, each on its own blocks", choices=(1, 4, 16, 32, 64))
    heads: int = knob(
        0, "most heads of queries with the same keys per block, or 0 for all", least=0
    )
    at_once: int = knob(
        1, "ranges whose results are read before the first is combined", choices=(1, 16)
    )
    ends: bool = knob(
        False,
        "whether the loop over keys ends at a sequence's length, which all groups reach together, "
        "taking tiles in turn, and checks it only in its last tiles",
    )


def schedule_ranges(sch: Schedule, config: RangesConfig) -> Iterator[str]:
    """Keys and values are read once, and what their ranges come to is combined."""
    scores, largest, power, total, weighted, result = get_sblocks(sch)
    queries, keys = (region.source for region in sch.get(scores).reads[:2])
    heads = constant(keys.shape[1]) or 1
    tile = config.groups * config.keys
    # Keys and values beyond the end, or a length, are zero, and not read.
    is_masked = bool(find_choices(sch.get(largest).body))
    for block in (scores, weighted) if config.ends and is_masked else ():
        mask_operand(sch, block, operand=1)
    pad_axis(sch, sch.get_loops(largest)[3], multiple=config.ranges * tile)
    made = [it for block in (scores, weighted) for it in sch.get_producers(block)]
    copies = [it for it in made if not sch.get(it).same_as(sch.get(power))]
    if copies:
        yield "padded"
    whole: Sums = (largest, total, weighted)
    ranges = _split(sch, whole, config.ranges)
    groups = _split(sch, ranges, config.groups, config.keys if config.ends else None)
    if groups is not whole:
        yield "split"
    # One loop over tiles of keys, and the heads of queries that share these inside.
    largest, total, weighted = groups
    batch, head, query, *cut = sch.get_loops(largest)
    shared = (constant(queries.shape[1]) or 1) // heads
    shared = math.gcd(shared, config.heads or shared)
    if config.ends and config.groups > 1:
        *cut, steps, each_key = cut
    else:
        *cut, key = cut
        steps, each_key = split_loop(sch, key, inner=config.keys)
    if shared > 1:
        head, each = split_loop(sch, head, inner=shared)
        reorder_loops(sch, [head, query, *cut, steps, each, each_key])
    tiles, _ = fuse_reductions(sch, largest, total, steps)
    _, (power,) = fuse_reductions(sch, largest, weighted, steps)
    compute_block_at(sch, scores, steps)
    yield "fused"
    grid = {"blockIdx.y": batch, "blockIdx.x": head}
    home = query  # the innermost loop outside of groups
    if config.ranges != 1:
        home = grid["blockIdx.z"] = cut[0]
    group = cut[-1] if config.groups > 1 else None
    for axis, loop in {**grid, **({} if group is None else {"threadIdx.y": group})}.items():
        bind_loop(sch, loop, axis=axis)
    # Groups are combined in shared memory, and what a block of threads comes to is written.
    to_shared: Sums = ()
    if group is not None:
        for block in ranges:
            reverse_compute_block_at(sch, block, home)
        to_shared = _publish(sch, groups, ranges, group, "shared")
    single, rows = list[SBlockRV](), result
    if ranges is whole:
        reverse_compute_block_at(sch, result, home)
    else:
        *single, rows = _publish(sch, ranges, whole, home, "global")
        # One more kernel, of a thread for each column of a row, which goes over the ranges once.
        row, *_ = whole
        batch, head, query, over_parts = sch.get_loops(row)
        if config.at_once > 1:
            inner = math.gcd(config.ranges, config.at_once)
            over_parts, _ = split_loop(sch, over_parts, inner=inner)
        for block in whole[1:]:
            for tile in fuse_reductions(sch, row, block, over_parts).tiles:
                sch.set_scope(tile, 0, "local")
        if config.at_once > 1:  # the loads of all are in flight before the first is used
            suggest_unrolling(sch, over_parts)
        reverse_compute_block_at(sch, result, query)
        bind_loop(sch, batch, axis="blockIdx.y")
        bind_loop(sch, head, axis="blockIdx.x")
        for block in (whole[2], result):
            bind_loop(sch, get_spatial_loops(sch, block)[-1], axis="threadIdx.x")
        for block in whole:
            for place in range(len(sch.get(block).writes)):
                sch.set_scope(block, place, "local")
    # Each thread holds its share of keys, values and results in registers.
    vector = find_vector(constant(keys.shape[-1]), keys.dtype, most=16) if config.wide else 1
    spread_over_threads(sch, scores, threads=config.lanes, vector=vector, tail="guard")
    _spread_row(sch, weighted, config.lanes, vector)
    if to_shared:
        *numbers, row = to_shared
        for copy in numbers:
            _bind_both(sch, sch.add_unit_loop(copy), config.lanes, 1)
        elements = _spread_row(sch, row, config.lanes, vector)
        if vector > 1:
            vectorize_loop(sch, split_loop(sch, elements, inner=min(vector, 4)).inner)
        for block in (ranges[2], rows):
            _bind_both(sch, get_spatial_loops(sch, block)[-1], config.lanes, config.groups)
    else:
        _spread_row(sch, rows, config.lanes, vector)
    for copy in single:  # one thread stores what all of a block have
        _bind_both(sch, sch.add_unit_loop(copy), config.lanes, config.groups)
    for block in (scores, *groups, *tiles, power):
        keep_in_registers(sch, block)
    for block in ranges if to_shared else ():
        sch.set_scope(block, 0, "local")
    cache_row_at(sch, scores, group or home, operand=0)
    cache_row_at(sch, scores, steps, operand=1)
    cache_row_at(sch, weighted, steps, operand=3, ahead=config.wide)
    for copy in copies:
        sch.compute_inline(copy)
    is_masked = any(find_choices(sch.get(block).body) for block in tiles)
    if config.ends and is_masked and get_extent(sch, steps) != 1:
        end_loop_at_mask(sch, steps)
        split_loop_at_mask(sch, steps)
    yield "in_registers"
    for block in (scores, weighted):  # what lies in registers has constant places
        outermost = [it for it in get_own_loops(sch, block) if sch.get(it).kind == ForKind.SERIAL]
        suggest_unrolling(sch, outermost[0])
    yield "unrolled"


def _split(sch: Schedule, sums: Sums, parts: int, run: int | None = None) -> Sums:
    if parts == 1:
        return sums
    return tuple(split_reductions(sch, sums[0], sums[1:], parts=parts, run=run).parts)


def _publish(sch: Schedule, sums: Sums, readers: Sums, loop: LoopRV, scope: str) -> Sums:
    """Copies under a loop of what ranges come to, which readers behind it read."""
    copies = []
    for block in sums:
        buffer = sch.get(block).writes[0].source
        operands = [[it.source for it in sch.get(reader).reads] for reader in readers]
        users = [it for it, reads in zip(readers, operands, strict=True) if is_among(buffer, reads)]
        reads = [it.source for it in sch.get(users[0]).reads]
        place = next(at for at, source in enumerate(reads) if source.same_as(buffer))
        copies.append(sch.cache_read(users[0], place, scope, users))
        reverse_compute_block_at(sch, copies[-1], loop)
    return tuple(copies)


def _spread_row(sch: Schedule, block: SBlockRV, threads: int, vector: int) -> LoopRV:
    """Spread the columns of a row as keys are; the loop over neighbouring ones."""
    vectors, elements = split_loop(sch, get_spatial_loops(sch, block)[-1], inner=vector)
    _, among = split_loop(sch, vectors, inner=threads, tail="guard")
    bind_loop(sch, among, axis="threadIdx.x")
    return elements


def _bind_both(sch: Schedule, loop: LoopRV, lanes: int, groups: int) -> None:
    """Spread a loop over all threads of a block, or have one of them do what is done once."""
    rest, lane = split_loop(sch, loop, inner=lanes, tail="guard")
    bind_loop(sch, lane, axis="threadIdx.x")
    if groups > 1:
        _, group = split_loop(sch, rest, inner=groups, tail="guard")
        bind_loop(sch, group, axis="threadIdx.y")


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
    why="One kernel for each TIR block, and one thread for each element",
    expects={"bound": ("kernels == 6", "barriers == 0")},
)
by_warps = one_by_one.plus(
    "warps",
    warps=True,
    why="A warp reads each key and shares each row, so that its threads read adjacent elements",
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
    why="One kernel: threads that share a key keep its running maximum and sums in registers, and "
    "rescale the sums when the maximum changes",
    expects={"unrolled": ("kernels == 1", "barriers == 0", "shared_bytes == 0")},
)
wide = fused.plus(
    "wide",
    wide=True,
    why="A thread reads 16 bytes of a key and of a value at once",
    expects={"unrolled": ("kernels == 1", "barriers == 0", "LDG.128 >= 1 on sm_90a")},
)
grouped = wide.plus(
    "grouped",
    groups=8,
    golden={"groups": 2},
    why="Groups of threads of a block take keys of their own; their results are combined after "
    "the last key",
    expects={"unrolled": ("kernels == 1", "LDG.128 >= 1 on sm_90a")},
)
split = grouped.plus(
    "split",
    ranges=4,
    golden={"ranges": 2},
    why="Each range of keys has blocks of its own, and a second kernel rescales and combines "
    "their results",
    expects={"unrolled": ("kernels == 2", "LDG.128 >= 1 on sm_90a")},
)


class Estimate(NamedTuple):
    """Microseconds that a model expects: in all, of keys and values, and of the second kernel; and
    the blocks of threads, and how many of these a GPU holds at once."""

    us: float
    reading: float
    combining: float
    blocks: int
    resident: int


LAUNCH, BLOCK, GROUP, STEP, KEY = 4.3, 0.14, 0.07, 0.93, 0.15
"""Microseconds of a launch, of what a block does before and after its loop, and for each of its
groups, of a step of that where nobody else reads, and of each access of a thread in it."""
COMBINED, RANGE, PARTIALS = 1.6, 0.046, 6.2
"""Microseconds of the second kernel, and for each range; and how much longer than memory takes its
results arrive."""
REACHED, ISSUED, LATE, SHARE = 0.94, 0.7, 0.05, 0.48
"""What is reached of a memory's speed; what is issued of the instructions that could be; how much
later the last block ends; and the share of the keys that sequences with own lengths have."""
MOST_THREADS, MOST_REGISTERS = 128, 160
"""Threads of a block with over 16 groups, and registers of a thread beside which others fit."""
NEAR = 0.02
"""If two configs are this close, the one with more keys, and with fewer ranges, is taken."""
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def rank_ranges(sch: Schedule, gpu: Gpu) -> list[tuple[RangesConfig, Estimate]]:
    """The configs for a kernel's sizes, the fastest first by a model of time.

    All blocks that a GPU holds step through their keys together: a step takes about as long as the
    longest of memory for these, their instructions, and one access. Where sequences have lengths,
    blocks end at any time. What it ranks first is 5 % behind the best of 1,578 times on an H200.
    """
    scores, largest, *_ = map(sch.get, get_sblocks(sch))
    share = SHARE if find_choices(largest.body) else 1.0
    keys = scores.reads[1].source
    sizes = [constant(it.dom.extent) for it in scores.iter_vars]
    batch, heads, _, count, dim, own = (*(it or 0 for it in sizes), constant(keys.shape[1]) or 0)
    if not batch * heads * count * dim * own:
        raise TransformError("rank_ranges", "a size is open", "give the kernel all of its sizes")
    vector = find_vector(dim, keys.dtype, most=16)
    vectors, shared = dim // vector, heads // own
    # Lanes that divide a row, with up to 3 reads each, or 5 of few lanes; of others some are idle.
    most_reads = {16: 3, 8: 3, 32: 3, 4: 3, 2: 5, 1: 5}
    whole = [it for it, most in most_reads.items() if vectors % it == 0 and most * it >= vectors]
    lanes = whole[0] if whole else min(WARP, 1 << (vectors - 1).bit_length())
    reads = -(-vectors // lanes)

    def count_needed(config: RangesConfig) -> int:
        return reads * (6 * config.keys + 24 * config.heads) + config.keys * config.heads

    def estimate(config: RangesConfig) -> Estimate:
        tile = config.keys * config.groups
        steps = -(-count // (config.ranges * tile))
        held = max(1, min(REGISTERS // count_needed(config), THREADS) // (lanes * config.groups))
        blocks, resident = batch * heads // config.heads * config.ranges, held * gpu.multiprocessors
        # Blocks of other heads find the same keys in the cache.
        moved = 2 * tile * dim * keys.dtype.itemsize * config.heads / shared
        work = tile * lanes * (reads * (28 + 22 * config.heads) + 23 * config.heads)
        us = max(moved / (gpu.gigabytes * 1e3 * REACHED), work / (gpu.lanes_per_us * ISSUED))
        # With few lanes per key a warp reads many rows at once, whose accesses do not overlap.
        least = STEP + KEY * config.keys * (reads**0.5 if lanes > 2 else reads)

        def wait(together: float) -> float:
            step = math.hypot(least**2, (together * us) ** 2) ** 0.5
            return BLOCK + GROUP * config.groups + steps * step

        working = share * blocks
        turns, rest = divmod(blocks, resident) if share == 1 else (max(1, working / resident), 0)
        first = min(working, resident)
        reading = turns * wait(first) + (wait(rest) if rest else 0) + LATE * steps * first * us
        partial = batch * heads * config.ranges * (dim + 2) * 8 / (gpu.gigabytes * 1e3) * PARTIALS
        combining = COMBINED + RANGE * config.ranges + partial if config.ranges > 1 else 0.0
        return Estimate(LAUNCH + reading + combining, reading, combining, blocks, resident)

    plain = RangesConfig(lanes=lanes, wide=True, at_once=16, ends=True)
    known = [
        replace(plain, keys=each, heads=part, groups=groups, ranges=ranges)
        for each, groups, ranges in itertools.product((8, 4, 2), (32, 16, 8, 4), PARTS)
        for part in (1, 2, 4, 8)
        if shared % part == 0 and (ranges - 1) * groups * each < count
        if each <= 4 or (whole and each * reads < 16)
        if groups <= max(16, MOST_THREADS // lanes)
        if part * groups * (dim + 2) * 4 <= MAX_SHARED_BYTES["shared"]
    ]
    most = MOST_REGISTERS if lanes > 2 else count_registers(MOST_THREADS)
    fitting = [it for it in known if count_needed(it) <= most]
    ranked = [(it, estimate(it)) for it in fitting or known]
    least = min(it.us for _, it in ranked)
    return sorted(ranked, key=lambda it: int(it[1].us / least / NEAR))


@recipe(
    kernel="decode_attention",
    blocks=(BLOCKS,),
    default_example=Example(DECODED),
    golden=Example({"batch": 3, "heads": 2, "keys": 1201, "dim": 40}),
    expects={"unrolled": ("LDG.128 >= 1 on sm_90a",)},
)
def decode_attention_best(sch: Schedule, *, device: str = "NVIDIA H200") -> Iterator[str]:
    """Lanes per key, keys and groups per block, and ranges are chosen by a time model.

    Any number of keys, and a length for each sequence. Knobs: device, a GPU by its name or its
    properties (transforms/recipes/time_model.py).
    """
    config, _ = rank_ranges(sch, read_gpu(device))[0]
    yield from schedule_ranges(sch, config)


LADDERS = (
    order(
        "one query: from one kernel per block to one that reads keys and values once",
        *DECODING.rungs,
        *BY_RANGES.rungs,
    ),
    order(
        "one query, and any number of keys, up to the length of each sequence",
        decode_attention_best,
        name="decode_attention_best",
    ),
)
