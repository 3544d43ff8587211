"""Vectors: several elements with one load or store."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import FloatImm, For, IndexMap, IntImm

from .layout import require_copy, require_own_loops
from .loops import require_constant, require_serial
from .pass_options import set_pipeline
from .queries import get_loop_name, get_own_loops, get_root, get_sblock_name, get_sblocks_under
from .schedule import Int64, TransformError, transform
from .tir import (
    constant,
    find_all,
    find_row_stride,
    get_places,
    get_regions,
    is_among,
    list_allocated,
)
from .vectors import find_longest_vector, find_taken_apart

LANES = (2, 4, 8, 16)
MAX_VECTOR_BYTES = 16
WIDEST = 8
"""Elements of a vector that recipes ask for, at most: 16 bytes of half precision."""


@transform
def vectorize_loop(
    sch: Schedule, loop: LoopRV, *, max_vector_bytes: Int64 = MAX_VECTOR_BYTES
) -> None:
    """Vectorize a loop.

    rewrite: ``for v in range(4)`` -> ``for v in T.vectorized(4)``
    consumes: nothing
    requires: a serial innermost loop around one block (with a second one computed inside, TVM
        compiles wrong code); 2, 4, 8 or 16 iterations; vectors of at most `max_vector_bytes`
        bytes; padded rows that keep the vectors aligned; float8 elements
        that are neighbours, or one repeated (CUDA's vectors of them cannot be taken apart)
    guarded: vectors of a width and type that CUDA has
    """
    require_serial(sch, loop)
    lanes = require_constant(sch, loop)
    name = get_loop_name(sch, loop)
    if lanes not in LANES:
        raise TransformError(
            f"loop '{name}' runs {lanes} times, and there are vectors of "
            f"{', '.join(map(str, LANES))} elements only",
            "split the loop by one of these first",
        )
    blocks = get_sblocks_under(sch, loop)
    if len(blocks) != 1 or find_all(sch.get(loop).body, For):
        names = ", ".join(f"'{block.name_hint}'" for block in blocks)
        raise TransformError(
            f"loop '{name}' is not the innermost loop of one block (inside: {names})",
            "vectorize the innermost loop of each block by itself",
        )
    for block in blocks:
        for region in get_regions(block):
            size = lanes * region.source.dtype.itemsize
            if size > max_vector_bytes:
                raise TransformError(
                    f"loop '{get_loop_name(sch, loop)}' makes vectors of {lanes} elements of "
                    f"'{region.source.name}' ({region.source.dtype}), {size} bytes, more than "
                    f"max_vector_bytes={max_vector_bytes}",
                    "split the loop by a smaller size first",
                )
    for region in (region for block in blocks for region in get_regions(block)):
        stride = find_row_stride(get_root(sch, loop), region.source)
        if stride is not None and stride % lanes:
            raise TransformError(
                f"the rows of '{region.source.name}' are padded to {stride} elements, so that "
                f"vectors of {lanes} would be misaligned",
                f"pad to a multiple of {lanes}, or use shorter vectors",
            )
    if fault := find_float8_fault(sch, loop):
        raise TransformError(
            f"loop '{name}' makes vectors of {lanes} elements that {fault}, and CUDA does not "
            "compile them",
            "leave the loop as it is, or keep the layout",
        )
    sch.vectorize(loop)


def find_float8_fault(sch: Schedule, loop: LoopRV) -> str:
    """How vectors of float8 that a loop would make lie, where CUDA does not compile them, or "".

    TVM takes apart what does not lie as a vector does: it reads elements by their names, which
    CUDA's vectors of float8 do not have.
    """
    (block,) = get_sblocks_under(sch, loop)
    if not any(_is_float8(region.source) for region in get_regions(block)):
        return ""
    trial = sch.copy()
    trial.vectorize(loop)
    apart = find_taken_apart(trial, trial.get_sblock(block.name_hint))
    faults = (f"{how} in '{item.name}' ({item.dtype})" for how, item in apart if _is_float8(item))
    return next(faults, "")


def _is_float8(buffer: Any) -> bool:
    return str(buffer.dtype).startswith("float8")


@transform
def vectorize_copy(sch: Schedule, block: SBlockRV, *, vector: int = 4) -> int:
    """Vectorize the innermost own loop of a block by the widest vector up to `vector` that fits.

    A vector fits if it divides the loop and has at most 16 bytes of each buffer; in a kernel, if
    TVM writes it as CUDA's (of constants of 8 bits it has four).

    rewrite: ``for i in range(8): A_local[i] = A_shared[i]`` ->
        ``for i_0 in range(2): for i_1 in T.vectorized(4): A_local[...] = A_shared[...]``
    consumes: the block's innermost loop, where it is split
    returns: the elements of a vector; 1 where the block is left as it is
    requires: a block with a serial loop of its own, of constant extent; `vector` at least 1; what
        `vectorize_loop` requires
    guarded: vectors of a width and type that CUDA has
    """
    if vector < 1:
        raise TransformError(f"vector={vector} must be >= 1", "use an integer >= 1")
    own = get_own_loops(sch, block)
    if not own:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has no loop of its own",
            "vectorize the loop that it shares with vectorize_loop",
        )
    require_serial(sch, own[-1])
    extent = require_constant(sch, own[-1])
    size = max(region.source.dtype.itemsize for region in get_regions(sch.get(block)))
    widest = min(vector, MAX_VECTOR_BYTES // size)
    (place,) = (
        each for each in get_places(get_root(sch, block).body) if each.block.same_as(sch.get(block))
    )
    if place.kernel is not None:
        widest = min(widest, find_longest_vector(place, sch.get(own[-1]), widest))
    fitting = [lanes for lanes in LANES if lanes <= widest and extent % lanes == 0]
    if not fitting:
        return 1
    inner = own[-1] if extent == fitting[-1] else sch.split(own[-1], [None, fitting[-1]])[1]
    vectorize_loop(sch, inner)
    return fitting[-1]


@transform
def align_vectors(sch: Schedule, block: SBlockRV, *, vector: int, offset: int) -> None:
    """Lay the rows that a block writes out in vectors, the first element `offset` places into one.

    A rim of three elements around rows of a tensor shifts them against the tensor's vectors; with
    an offset of one they meet again, and a vector is loaded as one or is zero as one. Places
    without an element hold zeros. The pipeline "tirstep" removes the condition for these
    (`set_pipeline`), which would keep the vectors apart.

    rewrite: ``for x in 10: P[x] = if_then_else(3 <= x < 7, A[x - 3], 0)`` ->
        ``for v in 3: for l in 4: P[v, l] = if_then_else(3 <= 4 * v + l - 1 < 7,
        A[4 * v + l - 4], 0)``, and zeros where x = 4 * v + l - 1 is not in 10
    consumes: the block's loops
    requires: an untouched block, one serial loop of its own for each iterator, that alone writes
        its iterators' elements of one intermediate buffer of constant row length; a vector of 2,
        4, 8 or 16 elements, and an offset from 0 to less than a vector
    """
    if vector not in LANES or offset not in range(vector):
        raise TransformError(
            f"vector={vector} and offset={offset} are no vectors",
            f"give a vector of {', '.join(map(str, LANES))} elements and an offset within it",
        )
    name, region = get_sblock_name(sch, block), require_copy(sch, block)
    advice = (
        "align a block before its loops are split or fused and before it is moved, or other blocks "
        "to it"
    )
    iterators = sch.get(block).iter_vars
    written = [each.min for each in region.region]
    simple = len(written) == len(iterators) and all(
        at.same_as(iterator.var) for at, iterator in zip(written, iterators, strict=True)
    )
    if not simple or not iterators:
        raise TransformError(
            f"block '{name}' does not write '{region.source.name}' element by element in "
            f"{len(iterators)} loops, one for each dimension",
            advice,
        )
    require_own_loops(sch, block, advice)
    buffer = region.source
    nodes = find_all(get_root(sch, block), SBlock)
    if not is_among(buffer, list_allocated(get_root(sch, block))):
        raise TransformError(
            f"block '{name}' writes '{buffer.name}', a tensor of the kernel's",
            "align an intermediate buffer, or a copy made by cache_read_at",
        )
    # TVM would give the loops of all its writers the same variables, and then mix them up.
    writers = [node for node in nodes if any(w.source.same_as(buffer) for w in node.writes)]
    if len(writers) > 1:
        names = " and ".join(f"'{node.name_hint}'" for node in writers)
        raise TransformError(
            f"'{buffer.name}' is written by the blocks {names}",
            "align a buffer that one block writes: a reduction before decompose_reduction_at",
        )
    if constant(buffer.shape[-1]) is None:
        raise TransformError(
            f"the rows of '{buffer.name}' have the symbolic length {buffer.shape[-1]}",
            "give the kernel its sizes",
        )
    rank, row = len(buffer.shape), constant(buffer.shape[-1]) or 0

    def place(*at: Any) -> tuple[Any, ...]:
        last = at[-1] + offset if offset else at[-1]
        return (*at[:-1], last // vector, last % vector)

    if offset or row % vector:
        # TVM makes a number of Python's a float32 where the buffer has a type of eight bits.
        is_float = "float" in str(buffer.dtype)
        zero = FloatImm(buffer.dtype, 0.0) if is_float else IntImm(buffer.dtype, 0)
        sch.transform_layout(block, ("write", 0), place, pad_value=lambda *_: zero)
        set_pipeline(sch)
    else:
        sch.transform_layout(block, ("write", 0), place)
        index = str(sch.get(block).iter_vars[-1].var.ty)
        index_map = IndexMap.from_func(place, ndim=rank, index_dtype=index)
        sch.transform_block_layout(block, index_map)
