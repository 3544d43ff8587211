"""Fetching: a tile of an operand brought into shared memory by all threads of a block together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import For

from .binding import bind_loop
from .caching import place_copy_at
from .gpu_limits import MAX_THREADS
from .inlining import inline_producers
from .layout import require_copy
from .loops import Tail, require_countable, require_serial
from .queries import (
    get_enclosing_kernel,
    get_extent,
    get_loop_name,
    get_outer_loops,
    get_own_loops,
    get_root,
    get_sblock_name,
)
from .schedule import TransformError, inlines, transform
from .tir import constant, find_all, find_row_stride, get_axis, get_places, is_among
from .vectorize import find_float8_fault, vectorize_loop
from .vectors import find_longest_vector


@transform
def fetch_cooperatively(
    sch: Schedule,
    block: SBlockRV,
    *,
    threads: int | Sequence[int],
    vector: int = 1,
    tail: Tail = "refuse",
) -> None:
    """Let all threads of a GPU block fetch a tile together, each a share of it.

    `threads` are the extents that the compute loops bind, in the order (z, y, x): ``64`` for
    threadIdx.x alone, ``(8, 16)`` for threadIdx.y and threadIdx.x. With ``tail="guard"`` vectors
    may also lie where TVM loads their elements one by one, such as over the end of a run; of float8
    their loop stays serial, since CUDA does not compile such vectors. Vectors of 8 bits that may be
    zeros of a padding are of four elements then, which is as many as TVM writes as CUDA's.

    rewrite: ``for ax0, ax1: A_shared[...] = A[...]`` -> ``for f_0: for f_1 in threadIdx.y:
        for f_2 in threadIdx.x: for f_3 in T.vectorized(vector): A_shared[...] = A[...]``
    consumes: the block's own loops
    requires: a copy block that writes ``shared`` or ``shared.dyn`` memory, placed under a loop of
        its consumer; its own loops serial; thread axes and extents as the rest of the kernel has
        them; a tile that threads * vector divides, in runs of neighbouring elements that vector
        divides, or ``tail="guard"``; where threads share what one of them writes or reads at its
        own index, a barrier of TVM's between: it puts none there for a small tile alone
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
            f"threads={shape} is no shape of a GPU block",
            f"give one to three extents of at least 1, together at most {MAX_THREADS}",
        )
    if vector not in (1, 2, 4, 8, 16):
        raise TransformError(f"vector={vector} is no vector", "use 1, 2, 4, 8 or 16")
    own = get_own_loops(sch, block)
    if not own or not get_outer_loops(sch, own[0]):
        raise TransformError(
            f"block '{name}' does not stand under a loop of its consumer, with loops of its own",
            "place it with cache_read_at before fetching",
        )
    for loop in own:
        require_serial(sch, loop)
    _require_whole_shares(sch, block, own, math.prod(shape), vector, tail)
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
        _vectorize(sch, block, pieces[-1], tail)
    for letter, loop in zip("xyz"[: len(shape)][::-1], pieces[1:], strict=False):
        bind_loop(sch, loop, axis=f"threadIdx.{letter}")


def _vectorize(sch: Schedule, block: SBlockRV, loop: LoopRV, tail: Tail) -> None:
    """Vectorize a loop; of zeros for what is not there, say, a part of it that CUDA has."""
    extent = get_extent(sch, loop) or 1
    if tail == "guard":
        (place,) = (
            each
            for each in get_places(get_root(sch, block).body)
            if each.block.same_as(sch.get(block))
        )
        longest = find_longest_vector(place, sch.get(loop), extent)
        if longest == 1:
            return
        loop = loop if longest == extent else sch.split(loop, [None, longest])[1]
    vectorize_loop(sch, loop)


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

    It is `cache_read_at`, then `inline_producers` (a padding becomes part of the fetch) where
    the operand's producers can be inlined, then `fetch_cooperatively`.

    rewrite: ``for k_0: C += A[...]`` -> ``for k_0: (for f_1 in threadIdx.x: A_shared[...] =
        A[...]); C += A_shared[...]``
    consumes: the operand's producers, if they are inlined
    returns: the copy block
    requires: what `cache_read_at` and `fetch_cooperatively` require
    """
    copy = place_copy_at(sch, block, loop, operand=operand, scope=scope)
    if can_inline_producers(sch, copy):
        inline_producers(sch, copy)
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


def _require_whole_shares(
    sch: Schedule, block: SBlockRV, own: list[LoopRV], threads: int, vector: int, tail: str
) -> None:
    name = get_sblock_name(sch, block)
    if tail == "guard":
        return
    extents = [get_extent(sch, loop) for loop in own]
    elements = None if None in extents else math.prod(extent or 0 for extent in extents)
    if elements is None or elements % (threads * vector):
        raise TransformError(
            f"the tile of block '{name}' has {elements or 'a symbolic number of'} elements, which "
            f"threads * vector = {threads * vector} does not divide",
            'use fewer threads, a shorter vector or a larger tile, or pass tail="guard"',
        )
    # How many elements of a tile lie side by side: a row, or several if rows are whole.
    target = sch.get(block).writes[0].source
    run = 1
    for extent, whole in zip(extents[::-1], target.shape[::-1], strict=False):
        run *= extent or 1
        if extent != constant(whole) or find_row_stride(get_root(sch, block), target) is not None:
            break
    if run % vector:
        raise TransformError(
            f"the tile of block '{name}' lies in runs of {run} elements, which vector={vector} "
            "does not divide, so that TVM would load the elements one by one",
            'use a shorter vector or longer rows, or pass tail="guard"',
        )
