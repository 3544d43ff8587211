"""Alignment: rows laid out so that the vectors of a tensor stay whole in a buffer made of it."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import FloatImm, IndexMap, IntImm

from .errors import TransformError, composite
from .layout import require_copy, require_own_loops
from .lowering import set_pipeline
from .queries import constant, find_all, find_block_name, find_root
from .vectorize import LANES


@composite
def align_vectors(sch: Schedule, block: SBlockRV, *, vector: int, offset: int) -> None:
    """Lay the rows that a block writes out in vectors, the first element `offset` places into one.

    A rim of three elements around rows of a tensor shifts them against the tensor's vectors; with
    an offset of one they meet again, and a vector is loaded as one or is zero as one. Places
    without an element hold zeros. The pipeline "tirstep" drops the question for these
    (`set_pipeline`), which would keep the vectors apart.

    rewrite: ``for x in 10: P[x] = if_then_else(3 <= x < 7, A[x - 3], 0)`` ->
        ``for v in 3: for l in 4: P[v, l] = if_then_else(3 <= 4 * v + l - 1 < 7,
        A[4 * v + l - 4], 0)``, and zeros where x = 4 * v + l - 1 is not in 10
    consumes: the block's loops
    requires: an untouched block, one serial loop of its own for each iterator, that writes its
        iterators' elements of one intermediate buffer of constant row length; a vector of 2, 4, 8
        or 16 elements, and an offset from 0 to less than a vector
    """
    who = "align_vectors"
    if vector not in LANES or offset not in range(vector):
        raise TransformError(
            who,
            f"vector={vector} and offset={offset} are no vectors",
            f"give a vector of {', '.join(map(str, LANES))} elements and an offset within it",
        )
    buffer = _require_whole(sch, who, block)
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


def _require_whole(sch: Schedule, who: str, block: SBlockRV) -> Any:
    """The buffer that a block writes; refuse one that is not written as its iterators run."""
    name, region = find_block_name(sch, block), require_copy(sch, who, block)
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
            who,
            f"block '{name}' does not write '{region.source.name}' element by element in "
            f"{len(iterators)} loops, one for each dimension",
            advice,
        )
    require_own_loops(sch, who, block, advice)
    buffer = region.source
    nodes = find_all(find_root(sch, block), SBlock)
    if not any(buffer.same_as(own) for node in nodes for own in node.alloc_buffers):
        raise TransformError(
            who,
            f"block '{name}' writes '{buffer.name}', a tensor of the kernel's",
            "align an intermediate buffer, or a copy made by cache_read_at",
        )
    if constant(buffer.shape[-1]) is None:
        raise TransformError(
            who,
            f"the rows of '{buffer.name}' have the symbolic length {buffer.shape[-1]}",
            "give the kernel its sizes",
        )
    return buffer
