"""The rows of a matrix, shared by the threads of a block: one schedule for five kernels.

A reduction over threads by warp shuffles is M. Harris's (Faster parallel reductions on Kepler,
2014), the row in registers that of the softmax of A. Dakkak and others and of Triton's tutorial.

The recipes ``*_best`` choose a config for rows of any length and number, by rules: those of 255
measurements of 38 problems on an H200, from 65536 rows of 128 elements to two of 1048576, of
softmax, row_sum and layer_norm in float32 and float16. In how many parts long rows are cut says a
model of time.

A block of threads reads a part in rounds, each of which waits for memory once; so few rows of many
elements take long on few blocks. Cut in parts they take a second kernel, which adds these up. What
a round, that kernel and a step of it cost are those of products, what DRAM gives and what a kernel
takes else was fitted to 16 times of row_sum and matvec on one H200
(benchmarks/results/bench-nvidia-h200.json): the error there is 4 %.

Softmax and norms read a row once for what they reduce, where its parts are kept in registers, and
once more for their results: maxima and means are those of a part, and what was summed with them is
repaired where parts are combined (`split_reductions`). What a multiprocessor computes in a time,
what its rounds wait, and the L2 cache were fitted to 120 times of 30 problems on one H200, of
32,768 to 10^6 elements and 1 to 256 rows: the error is 9 %. The parts of a row may be a cluster
(`fuse_kernels_in_clusters`), which reads it once; what that takes was fitted to 37 times of rows of
32,768 to 324,510 elements: the error is 8 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import FloorDiv, ForKind

from ..binding import bind_loop
from ..caching import cache_write_at
from ..fusion.fuse import split_reductions
from ..gpu_limits import MAX_CLUSTER, MAX_THREADS, REGISTERS, WARP
from ..gpu_limits import THREADS as RESIDENT
from ..hopper.cluster_launch import fuse_kernels_in_clusters, has_clusters
from ..loops import Tail, fuse_loops, split_loop, unroll_loop
from ..padding import pad_axis
from ..placement import compute_block_at
from ..queries import (
    find_epilogue,
    get_extent,
    get_own_loops,
    get_sblock_name,
    is_reduction,
)
from ..reduction import rfactor_reduction
from ..schedule import TransformError
from ..thread_rows import (
    cache_row_at,
    find_guarded,
    find_vector,
    keep_in_registers,
    spread_over_threads,
)
from ..tir import constant, find_all, is_among
from ..vectorize import MAX_VECTOR_BYTES, WIDEST, vectorize_loop
from .recipe import Example, Recipe, get_sblocks, recipe
from .rungs import Family, Ladder, knob, order
from .time_model import H200, Gpu, read_gpu, read_table

FLIGHT_BYTES = 2 * MAX_VECTOR_BYTES
"""Bytes of a part that each thread requests at once, in up to eight vectors."""
WHOLE_EACH, MOST_EACH = 2, 8
"""Vectors of a whole row that a thread asks for at once; and of a part, at most."""
FEW_WAVES, MOST_PARTS = 4, 128
"""Blocks of a multiprocessor that do not fill it; and parts by powers of two, at most."""
KEPT, MOST_KEPT = ((256, 32), (256, 64), (512, 64), (1024, 64), (1024, 128)), 512
"""Threads, and bytes in registers of each, of a part that is kept there: the first that leaves no
more parts than this. Of softmax and norms the first was within 5 % of all that was tried.
"""
CLUSTERS = ((128, 64), (256, 128), (512, 96))
"""Threads of each block of a cluster, and the elements of a part that each of them keeps at most:
on an H200 the more blocks a multiprocessor holds, the nearer it comes to the rate of a copy.
"""
CLUSTER_REGISTERS = 24
"""Registers of a thread beside those of the elements that it keeps, about."""
CLUSTER_VECTOR = MAX_VECTOR_BYTES // 4
"""Elements of its vectors: those of results that are computed with float32 statistics."""
MODEL_ERROR = 1.1
"""The model has to expect so much less, or the rule that was measured is right."""


class Cut(NamedTuple):
    """A way to cut rows, and what is expected of it; times in us.

    Attributes
    ----------
    threads : of a block
    each : vectors that a thread asks for at once; 0 where it keeps all of its part in registers
    clusters : whether the parts of a row are a cluster, which reads it once
    length : elements of a part, of which the last one of a row may have fewer
    reading : of all rounds of a multiprocessor's blocks, each of which waits for memory
    memory : of DRAM, for all elements
    sums : of combining the parts, in a second kernel
    """

    parts: int
    threads: int
    each: int
    clusters: bool
    length: int
    us: float
    reading: float
    memory: float
    sums: float


def rank_cuts(
    height: int, length: int, *, size: int, vector: int, gpu: Gpu, threads: int, sums: int = 0
) -> list[Cut]:
    """Ways to cut so many rows of a length, of elements of so many bytes that are read by vectors:
    the one to take first, and then the fastest; `threads` are those of a whole row, `sums` the
    reductions before results as long as rows, or 0 where a row has one result.

    First is, of one result, the one by a rule that was measured, where the model expects no other
    one to be a tenth faster: as many parts as give each multiprocessor a block or two, and threads
    enough vectors. Parts of other rows are kept in registers (`KEPT`).
    """
    most, costs = FEW_WAVES * gpu.multiprocessors, read_table("rows")["costs"]
    whole, speed = height * length * size, gpu.gigabytes / H200.gigabytes
    once = whole / (costs["dram_bytes_per_us"] * speed)
    powers = [1 << power for power in range(1, MOST_PARTS.bit_length())]
    counts = [*powers, *(n * gpu.multiprocessors // height for n in range(1, FEW_WAVES + 1))]
    several = min(MOST_EACH, FLIGHT_BYTES // (vector * size))
    tried = [(it, MAX_THREADS // 2, several, False) for it in counts if 1 < it <= most // height]
    if sums:
        row = length * (size if vector > 1 else 4)  # what is read alone has a register of its own
        kept = [(-(-row // (count * held)), count, 0, False) for count, held in KEPT]
        tried = [next((it for it in kept if it[0] <= MOST_KEPT), kept[-1])]
        share = -(-length // MAX_CLUSTER)
        fits = [count for count, most in CLUSTERS if share <= count * most]
        if has_clusters(gpu.architecture) and fits:
            tried.append((MAX_CLUSTER, fits[0], 0, True))
    cuts = dict[tuple[int, bool], Cut]()
    for parts, count, each, clusters in [(1, threads, WHOLE_EACH, False), *tried]:
        # About so many parts: fewer, where these would leave none for the last.
        lanes = min(vector, CLUSTER_VECTOR) if clusters else vector
        part, at_once = length // parts, count * lanes * max(each, 1)
        if not has_whole_parts(length, parts, lanes, at_once):
            part = -(-length // (parts * at_once)) * at_once
            parts = -(-length // part)
            part = -(-length // (parts * at_once)) * at_once
        blocks, together = height * parts, gpu.multiprocessors * max(1, RESIDENT // count)
        rounds = -(-blocks // together) * (-(-part // at_once) if each else 1)
        kernels = [(rounds * costs["step_us"], once)]
        hidden, least = costs["hidden"], 0.0
        if sums:
            # What is read again comes from the L2 cache, where that holds what is under way.
            rows = height if parts > 1 else min(height, together)
            is_cached = rows * length * size <= costs["l2_bytes"]
            again = whole / (costs["l2_bytes_per_us"] * speed) if is_cached else once
            wait = rounds * costs["round_us"]
            work = -(-blocks // gpu.multiprocessors) * part / costs["elements_per_us"]
            # Reads of the L2 cache are hidden behind those of DRAM, by other blocks.
            read_again = 0.0 if is_cached else sums * again
            kernels = [((sums + 1) * (wait + work), 2 * once + read_again)]
            if clusters:
                each_us = blocks / gpu.multiprocessors * costs["cluster_us"]
                kernels = [((sums + 1) * (wait + work + each_us), 2 * once * costs["cluster"])]
                # As many blocks as registers hold overlap: one loads while another one computes.
                own = -(-part // count)
                resident = max(1, REGISTERS // (count * (own + CLUSTER_REGISTERS)))
                hidden = 1 / resident
                waves = -(-blocks // (gpu.multiprocessors * resident))
                least = waves * own / lanes * costs["load_us"]
            elif parts > 1:
                kernels = [(wait + sums * work, once), (wait + work, again + once)]
        combined = -(-parts // (count if sums else WARP)) * costs["sums_step_us"]
        combined = costs["sums_us"] + combined if parts > 1 and not clusters else 0.0
        us = costs["launch_us"] + combined
        us += max(least, sum(max(both) + hidden * min(both) for both in kernels))
        reading, memory = (sum(times) for times in zip(*kernels, strict=True))
        cut = Cut(parts, count, each, clusters, part, us, reading, memory, combined)
        cuts.setdefault((parts, clusters), cut)
    ranked = sorted(cuts.values(), key=lambda cut: (cut.us, cut.parts))
    vectors = length // vector
    measured = [
        parts
        for parts in powers
        if vector > 1 and height * parts <= most // 2
        if vectors % parts == 0 and vectors // parts >= MAX_THREADS
    ]
    first = cuts.get((max(measured, default=1), False))
    if first and not sums and first.us <= MODEL_ERROR * ranked[0].us:
        ranked.sort(key=lambda cut: cut != first)
    return ranked


def has_whole_parts(length: int, parts: int, vector: int, at_once: int) -> bool:
    """Whether rows divide into so many parts of whole vectors, each of which fills a round; others
    are padded until all parts are whole rounds.
    """
    return length % (parts * vector) == 0 and length // parts >= at_once


THREADS = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, kw_only=True)
class RowPerThreadConfig:
    """Knobs of a schedule with one thread for each row."""

    threads: int = knob(32, "threads of a block", choices=THREADS[2:6])
    tail: Tail = knob("refuse", "what to do if they do not divide the rows")


@dataclass(frozen=True, kw_only=True)
class RowConfig:
    """Knobs of a schedule whose threads share a row."""

    threads: int = knob(256, "threads per row", choices=THREADS)
    in_registers: bool = knob(False, "whether a row is read once, into registers")
    vector: int = knob(
        1,
        "most elements of a vector; unaligned rows and wide types get shorter ones",
        choices=(2, 4, 8),
    )
    rows: int = knob(1, "rows per block", choices=(1, 2, 4, 8, 16, 32))
    each: int = knob(
        0,
        "vectors that a thread reads at once of a row that is not kept in registers; 0 reads "
        "element by element",
        least=0,
    )
    parts: int = knob(1, "blocks that share a row, whose results a second kernel combines")
    clusters: bool = knob(False, "whether these are a cluster, which needs no second kernel")
    tail: Tail = knob("refuse", "what to do if these do not divide the row")


def schedule_row_per_thread(sch: Schedule, config: RowPerThreadConfig) -> Iterator[str]:
    """One thread for each row."""
    blocks = get_sblocks(sch)
    if _inline_copies(sch, blocks):
        yield "exponentials_inlined"
    *producers, output = blocks
    loop = sch.get_loops(output)[0]
    outer, row = split_loop(sch, loop, inner=config.threads, tail=config.tail)
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, row, axis="threadIdx.x")
    _compute_row_at(sch, producers, row)
    yield "bound"


def schedule_rows(
    sch: Schedule, config: RowConfig, blocks: Sequence[SBlockRV] | None = None
) -> Iterator[str]:
    """Threads share a row: of all blocks, or of some in program order, the last of which writes the
    result.

    The first loop of each goes over the rows, and its second and last one over a row.
    """
    blocks = get_sblocks(sch) if blocks is None else list(blocks)
    if config.parts > 1:
        yield from _schedule_parts(sch, blocks, config)
        return
    if not config.in_registers and _inline_copies(sch, blocks):
        yield "exponentials_inlined"
    *producers, output = blocks
    fit = _fit(sch, blocks, config)
    # The loop of which one iteration is one row.
    (row, *_) = sch.get_loops(output)
    if fit.rows > 1:
        outer, row = split_loop(sch, row, inner=fit.rows, tail=config.tail)
        bind_loop(sch, outer, axis="blockIdx.x")
        bind_loop(sch, row, axis="threadIdx.y")
    else:
        bind_loop(sch, row, axis="blockIdx.x")
    _compute_row_at(sch, producers, row)
    yield "rows_on_blocks"
    yield from _share_row(sch, blocks, row, fit)


def schedule_matvec(sch: Schedule, total: SBlockRV, config: RowConfig) -> Iterator[str]:
    """A matmul with a vector as one operand, and rows along k in the other: threads share and
    reduce a row, as for `matvec`.
    """
    iterators = sch.get(total).iter_vars
    (single, *_) = (at for at, it in enumerate(iterators) if constant(it.dom.extent) == 1)
    own, blocks = 1 - single, [total]
    name = get_sblock_name(sch, sch.reindex(total, ("read", single)))
    sch.transform_block_layout(total, lambda i, j, k: ((i, j)[own], k))
    if (epilogue := find_epilogue(sch, total)) is not None:
        loops = sch.get_loops(epilogue)
        sch.reorder(loops[own], loops[single])
        blocks.append(epilogue)
    yield from schedule_rows(sch, config, blocks)
    for block in get_sblocks(sch):  # which has been inlined where it was padded
        if get_sblock_name(sch, block) == name:
            sch.compute_inline(block)
    yield "vector_inlined"


def _share_row(
    sch: Schedule, blocks: Sequence[SBlockRV], row: LoopRV, config: RowConfig
) -> Iterator[str]:
    """Spread every block under the loop of a row over its threads."""
    if config.each and not config.in_registers:
        yield from _read_in_rounds(sch, blocks, config)
        return
    *producers, output = blocks
    is_one = _has_one(sch, output)
    threads, vector = config.threads, config.vector
    store = cache_write_at(sch, output, row) if config.in_registers and not is_one else None
    steps = []
    for block in [*([store] if store else []), *reversed(blocks)]:  # readers first
        if block is store and is_reduction(sch, output):
            sch.add_unit_loop(block)  # one thread stores
            spread_over_threads(sch, block, threads=threads, tail="guard")
            continue
        if block is output and is_one:
            spread_over_threads(sch, block, threads=threads, tail="guard")
            continue
        spread = spread_over_threads(sch, block, threads=threads, vector=vector, tail=config.tail)
        steps.append(spread.steps)
        if block is store and vector > 1:
            vectorize_loop(sch, spread.elements)
    for block in [*producers, *([output] if store else [])]:
        keep_in_registers(sch, block)
    yield "spread_over_threads"
    if config.in_registers:
        for block in blocks:
            if not (block is output and is_one):
                _cache_inputs(sch, block, row)
        yield "row_in_registers"
        for loop in steps:
            unroll_loop(sch, loop)
        yield "unrolled"


def _has_one(sch: Schedule, block: SBlockRV) -> bool:
    """Whether a block finishes one number for each row, such as a sum's scale."""
    return not is_reduction(sch, block) and get_extent(sch, sch.get_loops(block)[-1]) == 1


