"""Binding: loops onto the blocks and threads of a GPU, one by one or a whole tile at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import Add, BufferStore, For, IterVar, Max, Min, Mul, max_value, min_value
from tvm_ffi import structural_equal

from tirstep.tvm_compat import get_op_name

from .annotations import STAGE
from .coverage import require_single_terms
from .gpu_limits import MAX_EXTENTS, MAX_THREADS, WARP
from .loops import (
    Tail,
    fuse_loops,
    require_constant,
    require_countable,
    require_factors,
    require_serial,
)
from .queries import (
    get_enclosing_kernel,
    get_enclosing_loops,
    get_loop_name,
    get_reduction_loops,
    get_root,
    get_sblock_name,
    get_spatial_loops,
)
from .schedule import Int64, TransformError, transform
from .tir import (
    constant,
    find_all,
    get_axis,
    get_fed_iterators,
    get_places,
    is_among,
    is_used,
)

THREAD_AXES = tuple(
    f"{level}.{letter}" for level in ("blockIdx", "threadIdx", "vthread") for letter in "xyz"
)


class Tile(NamedTuple):
    """The loops of a tiled block, each in the order of the block's spatial loops."""

    blocks: tuple[LoopRV, ...]
    threads: tuple[LoopRV, ...]
    locals: tuple[LoopRV, ...]


@transform
def bind_loop(sch: Schedule, loop: LoopRV, *, axis: str, max_threads: Int64 = MAX_THREADS) -> None:
    """Bind a loop to a thread axis of the GPU.

    rewrite: ``for i in range(n)`` -> ``for i in T.thread_binding(n, thread=axis)``
    consumes: nothing
    requires: a known axis; a serial loop, no pipeline of prefetches; for threads a constant extent;
        no other loop on the same axis that feeds the same block or occurs in its guards (only the
        diagonal would run); the same extent as the axis has elsewhere in the kernel (the kernel
        would be launched with only one of them); at most `max_threads` threads per thread block,
        and along each axis at most what a GPU allows; for virtual threads no other loop around or
        inside on the same axis; for a reduction over threads an outermost loop around it that is
        bound already (TVM would leave the threads' partial sums in one shared element), a loop that
        iterates only over the reduction, up to 32 threads or a multiple of 32, a block that
        contains no other block and starts from its operation's identity, and for a running softmax
        a serial part in each thread
    guarded: all rules of lowering_checks/legality/rules.py; the most frequent: no read of another
        thread's registers ("local"), nor of another thread block's shared memory; for virtual
        threads all blocks of the kernel inside; sums
        over threads along axes that follow each other, in 32 bits
    """
    name = get_loop_name(sch, loop)
    if axis not in THREAD_AXES:
        raise TransformError(
            f"loop '{name}': thread axis '{axis}' does not exist",
            f"use one of {', '.join(THREAD_AXES)}",
        )
    require_bindable(sch, loop, axis, max_threads)
    sch.bind(loop, axis)


