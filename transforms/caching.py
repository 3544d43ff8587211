"""Caches: copies of a block's operands and results in shared memory or registers.

A tile of an operand is fetched into shared memory by all threads of a block together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferStore, For, IfThenElse, SeqStmt, Var

from .annotations import ASYNC, STAGE
from .binding import bind_loop
from .coverage import require_computed
from .gpu_limits import MAX_THREADS
from .inlining import inline_producers
from .layout import require_copy
from .loops import Tail, require_countable, require_serial
from .placement import (
    fuse_epilogue_at,
    require_around,
    require_outside_reductions,
    require_scalar_place,
)
from .queries import (
    find_epilogue,
    get_enclosing_kernel,
    get_extent,
    get_loop_name,
    get_outer_loops,
    get_own_loops,
    get_realize,
    get_root,
    get_sblock_name,
    get_sblocks_under,
    is_reduction,
)
from .schedule import TransformError, inlines, transform
from .tir import constant, find_all, find_row_stride, get_axis, get_places, is_among, is_used
from .vectorize import find_float8_fault, find_longest_vector, vectorize_loop

_HELD = "tirstep.held"
SCOPES = ("shared", "shared.dyn", "local")
_WHY_NOT = {
    "warp": " (TVM lowers warp buffers wrongly)",
    "global": " (TVM puts no barrier between the threads that write it and those that read it)",
}


@transform
def cache_read_at(
    sch: Schedule, block: SBlockRV, loop: LoopRV, *, operand: int, scope: str = "shared"
) -> SBlockRV:
    """Copy what one iteration of a loop reads of an operand into a faster memory.

    rewrite: ``for k_0: C += A[...]`` -> ``for k_0: (for ax: A_shared[...] = A[...]);
        C += A_shared[...]``
    consumes: nothing
    returns: the copy block, whose own loops iterate over the tile, one per dimension; all readers
        under the loop read the copy, and readers elsewhere are unchanged
    requires: `operand` counts the buffers that the block reads, from 0; a scope of ``shared``,
        ``shared.dyn`` or ``local``; a loop around the block, not vectorized; a block that no
        pipeline copies asynchronously; a copy within the operand's bounds (if the loops of the
        block that writes it were fused and split with a guard, TVM may copy rows beyond its end);
        an operand that is not indexed by data under a guard, and that the block itself does not
        write
    guarded: an operand that is neither in other threads' registers nor in another thread block's
        shared memory
    """
    return place_copy_at(sch, block, loop, operand=operand, scope=scope)


def place_copy_at(
    sch: Schedule,
    block: SBlockRV,
    loop: LoopRV,
    *,
    operand: int,
    scope: str,
    comes_first: bool = False,
    inlines: bool = False,
) -> SBlockRV:
    """`cache_read_at` of an operand that may lie in registers of threads which fetch it then.

    With `comes_first` the copy stands in front of all else in the loop, as far as it can; where it
    `inlines`, producers that can be are inlined into it.
    """
    _require_scope(scope)
    require_operand(sch, block, operand)
    require_around(sch, loop, block)
    # Refuse a copy in a pipeline's asynchronous stage: cp.async reads global memory alone.
    target = sch.get(block)
    for around in get_outer_loops(sch, block):
        parts = list(around.body.seq) if isinstance(around.body, SeqStmt) else []
        stages = around.annotations.get(STAGE, []) if ASYNC in around.annotations else []
        for part, stage in zip(parts, stages, strict=False):
            if stage == 0 and any(target.same_as(item) for item in find_all(part, SBlock)):
                raise TransformError(
                    f"block '{get_sblock_name(sch, block)}' is copied asynchronously for the next "
                    f"iterations of loop '{around.loop_var.name}', straight from global memory",
                    "cache its operand before prefetching",
                )
    require_scalar_place(sch, loop)
    copy = sch.cache_read(block, operand, scope, *list_consumers(sch, block, loop, operand))
    sch.compute_at(copy, loop, preserve_unit_loops=True, index=-2 if comes_first else -1)
    # Where a guarded block reads the place of a copy, TVM reads it without the guard.
    guard = get_realize(sch, block).predicate
    for value in get_realize(sch, copy).iter_values:
        for load in find_all(value, TensorLoad):
            used = [variable for index in load.indices for variable in find_all(index, Var)]
            if any(is_used(variable, guard) for variable in used):
                name = load.source.name
                raise TransformError(
                    f"block '{get_sblock_name(sch, block)}' indexes "
                    f"'{sch.get(copy).reads[0].source.name}' by elements of '{name}', which TVM "
                    f"would read without the guard, beyond the end of '{name}'",
                    "cache the operand before the loops are split with a guard, or leave it in "
                    "global memory",
                )
    if inlines and can_inline_producers(sch, copy):
        inline_producers(sch, copy)
    return copy


def require_operand(sch: Schedule, block: SBlockRV, operand: int) -> None:
    """Refuse a number that counts none of the buffers that a block reads, or one that it writes."""
    node, name = sch.get(block), get_sblock_name(sch, block)
    reads = [str(region.source.name) for region in node.reads]
    if not 0 <= operand < len(reads):
        listed = ", ".join(f"{index}: {it}" for index, it in enumerate(reads))
        advice = "count the operands from 0"
        raise TransformError(f"block '{name}' has no operand {operand}, it reads {listed}", advice)
    if any(it.source.same_as(node.reads[operand].source) for it in node.writes):
        raise TransformError(
            f"operand {operand} of block '{name}', '{reads[operand]}', is what the block "
            "itself writes, and TVM would put the copy after it",
            "choose an operand that the block only reads",
        )


def list_consumers(
    sch: Schedule, block: SBlockRV, loop: LoopRV, operand: int
) -> list[list[SBlockRV]]:
    """The readers under a loop, as TVM's last argument; without others it takes all by itself.

    Where there are others, the readers are held in the trace: TVM's `Trace.simplified`, which
    MetaSchedule keeps, sees no handle in a list within the arguments, and would drop what gets it.
    """
    buffer = sch.get(block).reads[operand].source

    def count(nodes: list[SBlock]) -> int:
        return sum(any(it.source.same_as(buffer) for it in node.reads) for node in nodes)

    if count(find_all(get_root(sch, block), SBlock)) == count(get_sblocks_under(sch, loop)):
        return []
    readers = [it for it in sch.get_child_blocks(loop) if count([sch.get(it)])]
    for reader in readers:  # instructions with each as an argument of its own change nothing
        sch.annotate(reader, _HELD, 1)
        sch.unannotate(reader, _HELD)
    return [readers]


@transform
def cache_write_at(
    sch: Schedule, block: SBlockRV, loop: LoopRV, *, scope: str = "local"
) -> SBlockRV:
    """Compute a block's result in a faster memory and copy it out under a loop.

    rewrite: ``for j_1: for k: C[...] += ...`` -> ``for j_1: (for k: C_local[...] += ...);
        C[...] = C_local[...]``
    consumes: nothing
    returns: the copy block
    requires: a scope as in `cache_read_at`; a loop around the block and outside of its reductions,
        not vectorized; for ``local`` a loop inside of the block's thread loops, since a thread
        cannot read another's registers; a block that computes all elements that the copy would
        write (for a tile with a guard, TVM may copy more, or beyond the tensor; for swizzled or
        data-dependent indices, a whole region); a block that stores without a branch around it, and
        does not update in place; a tile that the copy covers in no more iterations than the block
        has, or than the tensor has elements (for loops that were split with guards and reordered,
        TVM overestimates the tile)
    guarded: each thread or thread block copies only what it wrote itself, with a barrier where
        threads share elements
    """
    _require_scope(scope)
    require_around(sch, loop, block)
    require_outside_reductions(sch, loop, block)
    require_scalar_place(sch, loop)
    # Refuse a block that writes one element of a region: the copy would write all of that.
    node, name = sch.get(block), get_sblock_name(sch, block)
    stores = find_all(node.body, BufferStore)
    for branch in find_all(node.body, IfThenElse) if node.init is None else ():
        arms = [branch.then_case, branch.else_case]
        storing = [arm is not None and bool(find_all(arm, BufferStore)) for arm in arms]
        if any(storing) and not all(storing):
            raise TransformError(
                f"block '{name}' stores to '{node.writes[0].source.name}' only "
                f"where {branch.condition}, and the copy would write all of it",
                "write both cases, as T.if_then_else(condition, value, what is there before), or "
                "leave the result where it is",
            )
    is_plain = len(stores) == 1 and not find_all(node.body, For) and not node.match_buffers
    if is_plain and any(constant(part.extent) != 1 for part in node.writes[0].region):
        raise TransformError(
            f"block '{name}' writes single elements, within a region of '{stores[0].buffer.name}' "
            "that its indices do not determine, and the copy would write the whole region",
            "cache before its elements change places, by stage_swizzled_at or transform_layout",
        )
    copy = sch.cache_write(block, 0, scope)
    # What a block adds to is not there: its own memory begins with no values.
    node = sch.get(block)
    made = node.writes[0].source
    if node.init is None and any(it.source.same_as(made) for it in find_all(node.body, TensorLoad)):
        changed = str(sch.get(sch.get_consumers(block)[0]).writes[0].source.name)
        raise TransformError(
            f"block '{name}' changes '{changed}' in place, and its earlier contents would not "
            "be in the faster memory",
            "leave the result where it is, or let the block write to another buffer",
        )
    written = sch.get(copy).writes[0].source
    for dimension, (iterator, length) in enumerate(
        zip(sch.get(copy).iter_vars, written.shape, strict=False)
    ):
        copied, whole = constant(iterator.dom.extent), constant(length)
        if copied is not None and whole is not None and copied > whole:
            raise TransformError(
                f"the guarded tile of '{written.name}' has {copied} elements along dimension "
                f"{dimension}, and TVM would copy all of them, though only {whole} exist",
                "cache the result before its loops are split with a guard, or choose sizes that "
                "divide",
            )
    sch.reverse_compute_at(copy, loop, preserve_unit_loops=True)
    inside = find_all(sch.get(loop).body, For)
    runs, own = (
        math.prod(
            constant(it.extent) or 1 for it in get_outer_loops(sch, each) if is_among(it, inside)
        )
        for each in (copy, block)
    )
    target = sch.get(copy).writes[0].source
    elements = math.prod(constant(length) or 1 for length in target.shape)
    if runs > max(own, elements):
        raise TransformError(
            f"the copy of '{target.name}', which has {elements} elements, would run {runs} times "
            f"in each iteration of loop '{get_loop_name(sch, loop)}', and block '{name}' {own} "
            "times: TVM overestimates tiles of loops that were split with guards and reordered",
            "cache the result before its loops are split, or at a loop further in",
        )
    require_computed(sch, block, copy)
    return copy


@transform
def accumulate_in_registers(sch: Schedule, block: SBlockRV, loop: LoopRV) -> SBlockRV:
    """Accumulate in each thread's registers, and write the results once, under a loop.

    If the block's output is an intermediate buffer with one consumer (an epilogue: bias and relu, a
    cast, the cropping of a padded result), that consumer writes the results.

    rewrite: ``C[...] += ...`` -> ``C_local[...] += ...`` and, at the end of `loop`,
        ``C[...] = C_local[...]``
    consumes: the epilogue's loops, if there is one
    returns: the block that writes the results
    requires: a block that reduces; a loop around it, inside of its thread loops and outside of
        its reductions
    guarded: each thread finishes its own sums, and what an epilogue reads is written before it
    """
    if not is_reduction(sch, block):
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' is not a reduction",
            "use cache_write_at to keep a result in registers",
        )
    require_around(sch, loop, block)
    require_outside_reductions(sch, loop, block)
    epilogue = find_epilogue(sch, block)
    if epilogue is None:
        return cache_write_at(sch, block, loop, scope="local")
    return fuse_epilogue_at(sch, block, epilogue, loop)


def _require_scope(scope: str) -> None:
    if scope not in SCOPES:
        hint = _WHY_NOT.get(scope, "")
        raise TransformError(
            f"scope '{scope}' is not supported{hint}", f"use one of {', '.join(SCOPES)}"
        )


@transform
def fetch_cooperatively(
    sch: Schedule,
    block: SBlockRV,
    *,
    threads: int | Sequence[int],
    vector: int = 1,
    tail: Tail = "refuse",
) -> None:
    """Fetch a tile with all threads of a thread block, each loading a share.

    `threads` are the extents of the bound compute loops, in the order (z, y, x): ``64`` for only
    threadIdx.x, ``(8, 16)`` for threadIdx.y and threadIdx.x. With ``tail="guard"`` TVM may have to
    load the elements of a vector one by one, such as beyond the end of a run; for float8 their loop
    then stays serial, since CUDA does not compile such vectors, and vectors of 8-bit types that may
    be padding zeros have four elements, the most that TVM can write in CUDA.

    rewrite: ``for ax0, ax1: A_shared[...] = A[...]`` -> ``for f_0: for f_1 in threadIdx.y:
        for f_2 in threadIdx.x: for f_3 in T.vectorized(vector): A_shared[...] = A[...]``
    consumes: the block's own loops
    requires: a copy block that writes ``shared`` or ``shared.dyn`` memory, placed under a loop of
        its consumer; its own loops serial; thread axes and extents as the rest of the kernel has
        them; a tile whose size is a multiple of threads * vector, in contiguous runs that are
        multiples of vector, or ``tail="guard"``; a barrier by TVM where a thread reads what another
        one wrote (TVM omits it for a tile as small as one thread's share)
    guarded: a reduction over threads keeps its guard, and threads that share elements have a
        barrier in between
    """
    shape = (threads,) if isinstance(threads, int) else tuple(threads)
    own = get_own_loops(sch, block)
    if own and get_outer_loops(sch, own[0]):
        # Of more axes than the kernel has, all else would run once for each of their threads.
        loop = own[0]
        axes = {get_axis(node) or "" for node in find_all(get_enclosing_kernel(sch, loop), For)}
        known = sorted(axis for axis in axes if axis.startswith("threadIdx"))
        for letter, extent in zip("xyz", shape[::-1], strict=False):
            if known and extent > 1 and f"threadIdx.{letter}" not in known:
                raise TransformError(
                    f"threads={shape} needs threadIdx.{letter} above loop "
                    f"'{get_loop_name(sch, loop)}', and the kernel's threads are on "
                    f"{' and '.join(known)} only",
                    "give the extents that the compute loops bind",
                )
    fetch_by_threads(sch, block, shape, vector=vector, tail=tail)


def fetch_by_threads(
    sch: Schedule,
    block: SBlockRV,
    shape: tuple[int, ...],
    *,
    vector: int,
    tail: Tail,
    whole_rows: bool = False,
) -> None:
    """`fetch_cooperatively`, also on thread axes that the kernel does not have yet.

    With `whole_rows` vectors divide a row, and its place in one is a sum: of rows of 48 elements,
    say, TVM does not see from ``(f * 8 + v) % 48 // 16`` that it is the same for all v.
    """
    name = get_sblock_name(sch, block)
    target = require_copy(sch, block).source
    if target.scope() not in ("shared", "shared.dyn"):
        raise TransformError(
            f"block '{name}' writes '{target.name}' in scope '{target.scope()}', which threads do "
            "not share",
            'cache the operand with scope="shared" or "shared.dyn"',
        )
    if not (1 <= len(shape) <= 3 and min(shape) >= 1 and math.prod(shape) <= MAX_THREADS):
        raise TransformError(
            f"threads={shape} is not a shape of a thread block",
            f"give one to three extents of at least 1, together at most {MAX_THREADS}",
        )
    if vector not in (1, 2, 4, 8, 16):
        raise TransformError(f"vector={vector} is not a vector width", "use 1, 2, 4, 8 or 16")
    own = get_own_loops(sch, block)
    if not own or not get_outer_loops(sch, own[0]):
        raise TransformError(
            f"block '{name}' must be under a loop of its consumer, with loops of its own",
            "place it with cache_read_at before fetching",
        )
    for loop in own:
        require_serial(sch, loop)
    extents = [get_extent(sch, loop) for loop in own]
    elements = None if None in extents else math.prod(extent or 0 for extent in extents)
    share = math.prod(shape) * vector
    if tail != "guard" and (elements is None or elements % share):
        raise TransformError(
            f"the tile of block '{name}' has {elements or 'a symbolic number of'} elements, which "
            f"threads * vector = {share} does not divide",
            'use fewer threads, a shorter vector or a larger tile, or pass tail="guard"',
        )
    # How many elements of a tile lie side by side: a row, or several if rows are whole.
    run, root = 1, get_root(sch, block)
    for extent, whole in zip(extents[::-1], target.shape[::-1], strict=False):
        run *= extent or 1
        if extent != constant(whole) or find_row_stride(root, target) is not None:
            break
    if tail != "guard" and run % vector:
        raise TransformError(
            f"the tile of block '{name}' lies in runs of {run} elements, which vector={vector} "
            "does not divide, so that TVM would load the elements one by one",
            'use a shorter vector or longer rows, or pass tail="guard"',
        )
    require_countable(sch, own)
    if whole_rows and vector > 1:
        *front, last = own
        chunk, within = sch.split(last, [None, vector])
        fused = sch.fuse(*front, chunk) if front else chunk
        pieces = [*sch.split(fused, [None, *shape]), within]
    else:
        fused = own[0] if len(own) == 1 else sch.fuse(*own)
        pieces = sch.split(fused, [None, *shape, vector] if vector > 1 else [None, *shape])
    if vector > 1 and not (tail == "guard" and find_float8_fault(sch, pieces[-1])):
        inner, longest = pieces[-1], get_extent(sch, pieces[-1]) or 1
        if tail == "guard":  # of zeros for what is not there, say, a part that CUDA has
            places = get_places(get_root(sch, block).body)
            (place,) = (each for each in places if each.block.same_as(sch.get(block)))
            longest = find_longest_vector(place, sch.get(inner), longest)
        if longest > 1:
            whole = longest == get_extent(sch, inner)
            vectorize_loop(sch, inner if whole else sch.split(inner, [None, longest])[1])
    for letter, loop in zip("xyz"[: len(shape)][::-1], pieces[1:], strict=False):
        bind_loop(sch, loop, axis=f"threadIdx.{letter}")


@transform
@inlines
def stage_operand_at(
    sch: Schedule,
    block: SBlockRV,
    loop: LoopRV,
    *,
    operand: int,
    threads: int | Sequence[int],
    vector: int = 1,
    scope: str = "shared",
    tail: Tail = "guard",
) -> SBlockRV:
    """Stage an operand's tile in shared memory under a loop, fetched by all threads together.

    This is `cache_read_at`, then `inline_producers` if the operand's producers can be inlined (a
    padding becomes part of the fetch), then `fetch_cooperatively`.

    rewrite: ``for k_0: C += A[...]`` -> ``for k_0: (for f_1 in threadIdx.x: A_shared[...] =
        A[...]); C += A_shared[...]``
    consumes: the operand's producers, if they are inlined
    returns: the copy block
    requires: what `cache_read_at` and `fetch_cooperatively` require
    guarded: indices that TVM lowers as they stand, and a barrier where threads share elements
    """
    copy = place_copy_at(sch, block, loop, operand=operand, scope=scope, inlines=True)
    fetch_cooperatively(sch, copy, threads=threads, vector=vector, tail=tail)
    return copy


def can_inline_producers(sch: Schedule, block: SBlockRV) -> bool:
    """Whether `inline_producers` does it, and no producer is a kernel of its own."""
    around = get_outer_loops(sch, block)
    for producer in sch.get_producers(block):
        for loop in get_outer_loops(sch, producer):
            if (get_axis(loop) or "").startswith("blockIdx") and not is_among(loop, around):
                return False
    try:
        inline_producers(sch.copy(), block)
    except TransformError:
        return False
    return True
