"""Layout: how a block's data lies in memory; padding of rows and of whole problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import For, ForKind, Var

from .errors import TransformError, composite
from .queries import (
    constant,
    find_all,
    find_block_name,
    find_realize,
    find_regions,
    find_root,
    find_row_length,
    find_row_stride,
)


class Padding(NamedTuple):
    """The blocks that `pad_block` adds: one for each padded operand, and the one that crops."""

    operands: tuple[SBlockRV, ...]
    crop: SBlockRV | None


@composite
def pad_shared_rows(sch: Schedule, block: SBlockRV, *, elements: int) -> None:
    """Lengthen the rows of a tile in shared memory, so that a column lies in different banks.

    rewrite: rows of n elements -> rows that begin n + elements apart
    consumes: nothing
    requires: a copy block into ``shared`` or ``shared.dyn`` memory, of two dimensions or more,
        with one loop of its own along the rows (call this between `cache_read_at` and
        `fetch_cooperatively`); at least 1 element and fewer than a row has; no vectors in the
        tile that the padding would misalign. TVM's storage_align pads to something else unless
        it is given the row's exact length, which is read off the loops here, and less than that.
    """
    who, name = "pad_shared_rows", find_block_name(sch, block)
    target = require_copy(sch, who, block)
    if target.source.scope() not in ("shared", "shared.dyn"):
        raise TransformError(
            who,
            f"block '{name}' writes '{target.source.name}' in scope '{target.source.scope()}'",
            "pad the rows of a shared buffer",
        )
    if elements < 1:
        raise TransformError(who, f"elements={elements} is no padding", "use at least 1")
    if len(target.region) < 2:
        raise TransformError(
            who,
            f"block '{name}' writes '{target.source.name}' of one dimension, which has no rows",
            "pad a tile of at least two dimensions",
        )
    row = find_row_length(sch, block)
    if row is None:
        raise TransformError(
            who,
            f"block '{name}' has no loop of its own along the rows of '{target.source.name}', so "
            "that their length is not known",
            "call this between cache_read_at and fetch_cooperatively",
        )
    if elements >= row:
        raise TransformError(
            who,
            f"elements={elements} is not less than the {row} elements of a row of "
            f"'{target.source.name}', and TVM would pad by {elements % row}",
            f"use 1 to {row - 1}" if row > 1 else "rows of one element need no padding",
        )
    _require_no_vectors(sch, block, target.source, row + elements)
    sch.storage_align(block, 0, axis=-2, factor=row, offset=elements)


def pad_longer_rows(sch: Schedule, block: SBlockRV, *, elements: int) -> None:
    """`pad_shared_rows` where there is a padding, and the rows are longer than it."""
    if 0 < elements < (find_row_length(sch, block) or 0):
        pad_shared_rows(sch, block, elements=elements)


@composite
def transpose_tile(sch: Schedule, block: SBlockRV) -> None:
    """Keep a tile in shared memory with its last two dimensions swapped.

    A thread that reads a column of the tile then reads neighbours, with one vector.

    rewrite: ``A_shared[i, k] = A[i, k]`` -> ``A_shared[k, i] = A[i, k]``, and so its readers
    consumes: nothing
    requires: a copy block into ``shared`` or ``shared.dyn`` memory of two dimensions or more,
        whose rows are not padded yet
    """
    who, name = "transpose_tile", find_block_name(sch, block)
    buffer = require_copy(sch, who, block).source
    if buffer.scope() not in ("shared", "shared.dyn") or len(buffer.shape) < 2:
        raise TransformError(
            who,
            f"block '{name}' writes '{buffer.name}' in scope '{buffer.scope()}' with "
            f"{len(buffer.shape)} dimensions",
            "transpose a shared tile of two dimensions or more",
        )
    if find_row_stride(find_root(sch, block), buffer) is not None:
        raise TransformError(
            who, f"the rows of '{buffer.name}' are padded already", "transpose before padding"
        )
    sch.transform_layout(block, ("write", 0), lambda *at: (*at[:-2], at[-1], at[-2]))


@composite
def fold_tile(sch: Schedule, block: SBlockRV, *, row: int, padding: int = 0) -> None:
    """Fold the last dimension of a tile in shared memory into rows, and pad these.

    For threads that own `row` neighbours each: with rows of 8 elements padded by 4, say, the
    vectors of 4 that eight of them read lie in different banks.

    rewrite: ``A_shared[x] = A[x]`` -> ``A_shared[x // row, x % row] = A[x]``, and so its readers;
        dimensions in front of the last one stay
    consumes: nothing
    requires: a block that writes ``shared`` or ``shared.dyn`` memory, whose rows are not padded; a
        row of at least 1 element, and a padding shorter than a row
    """
    who, name = "fold_tile", find_block_name(sch, block)
    buffer = require_copy(sch, who, block).source
    if buffer.scope() not in ("shared", "shared.dyn"):
        raise TransformError(
            who,
            f"block '{name}' writes '{buffer.name}' in scope '{buffer.scope()}'",
            "fold a tile in shared memory",
        )
    if padding not in range(row):
        raise TransformError(
            who,
            f"row={row} and padding={padding} are no rows",
            "give a row of at least 1 element, and a padding from 0 to less than a row",
        )
    if find_row_stride(find_root(sch, block), buffer) is not None:
        raise TransformError(
            who, f"the rows of '{buffer.name}' are padded already", "fold a tile before padding"
        )

    def place(*at: Any) -> tuple[Any, ...]:
        return (*at[:-1], at[-1] // row, at[-1] % row)

    # Different elements have different places; the last row may have some without an element.
    sch.transform_layout(block, ("write", 0), place, assume_injective_transform=True)
    if padding:
        sch.storage_align(block, 0, axis=-2, factor=row, offset=padding)


def require_copy(sch: Schedule, who: str, block: SBlockRV) -> Any:
    """The region that a copy block writes; refuse a block that does not write exactly one."""
    writes = sch.get(block).writes
    if len(writes) != 1:
        raise TransformError(
            who,
            f"block '{find_block_name(sch, block)}' writes {len(writes)} buffers",
            "pass the copy block that cache_read_at returned",
        )
    return writes[0]


def _require_no_vectors(sch: Schedule, block: SBlockRV, buffer: Any, stride: int) -> None:
    for loop in find_all(find_root(sch, block), For):
        if loop.kind != ForKind.VECTORIZED or stride % (constant(loop.extent) or 1) == 0:
            continue
        for user in find_all(loop, SBlock):
            if any(region.source.same_as(buffer) for region in find_regions(user)):
                raise TransformError(
                    "pad_shared_rows",
                    f"block '{user.name_hint}' uses '{buffer.name}' in vectors of {loop.extent}, "
                    f"and rows of {stride} elements would misalign them",
                    f"pad so that a row becomes a multiple of {loop.extent}, or do not vectorize",
                )


@composite
def pad_block(sch: Schedule, block: SBlockRV, *, multiples: Sequence[int]) -> Padding:
    """Pad a block's iteration space with zeros to multiples of a tile, and crop the result.

    Where the result has one more consumer (an epilogue), the cropping is inlined into it.

    rewrite: ``C[i, j] += A[i, k] * B[k, j]`` -> ``A_pad = pad(A); B_pad = pad(B);
        C_pad[i, j] += A_pad[i, k] * B_pad[k, j]; C = crop(C_pad)``
    consumes: nothing
    returns: the new blocks; where nothing needs padding there are none
    requires: an untouched block, one loop for each iterator; one multiple of at least 1 for each
        iterator
    """
    who, name = "pad_block", find_block_name(sch, block)
    iterators = sch.get(block).iter_vars
    if len(multiples) != len(iterators) or min(multiples) < 1:
        raise TransformError(
            who,
            f"multiples={tuple(multiples)} does not fit block '{name}' with its "
            f"{len(iterators)} iterators",
            "give one multiple of at least 1 for each iterator",
        )
    if not all(isinstance(value, Var) for value in find_realize(sch, block).iter_values):
        raise TransformError(
            who,
            f"block '{name}' does not have one loop for each of its {len(iterators)} iterators",
            "pad a block before its loops are split or fused",
        )
    old = find_all(find_root(sch, block), SBlock)
    sch.pad_einsum(block, list(multiples))
    operands = _find_new(sch, sch.get_producers(block), old)
    crop = next(iter(_find_new(sch, sch.get_consumers(block), old)), None)
    if crop is not None and sch.get_consumers(crop):
        sch.compute_inline(crop)
        crop = None
    return Padding(operands, crop)


def _find_new(sch: Schedule, blocks: Sequence[SBlockRV], old: list[SBlock]) -> tuple[SBlockRV, ...]:
    return tuple(block for block in blocks if not any(sch.get(block).same_as(node) for node in old))