def require_bindable(
    sch: Schedule, loop: LoopRV, axis: str, max_threads: int = MAX_THREADS
) -> None:
    """Refuse what `bind_loop` requires of a loop on a known axis."""
    require_serial(sch, loop)
    node, name = sch.get(loop), get_loop_name(sch, loop)
    # Iterations of a pipeline overlap, and TVM lowers none over threads.
    if STAGE in node.annotations:
        raise TransformError(
            f"loop '{name}' prefetches for its next iteration, which has to "
            "come after it in the same thread",
            "bind another loop, or bind before prefetching",
        )
    if not axis.startswith("blockIdx"):
        require_constant(sch, loop)
    lineage = [*get_enclosing_loops(sch, loop), *find_all(node.body, For)]
    if rivals := [other for other in lineage if get_axis(other) == axis]:
        _require_axis_free(sch, loop, axis, rivals)
    # One loop for each axis of the kernel, the new one included.
    first = {axis: node}
    for inner in find_all(get_enclosing_kernel(sch, loop), For):
        used = get_axis(inner)
        if used is None or used.startswith("vthread"):
            continue
        other = first.setdefault(used, inner)
        sizes = constant(inner.extent), constant(other.extent)
        is_same = sizes[0] == sizes[1]
        if sizes[0] is None:
            is_same = structural_equal(inner.extent, other.extent)
        if not is_same:
            raise TransformError(
                f"loop '{other.loop_var.name}' runs {other.extent} times, and '{used}' has the "
                f"extent {inner.extent} at loop '{inner.loop_var.name}' of the same kernel",
                "split the loop so that both have one extent",
            )
    threads = {
        used: constant(each.extent) or 1
        for used, each in first.items()
        if used.startswith("threadIdx")
    }
    total = math.prod(threads.values())
    if total > max_threads:
        product = " * ".join(f"{used}={size}" for used, size in sorted(threads.items()))
        raise TransformError(
            f"loop '{name}' would make a block of {total} threads "
            f"({product}), more than max_threads={max_threads}",
            "split the loop and bind its inner part",
        )
    # The launch would fail.
    extent, limit = constant(node.extent), MAX_EXTENTS.get(axis)
    if extent is not None and limit is not None and extent > limit:
        wide = axis[:-1] + "x"
        advice = "split it and bind the inner part"
        if extent <= MAX_EXTENTS[wide]:
            advice = f"put the larger loop on {wide}, or {advice}"
        raise TransformError(
            f"loop '{name}' runs {extent} times, and a GPU takes {limit} on '{axis}' at most",
            advice,
        )
    if axis.startswith("threadIdx"):
        _require_sound_reduction(sch, loop)


def _require_axis_free(sch: Schedule, loop: LoopRV, axis: str, rivals: list[For]) -> None:
    """Refuse an axis on which another loop of the same block, one of `rivals`, runs already."""
    node = sch.get(loop)
    name = f"loop '{node.loop_var.name}'"
    if axis.startswith("vthread"):
        raise TransformError(
            f"{name}: '{axis}' already drives loop '{rivals[0].loop_var.name}' around or "
            "inside, and each virtual thread would do only its own share of both",
            "bind it to another axis, or leave it serial",
        )
    for place in get_places(get_root(sch, loop)):
        guards = place.find_real_guards() if is_among(node, place.loops) else []
        # What decides what a block works on, or whether it runs: guards are uses, too.
        used = [
            it
            for it in ((node, *rivals) if is_among(node, place.loops) else ())
            if place.is_fed(it) or any(is_used(it.loop_var, guard) for guard in guards)
        ]
        if not is_among(node, used):
            continue
        own = find_all(place.block.body, For)
        if place.is_innermost and any(is_among(rival, own) for rival in rivals):
            raise TransformError(
                f"{name}: block '{place.name}' is one instruction of all threads on '{axis}', "
                "and each of them would do only its own share of the loop",
                "bind it to another axis, or leave it serial",
            )
        for rival in rivals:
            if not is_among(rival, place.loops) or not is_among(rival, used):
                continue
            what = f"{name}: '{axis}' already drives loop "
            what += f"'{rival.loop_var.name}' of block '{place.name}', "
            guarded = [item.loop_var for item in (node, rival) if not place.is_fed(item)]
            if not guarded:
                raise TransformError(
                    f"{what}so that only the diagonal would run",
                    "bind it to another axis, or fuse the two loops first",
                )
            guard = next(guard for guard in guards if is_used(guarded[0], guard))
            raise TransformError(
                f"{what}and '{guarded[0].name}' occurs only in the guard {guard}, which decides "
                "which threads run: each would do only its own share, and those excluded none",
                "bind it to another axis, or bind the outer loop first, and fetch or spread what "
                "is inside of it afterwards",
            )


