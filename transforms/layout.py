"""Layout: how a block's data lies in memory; padding of rows and of whole problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV

from .errors import TransformError, composite, transform
from .queries import (
    find_all,
    find_block_name,
    find_row_length,
)


class Padding(NamedTuple):
    """The blocks that `pad_block` adds: one for each padded operand, and the one that crops."""

    operands: tuple[SBlockRV, ...]
    crop: SBlockRV | None


@transform
def pad_shared_rows(sch: Schedule, block: SBlockRV, *, elements: int) -> None:
    """Lengthen the rows of a tile in shared memory, so that a column lies in different banks.

    rewrite: rows of n elements -> rows that begin n + elements apart
    consumes: nothing
    requires: a copy block into ``shared`` or ``shared.dyn`` memory whose own loops are still one
        for each dimension (call it between `cache_read_at` and `fetch_cooperatively`); at least
        1 element. TVM's storage_align pads to something else unless it is given the row's exact
        length, which is read off the loops here.
    """
    who, name = "pad_shared_rows", find_block_name(sch, block)
    target = sch.get(block).writes[0]
    if target.source.scope() not in ("shared", "shared.dyn"):
        raise TransformError(
            who,
            f"block '{name}' writes '{target.source.name}' in scope '{target.source.scope()}'",
            "pad the rows of a shared buffer",
        )
    if isinstance(elements, bool) or not isinstance(elements, int) or elements < 1:
        raise TransformError(who, f"elements={elements!r} is no padding", "use at least 1")
    row = find_row_length(sch, block)
    if row is None or len(target.region) < 2:
        raise TransformError(
            who,
            f"block '{name}' has no loop of its own for each of the {len(target.region)} "
            "dimensions of its tile, so that the length of a row is not known",
            "call this on a tile of at least two dimensions, before fetch_cooperatively",
        )
    sch.storage_align(block, 0, axis=-2, factor=row, offset=elements)


@composite
def pad_block(sch: Schedule, block: SBlockRV, *, multiples: Sequence[int]) -> Padding:
    """Pad a block's iteration space with zeros to multiples of a tile, and crop the result.

    Where the result has one more consumer (an epilogue), the cropping is inlined into it.

    rewrite: ``C[i, j] += A[i, k] * B[k, j]`` -> ``A_pad = pad(A); B_pad = pad(B);
        C_pad[i, j] += A_pad[i, k] * B_pad[k, j]; C = crop(C_pad)``
    consumes: the block's loops
    requires: an untouched block, one loop for each iterator; one multiple of at least 1 for each
        iterator
    """
    who, name = "pad_block", find_block_name(sch, block)
    iterators = sch.get(block).iter_vars
    if len(multiples) != len(iterators) or min(multiples, default=0) < 1:
        raise TransformError(
            who,
            f"multiples={tuple(multiples)} does not fit block '{name}' with its "
            f"{len(iterators)} iterators",
            "give one multiple of at least 1 for each iterator",
        )
    if len(sch.get_loops(block)) != len(iterators):
        raise TransformError(
            who,
            f"block '{name}' has {len(sch.get_loops(block))} loops for {len(iterators)} iterators",
            "pad a block before its loops are split or fused",
        )
    old = [str(node.name_hint) for node in find_all(sch.mod[sch.func_working_on].body, SBlock)]
    sch.pad_einsum(block, list(multiples))
    operands = tuple(
        producer
        for producer in sch.get_producers(block)
        if find_block_name(sch, producer) not in old
    )
    crop = next(iter(sch.get_consumers(block)), None)
    if crop is not None and sch.get_consumers(crop):
        sch.compute_inline(crop)
        crop = None
    return Padding(operands, crop)