def _inline_copies(sch: Schedule, blocks: list[SBlockRV]) -> bool:
    """Inline what is no reduction, and take it out of the blocks; whether there was any.

    Without the row in registers, softmax has its exponentials computed twice.
    """
    copies = [block for block in blocks[:-1] if not is_reduction(sch, block)]
    for block in copies:
        sch.compute_inline(block)
        blocks.remove(block)
    return bool(copies)


def _schedule_parts(sch: Schedule, blocks: list[SBlockRV], config: RowConfig) -> Iterator[str]:
    """Reduce the parts of each row on blocks of their own, which a second kernel combines, each of
    whose blocks does so for itself before it writes its part of the result.
    """
    if not config.in_registers and not config.each:
        raise TransformError(
            "schedule_rows",
            f"parts={config.parts} with in_registers=False and each=0",
            "read parts in rounds, by each >= 2, or at once, by in_registers=True",
        )
    if _inline_copies(sch, blocks):
        yield "exponentials_inlined"
    *_, output = blocks
    is_one = is_reduction(sch, output) or _has_one(sch, output)
    sums = [block for block in blocks if is_reduction(sch, block)]
    # Parts are equal where they are whole vectors; else they are whole rounds, of which the last
    # read zeros, or what a mask keeps out.
    loop = sch.get_loops(sums[0])[-1]
    length = get_extent(sch, loop)
    fit: Any = None
    padded: dict[Any, SBlockRV] = {}
    if config.tail == "guard" and length is not None:
        # The config with vectors that CUDA has a type for under the guard of a padded row.
        sizes = [region.source.dtype.itemsize for region in sch.get(sums[0]).reads]
        vector = min(config.vector, find_guarded(min(sizes)))
        fit = _fit(sch, sums, replace(config, vector=vector))
        at_once = fit.threads * fit.vector * (1 if fit.in_registers else fit.each)
        if has_whole_parts(length, config.parts, fit.vector, at_once):
            fit = None
        else:
            pad_axis(sch, loop, multiple=config.parts * at_once)
            made = [it for block in sums for it in sch.get_producers(block)]
            padded = {sch.get(it): it for it in made if not is_reduction(sch, it)}
    read = [region.source for block in sums for region in sch.get(block).reads]
    if len(sums) == 1:
        parts = [rfactor_reduction(sch, sums[0], parts=config.parts).block]
    else:
        parts = split_reductions(sch, sums[0], sums[1:], parts=config.parts).parts
    share = get_extent(sch, sch.get_loops(parts[0])[-1]) or 1
    row, *columns = sch.get_loops(output)
    if not is_one:
        over_parts, _ = split_loop(sch, columns[-1], inner=share, tail=config.tail)
        row = fuse_loops(sch, [row, over_parts])
    _compute_row_at(sch, blocks[:-1], row)
    bind_loop(sch, row, axis="blockIdx.x")
    # All parts of a row that a block has are one loop, which stores those that others read, too.
    kept = []
    for block in parts[:-1]:
        consumers = [sch.get(it) for it in sch.get_consumers(block)]
        readers = [it for it in parts if is_among(sch.get(it), consumers)]
        kept.append(sch.cache_write(block, 0, "local", readers))
    if config.clusters and not kept:  # parts of one row side by side, whose blocks are a cluster
        own, at = sch.get_loops(parts[0])[:2]
        sch.reorder(at, own)
    rows = [fuse_loops(sch, sch.get_loops(block)[:2]) for block in [*parts, *kept]]
    part = sch.merge(*rows) if kept else rows[0]
    bind_loop(sch, part, axis="blockIdx.x")
    fit = fit or _fit(sch, parts, config)
    if not kept:  # serial sums of squares from the mean of a part miss what exact ones promise
        yield "cut_in_parts"
    least = 0 if fit.in_registers else fit.threads * fit.vector * fit.each
    if share < least:
        raise TransformError(
            "schedule_rows",
            f"parts={config.parts} leaves {share} elements, and {fit.threads} threads read "
            f"{least} at once",
            "use fewer parts, fewer threads or a smaller each",
        )
    yield from _share_row(sch, parts, part, fit)
    for block in kept:  # one thread stores what all have
        sch.add_unit_loop(block)
        spread_over_threads(sch, block, threads=fit.threads, tail="guard")
    threads = fit.threads
    if is_one:
        threads = config.parts
        if config.tail == "guard":  # a power of two, which TVM reduces by shuffles
            threads = 1 << (config.parts - 1).bit_length()
        threads = min(threads, WARP)
    else:
        each = fit.each or -(-share // (threads * fit.vector))
        for _ in _read_in_rounds(sch, [output], replace(fit, each=each)):
            pass
        if fit.in_registers:  # on their way while the parts are combined
            _cache_inputs(sch, output, row, read)
    for block in reversed(blocks if is_one else blocks[:-1]):
        spread_over_threads(sch, block, threads=threads, tail=config.tail)
    for block in padded.values():
        sch.compute_inline(block)
    yield "parts_combined"
    if config.clusters:
        fuse_kernels_in_clusters(sch, part, row, blocks=config.parts)
        yield "fused_in_clusters"


def _read_in_rounds(sch: Schedule, blocks: Sequence[SBlockRV], config: Any) -> Iterator[str]:
    """Spread every block over the threads per row, each of which reads some vectors at a time."""
    rounds = []
    for block in reversed(blocks):  # readers first
        if _has_one(sch, block):
            spread_over_threads(sch, block, threads=config.threads, tail="guard")
            continue
        # Sums of half precision are float32, of which 16 bytes make a vector.
        regions = [*sch.get(block).reads, *sch.get(block).writes]
        widest = MAX_VECTOR_BYTES // max(region.source.dtype.itemsize for region in regions)
        vector = config.vector if is_reduction(sch, block) else min(config.vector, widest)
        spread = spread_over_threads(
            sch, block, threads=config.threads, vector=vector, tail=config.tail
        )
        outer, batch = split_loop(sch, spread.steps, inner=config.each, tail=config.tail)
        unroll_loop(sch, batch)
        if is_reduction(sch, block):
            rounds.append((block, outer))
        elif vector > 1:
            vectorize_loop(sch, spread.elements)
    for block in blocks[:-1]:
        keep_in_registers(sch, block)
    yield "spread_over_threads"
    for block, outer in rounds:
        for copy in _cache_inputs(sch, block, outer):
            for loop in get_own_loops(sch, copy):
                if sch.get(loop).kind == ForKind.SERIAL:
                    unroll_loop(sch, loop)
    yield "rounds"


def _fit(sch: Schedule, blocks: Sequence[SBlockRV], config: RowConfig) -> RowConfig:
    """The config with no more threads and elements of a vector than rows have use for."""
    extent = get_extent(sch, sch.get_loops(blocks[0])[1])
    vector = find_vector(extent, sch.get(blocks[0]).reads[0].source.dtype, most=config.vector)
    threads = config.threads
    if config.tail == "guard" and extent is not None:
        # A power of two, which TVM reduces by shuffles, and no more than there are vectors.
        threads = min(threads, 1 << (extent // vector - 1).bit_length())
    return replace(config, threads=threads, vector=vector)


def _compute_row_at(sch: Schedule, producers: Sequence[SBlockRV], row: LoopRV) -> None:
    for block in reversed(producers):
        compute_block_at(sch, block, row)
        own = get_own_loops(sch, block)
        several = [loop for loop in own if get_extent(sch, loop) != 1]
        if len(several) > 1:  # a row of several dimensions
            fuse_loops(sch, several)
        elif several and several[0] is not own[-1]:  # the parts that rfactor makes come first
            sch.reorder(*(loop for loop in own if loop is not several[0]), several[0])
    for block in producers:
        keep_in_registers(sch, block)


def _cache_inputs(
    sch: Schedule, block: SBlockRV, loop: LoopRV, ahead: Sequence[Any] = ()
) -> list[SBlockRV]:
    """Copy all that a block reads of the kernel's tensors under a loop; the copies. Or some alone,
    `ahead` of what else stands there.

    Not a tensor of which several elements of a row share one, such as words that they are packed in
    and their scales: once the loops over the row are unrolled, a thread reads each of these once.
    """
    return [
        cache_row_at(sch, block, loop, operand=operand, ahead=bool(ahead))
        for operand, region in enumerate(sch.get(block).reads)
        if region.source.scope() == "global"
        and (not ahead or is_among(region.source, ahead))
        and not (region.region and find_all(region.region[-1].min, FloorDiv))
    ]


MATRIX, SMALL = Example({"m": 4096, "n": 4096}), {"m": 6, "n": 64}


def _make_ladder(kernel: str, names: str, online: str | None = None) -> Ladder:
    """The ladder of a kernel; `names` are those of its sblocks, `online` of its online form."""
    declared: dict[str, Any] = {
        "kernel": kernel,
        "blocks": (names,),
        "default_example": MATRIX,
        "tiles": ("threads",),
    }
    single = Family(
        config=RowPerThreadConfig,
        schedule=schedule_row_per_thread,
        small=Example(SMALL, config={"threads": 2}),
        **declared,
    )
    shared = Family(
        config=RowConfig,
        schedule=schedule_rows,
        small=Example(SMALL, config={"threads": 8}),
        options=("online",),
        **declared,
    )
    single.root(
        "naive",
        why="One row per thread: adjacent threads read elements that are a row apart",
        expects={"bound": ("barriers == 0",)},
    )
    threads = shared.root(
        "threads",
        why="One row per thread block, whose threads reduce it by warp shuffles",
        expects={"spread_over_threads": ("barriers >= 2",)},
    )
    vectors = threads.plus(
        "vectors",
        in_registers=True,
        vector=8,
        searched=("rows",),
        why="The row is read once, in vectors, with all loads in flight before the first use",
        golden={"vector": 4},
        expects={"unrolled": ("barriers >= 2", "scalar_loads == 0")},
    )
    if online is not None:
        vectors.plus(
            "online",
            online=True,
            why="Maximum and sum in one reduction: half the barriers, three exponentials for each "
            "element",
            changes={"blocks": (online,)},
        )
    return order("threads that share a row", *single.rungs, *shared.rungs)


KERNELS = (
    ("row_sum", "B"),
    ("softmax", "max exp sum B", "wide statistics B"),
    ("rms_norm", "sum B"),
    ("layer_norm", "mean variance B"),
    ("matvec", "y"),
)
"""Kernels over rows, and the names of their sblocks."""
REGISTER_BYTES = 128
"""Bytes of a row for each thread that keeps its share in registers, about: measured fastest."""
LONG = 32768
"""Elements of a row from which on it is read in rounds: registers of so many threads are full."""
FULL_THREADS = 128
"""So many threads several short rows of a block have together, if there are rows enough."""
_HALF_BYTES = 2
"""Bytes of an element: if vectors of these do not divide evenly among threads, half as many in each
of twice the threads are faster (rows of 2816 to 4080 elements, on an H100)."""


def _make_best(kernel: str, names: str) -> Recipe:
    """The recipe ``<kernel>_best``, whose config rules choose that were found by measurement."""

    def best(sch: Schedule, *, device: str = "NVIDIA H200") -> Iterator[str]:
        config, _ = rank_rows(sch, f"{kernel}_best", read_gpu(device))[0]
        yield from schedule_rows(sch, config)

    best.__name__ = f"{kernel}_best"
    best.__doc__ = (
        "Threads, rows per block, rounds and parts are chosen by the length and number of rows.\n\n"
        "Any shape: rows that vectors do not divide are read element by element. Knobs: device, a "
        "GPU by\nits name or its properties (transforms/recipes/time_model.py)."
    )
    return recipe(
        kernel=kernel,
        blocks=(names,),
        default_example=MATRIX,
        golden=Example(SMALL),
        expects={"unrolled": ("scalar_loads == 0",)},
    )(best)


def rank_rows(sch: Schedule, recipe_name: str, gpu: Gpu) -> list[tuple[RowConfig, Cut | None]]:
    """`rank_configs` for the rows of a kernel; refuses symbolic sizes."""
    blocks = get_sblocks(sch)
    total = sch.get(blocks[0])
    height, length = (constant(iterator.dom.extent) for iterator in total.iter_vars[:2])
    if height is None or length is None:
        raise TransformError(
            recipe_name,
            f"the shape ({height or 'm'}, {length or 'n'}) is not constant",
            "give the kernel its sizes",
        )
    dtype = total.reads[0].source.dtype
    is_one = is_reduction(sch, blocks[-1]) or _has_one(sch, blocks[-1])
    sums = 0 if is_one else sum(is_reduction(sch, block) for block in blocks)
    return rank_configs(height, length, dtype, sums=sums, gpu=gpu)


def rank_configs(
    height: int, length: int, dtype: Any, *, sums: int, gpu: Gpu
) -> list[tuple[RowConfig, Cut | None]]:
    """The config for so many rows of a length, by rules; of long rows the next ones, too, each with
    what the model of `rank_cuts` expects of it, which takes the same `sums`.
    """
    vector = find_vector(length, dtype, most=WIDEST)
    # Elements that are read one by one take an instruction each, however short they are.
    size = max(dtype.itemsize, 2) if vector > 1 else 4
    wanted = 1 << max(round(math.log2(max(length * size, 1) / REGISTER_BYTES)), 0)
    if height <= FEW_WAVES * gpu.multiprocessors:  # a vector for each thread of few blocks
        most = MAX_THREADS if height <= gpu.multiprocessors else MAX_THREADS // 2
        vectors = length // vector if vector > 1 else 0
        wanted = max(wanted, WARP, min(1 << max(vectors.bit_length() - 1, 0), most))
    threads = min(max(wanted, THREADS[0]), MAX_THREADS)
    is_uneven = vector > 1 and length // vector % threads > 0
    if is_uneven and dtype.itemsize == _HALF_BYTES and 2 * WARP <= threads < MAX_THREADS:
        threads *= 2
    if length < LONG:
        most = max(height // (2 * gpu.multiprocessors), WARP // threads, 1)
        rows = max(min(1 << (most.bit_length() - 1), FULL_THREADS // threads), 1)
        if threads > WARP and height % rows:
            rows = 1  # barriers may stand in no guard
        config = RowConfig(
            threads=threads, in_registers=True, vector=WIDEST, rows=rows, tail="guard"
        )
        return [(config, None)]
    whole = RowConfig(threads=threads, vector=WIDEST, each=WHOLE_EACH, tail="guard")
    vector = find_vector(length, dtype, most=find_guarded(dtype.itemsize))
    size = dtype.itemsize
    cuts = rank_cuts(height, length, size=size, vector=vector, gpu=gpu, threads=threads, sums=sums)
    knobs = ("threads", "each", "parts", "clusters")
    found = list[tuple[RowConfig, Cut | None]]()
    for cut in cuts:
        lanes = CLUSTER_VECTOR if cut.clusters else WIDEST
        own = {it: getattr(cut, it) for it in knobs}
        found.append((replace(whole, vector=lanes, in_registers=not cut.each, **own), cut))
    return found


LADDERS = (
    *(_make_ladder(*row) for row in KERNELS),
    *(
        order("rows of any length and number", _make_best(kernel, names), name=f"{kernel}_best")
        for kernel, names, *_ in KERNELS
    ),
)