def _require_sound_reduction(sch: Schedule, loop: LoopRV) -> None:
    """Refuse a reduction over threads that TVM lowers to something else."""
    node = sch.get(loop)
    outer = get_enclosing_loops(sch, loop)
    on_host = not any("Idx" in (get_axis(item) or "") for item in outer)
    for realize in find_all(node, SBlockRealize):
        block = realize.block
        types = {iterator.iter_type for iterator in get_fed_iterators(realize, node)}
        if IterVar.CommReduce not in types:
            continue
        what = f"loop '{node.loop_var.name}' is a reduction of block '{block.name_hint}'"
        if len(types) > 1:
            raise TransformError(
                f"{what} and goes over its outputs as well: TVM would sum over all threads of the "
                "loop, whichever output they work on",
                "bind the spatial loops and the reduction separately, without fusing them",
            )
        _require_constant_beginning(block, what)
        if find_all(block.body, SBlock):
            raise TransformError(
                f"{what}, which contains another block, and TVM reduces over threads only "
                "within one block",
                "bind the reduction of a block without others in it",
            )
        extent = constant(node.extent) or 1
        if extent > WARP and extent % WARP:
            raise TransformError(
                f"{what} over {extent} threads: in its last steps, TVM assumes that the "
                "threads of a warp run in lockstep",
                f"use up to {WARP} threads, or a multiple of {WARP}",
            )
        if on_host:
            where, advice = "with no loop around it", "bind a spatial loop around it first"
            if outer:
                where = f"inside of loop '{outer[0].loop_var.name}', which is not bound"
                advice = "bind the outer loop first"
            raise TransformError(f"{what} {where}: its threads would add to one element", advice)
        # Where a thread has a serial loop, or a guard, TVM lets it begin with the maximum of
        # nothing, which is finite. Otherwise its part is the element itself, and of two parts of
        # -inf the scales of a sum of powers are exp(-inf - -inf).
        is_begun = (
            constant(realize.predicate) != 1
            or len(block.reads) != 1
            or any(
                get_axis(each) is None and it.iter_type == IterVar.CommReduce
                for each in (*outer, *find_all(node.body, For))
                for it in get_fed_iterators(realize, each)
            )
        )
        has_powers = any(get_op_name(it).endswith(".exp") for it in find_all(block.body, Call))
        if not is_begun and len(block.writes) == 2 and has_powers:
            raise TransformError(
                f"{what}, and each thread would start from its one element, instead of -inf: "
                "masked elements, which are -inf, would give NaN",
                "split it and leave a part serial, with inner=1 at least",
            )


def _require_constant_beginning(block: SBlock, what: str) -> None:
    """Refuse sums that begin otherwise than TVM's reducer: with a tensor's elements, or another
    constant than its own.

    What begins with its own elements repairs them, which has a sentence of its own (`repairs`).
    """
    if (begin := block.init) is None:
        return
    own = [store.buffer for store in find_all(begin, BufferStore)]
    loads = find_all(begin, TensorLoad)
    if loads and not any(is_among(load.source, own) for load in loads):
        raise TransformError(
            f"{what}, which starts from elements of '{loads[0].source.name}', and TVM reduces "
            "over threads only from a constant",
            "let it start from 0, and add them in a block of their own after it",
        )
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(begin, BufferStore):
        return
    first, dtype = getattr(begin.value, "value", None), str(store.buffer.dtype)
    identities: dict[type, Callable[[], float]] = {
        Add: lambda: 0,
        Mul: lambda: 1,
        Max: lambda: min_value(dtype).value,
        Min: lambda: max_value(dtype).value,
    }
    find_identity = identities.get(type(store.value))
    if first is None or find_identity is None or dtype == "bool":  # which has no least value
        return
    if first != (identity := find_identity()):
        raise TransformError(
            f"{what}, which starts from {first}, and TVM reduces over threads only from {identity}",
            f"let it start from {identity}, and combine it with {first} in a block after it",
        )


@transform
def bind_batch(
    sch: Schedule, block: SBlockRV, *, axis: str = "blockIdx.z", kept: int = 2
) -> LoopRV:
    """Bind a block's spatial loops, all but its last ones, to one block axis.

    For matmuls, convolutions and norms with leading dimensions for a batch, heads or images: all
    but the last `kept` spatial loops become one loop, whatever their number and extents.

    rewrite: ``for b, h, i, j`` -> ``for b_h_fused in blockIdx.z: for i, j``
    consumes: the loops that are fused
    returns: the loop that is bound
    requires: more spatial loops than `kept`; those in front serial, directly inside of each other
        and around all others of the block; an axis of blocks that is free
    guarded: as for `bind_loop`
    """
    name, spatial = get_sblock_name(sch, block), get_spatial_loops(sch, block)
    if not axis.startswith("blockIdx"):
        raise TransformError(
            f"axis '{axis}' is not one of blocks", "use blockIdx.x, blockIdx.y or blockIdx.z"
        )
    if not 0 <= kept < len(spatial):
        raise TransformError(
            f"kept={kept} leaves none of the {len(spatial)} spatial loops of block '{name}'",
            "use a smaller kept, or a block with more spatial loops",
        )
    batch = spatial[: len(spatial) - kept]
    first = [sch.get(loop) for loop in sch.get_loops(block)[: len(batch)]]
    for loop, node in zip(batch, first, strict=True):
        if not sch.get(loop).same_as(node):
            raise TransformError(
                f"loop '{get_loop_name(sch, loop)}' of the batch stands inside of loop "
                f"'{node.loop_var.name}' of block '{name}', which is not in the batch",
                "bring the loops of the batch to the front with reorder_loops first",
            )
    fused = batch[0] if len(batch) == 1 else fuse_loops(sch, batch)
    bind_loop(sch, fused, axis=axis)
    return fused


@transform
def tile_block(
    sch: Schedule,
    block: SBlockRV,
    *,
    threads: Sequence[int],
    per_thread: Sequence[int] | None = None,
    axes: Sequence[str] | None = None,
    fuse_threads: bool = False,
    tail: Tail = "refuse",
) -> Tile:
    """Tile the last spatial loops of a block onto a grid of blocks and threads.

    One entry of `threads` (and of `per_thread`: elements of each thread, 1 by default) for every
    loop to be tiled, in the order of the loops. `axes` are the letters they get; by default the
    last loop gets x, the one before it y, then z, so that adjacent threads access adjacent
    elements. `fuse_threads` puts all threads on threadIdx.x, the last loop fastest.

    rewrite: ``for i, j, k`` -> ``for i_0 in blockIdx.y: for j_0 in blockIdx.x:
        for i_1 in threadIdx.y: for j_1 in threadIdx.x: for k: for i_2, j_2``
    consumes: the tiled loops
    returns: the loops of the tile; `locals` is empty without `per_thread`
    requires: serial spatial loops, as many as `threads` has entries; the tile of each loop
        (threads * per_thread) divides its extent, or ``tail="guard"``
    guarded: as for `bind_loop`
    """
    spatial, count = get_spatial_loops(sch, block), len(threads)
    if not 1 <= count <= min(3, len(spatial)):
        raise TransformError(
            f"threads has {count} entries, and block '{get_sblock_name(sch, block)}' has "
            f"{len(spatial)} spatial loops",
            "give one entry for each loop to be tiled, at most three",
        )
    of_thread = [1] * count if per_thread is None else list(per_thread)
    letters = list("xyz"[:count][::-1]) if axes is None else list(axes)
    for what, given in (("per_thread", of_thread), ("axes", letters)):
        if len(given) != count:
            raise TransformError(
                f"{what} has {len(given)} entries and threads has {count}",
                "give one entry for each loop to be tiled",
            )
    loops, sizes = spatial[-count:], list(zip(threads, of_thread, strict=True))
    for loop, (many, each) in zip(loops, sizes, strict=True):
        require_serial(sch, loop)
        require_factors(sch, loop, {"threads": many, "per_thread": each}, tail)
    reductions = get_reduction_loops(sch, block)
    levels = []
    for loop, (many, each) in zip(loops, sizes, strict=True):
        factors = [None, many] if per_thread is None else [None, many, each]
        levels.append(list(sch.split(loop, factors)))
    blocks = tuple(level[0] for level in levels)
    inside = tuple(level[1] for level in levels)
    elements = tuple(level[2] for level in levels if len(level) == 3)
    sch.reorder(*blocks, *inside, *reductions, *elements)
    require_single_terms(sch, block)
    if fuse_threads:
        require_countable(sch, inside)
        inside = (sch.fuse(*inside),)
    for letter, loop in zip(letters, blocks, strict=True):
        bind_loop(sch, loop, axis=f"blockIdx.{letter}")
    for letter, loop in zip("x" if fuse_threads else letters, inside, strict=True):
        bind_loop(sch, loop, axis=f"threadIdx.{letter}")
    return Tile(blocks, inside, elements)
