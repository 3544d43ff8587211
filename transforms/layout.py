"""Layout: how a block's data lies in memory; padding of rows and of whole problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import (
    Add,
    BufferStore,
    Cast,
    FloatImm,
    For,
    ForKind,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    Sub,
)
from tvm_ffi import structural_equal

from .inlining import try_inlining
from .queries import (
    find_row_length,
    get_own_loops,
    get_realize,
    get_root,
    get_sblock_name,
    get_sblocks_under,
)
from .schedule import TransformError, transform
from .tir import (
    constant,
    find_all,
    find_largest_index,
    find_row_stride,
    get_kind,
    get_regions,
    is_among,
    is_choice,
    is_used,
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
    requires: a copy block into ``shared`` or ``shared.dyn`` memory, of two dimensions or more, with
        one loop of its own along the rows (call this between `cache_read_at` and
        `fetch_cooperatively`); at least 1 element and fewer than a row has; no vectors in the tile
        that the padding would misalign. (TVM's storage_align pads correctly only if it is given the
        row's exact length, which is taken from the loops here, and a smaller padding.)
    guarded: rows aligned as ldmatrix and vectors need them, and indices that TVM lowers as they
        stand
    """
    name = get_sblock_name(sch, block)
    target = require_copy(sch, block)
    if target.source.scope() not in ("shared", "shared.dyn"):
        raise TransformError(
            f"block '{name}' writes '{target.source.name}' in scope '{target.source.scope()}'",
            "pad the rows of a shared buffer",
        )
    if elements < 1:
        raise TransformError(f"elements={elements} is not a padding", "use at least 1")
    if len(target.region) < 2:
        raise TransformError(
            f"block '{name}' writes '{target.source.name}' of one dimension, which has no rows",
            "pad a tile of at least two dimensions",
        )
    row = find_row_length(sch, block)
    if row is None:
        raise TransformError(
            f"block '{name}' has no loop of its own along the rows of '{target.source.name}', so "
            "that their length is not known",
            "call this between cache_read_at and fetch_cooperatively",
        )
    if elements >= row:
        raise TransformError(
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


@transform
def transpose_tile(sch: Schedule, block: SBlockRV) -> None:
    """Keep a tile in shared memory with its last two dimensions swapped.

    A thread that reads a column of the tile then reads adjacent elements, with one vector.

    rewrite: ``A_shared[i, k] = A[i, k]`` -> ``A_shared[k, i] = A[i, k]``, and so its readers
    consumes: nothing
    requires: a copy block into ``shared`` or ``shared.dyn`` memory of two dimensions or more,
        whose rows are not padded yet
    guarded: indices that TVM lowers as they stand
    """
    buffer = require_copy(sch, block).source
    if buffer.scope() not in ("shared", "shared.dyn") or len(buffer.shape) < 2:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' writes '{buffer.name}' in scope "
            f"'{buffer.scope()}' with {len(buffer.shape)} dimensions",
            "transpose a shared tile of two dimensions or more",
        )
    if find_row_stride(get_root(sch, block), buffer) is not None:
        raise TransformError(
            f"the rows of '{buffer.name}' are padded already", "transpose before padding"
        )
    sch.transform_layout(block, ("write", 0), lambda *at: (*at[:-2], at[-1], at[-2]))


@transform
def fold_tile(sch: Schedule, block: SBlockRV, *, row: int, padding: int = 0) -> None:
    """Fold the last dimension of a tile in shared memory into rows, and pad these.

    For threads that each own `row` adjacent elements: if rows of 8 are padded by 4, for example,
    the vectors of 4 that eight threads read are in different banks.

    rewrite: ``A_shared[x] = A[x]`` -> ``A_shared[x // row, x % row] = A[x]``, and so its readers;
        dimensions in front of the last one stay
    consumes: nothing
    requires: a block that writes ``shared`` or ``shared.dyn`` memory, whose rows are not padded; a
        row of at least 1 element, and a padding shorter than a row; no vectors in the tile that the
        padding would misalign; no tile of which each thread fills and reads only its own x % length
        % row, which TVM would mistake for the whole tile; no tile that begins at an arbitrary
        element of a row, where TVM would take i % row and (i + 1) % row to be equal
    guarded: indices that TVM lowers as they stand
    """
    name = get_sblock_name(sch, block)
    buffer = require_copy(sch, block).source
    if buffer.scope() not in ("shared", "shared.dyn") or not buffer.shape:
        raise TransformError(
            f"block '{name}' writes '{buffer.name}' in scope '{buffer.scope()}'"
            + ("" if buffer.shape else " without a dimension"),
            "fold a tile in shared memory",
        )
    if padding not in range(row):
        raise TransformError(
            f"row={row} and padding={padding} are not rows",
            "give a row of at least 1 element, and a padding from 0 to less than a row",
        )
    if find_row_stride(get_root(sch, block), buffer) is not None:
        raise TransformError(
            f"the rows of '{buffer.name}' are padded already", "fold a tile before padding"
        )

    def place(*at: Any) -> tuple[Any, ...]:
        return (*at[:-1], at[-1] // row, at[-1] % row)

    if padding:
        _require_no_vectors(sch, block, buffer, row + padding)
    # Different elements have different places; the last row may have some without an element.
    sch.transform_layout(block, ("write", 0), place, assume_injective_transform=True)
    if padding:
        sch.storage_align(block, 0, axis=-2, factor=row, offset=padding)


def require_copy(sch: Schedule, block: SBlockRV) -> Any:
    """The region that a copy block writes; refuse a block that does not write exactly one."""
    writes = sch.get(block).writes
    if len(writes) != 1:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' writes {len(writes)} buffers",
            "pass the copy block that cache_read_at returned",
        )
    return writes[0]


def _require_no_vectors(sch: Schedule, block: SBlockRV, buffer: Any, stride: int) -> None:
    for loop in find_all(get_root(sch, block), For):
        if loop.kind != ForKind.VECTORIZED or stride % (constant(loop.extent) or 1) == 0:
            continue
        for user in find_all(loop, SBlock):
            if any(region.source.same_as(buffer) for region in get_regions(user)):
                raise TransformError(
                    f"block '{user.name_hint}' uses '{buffer.name}' in vectors of {loop.extent}, "
                    f"and rows of {stride} elements would misalign them",
                    f"pad so that a row becomes a multiple of {loop.extent}, or do not vectorize",
                )


@transform
def pad_block(sch: Schedule, block: SBlockRV, *, multiples: Sequence[int]) -> Padding:
    """Pad a block's iteration space with zeros to multiples of a tile, and crop the result.

    If the result has one consumer (an epilogue), the cropping is inlined into it, unless the result
    is one of the function's tensors.

    rewrite: ``C[i, j] += A[i, k] * B[k, j]`` -> ``A_pad = pad(A); B_pad = pad(B);
        C_pad[i, j] += A_pad[i, k] * B_pad[k, j]; C = crop(C_pad)``
    consumes: nothing
    returns: the new blocks, none if nothing needs padding
    requires: an untouched block, one serial loop of its own for each iterator and no other block in
        a loop around it, on tensors in global memory; one multiple of at least 1 for each iterator;
        for a padded reduction, a sum whose terms are zero where the padded operands are, such as
        products; each padded iterator occurs in the indices that are padded (TVM may replace the
        index of a single element, and all iterations would use that one), and covers its whole
        dimension where it reduces or writes
    """
    name = get_sblock_name(sch, block)
    iterators = sch.get(block).iter_vars
    if len(multiples) != len(iterators) or min(multiples, default=0) < 1:
        raise TransformError(
            f"multiples={tuple(multiples)} does not fit block '{name}' with its "
            f"{len(iterators)} iterators",
            "give one multiple of at least 1 for each iterator",
        )
    advice = "pad a block before its loops are split or fused or shared with other blocks"
    require_own_loops(sch, block, advice)
    # TVM would have other blocks in a loop around use the padded tensors, too.
    for loop in sch.get_loops(block):
        others = [str(node.name_hint) for node in get_sblocks_under(sch, loop)]
        others.remove(name)
        if others:
            raise TransformError(
                f"block '{name}' shares loop '{sch.get(loop).loop_var.name}' with block "
                f"'{others[0]}', which would use the padded tensors, too",
                advice,
            )
    for region in get_regions(sch.get(block)):
        if region.source.scope() != "global":
            raise TransformError(
                f"block '{name}' uses '{region.source.name}' in scope '{region.source.scope()}', "
                "and TVM pads the whole tensor in a kernel of its own",
                "pad a block before its operands are cached",
            )
    for iterator, multiple in zip(sch.get(block).iter_vars, multiples, strict=True):
        extent = constant(iterator.dom.extent) or 1
        limit = find_largest_index(iterator.var)
        if extent + multiple - 1 > limit:
            raise TransformError(
                f"iterator '{iterator.var.name}' has the extent {extent}, and rounded up to a "
                f"multiple of {multiple} that is beyond {iterator.var.ty}, which ends at {limit}",
                "choose a smaller multiple, or give the kernel int64 loops",
            )
    padded = [
        (iterator, multiple)
        for iterator, multiple in zip(iterators, multiples, strict=True)
        if (constant(iterator.dom.extent) or 1) % multiple
    ]
    # Zeros count in (A - mean) ** 2, say, or a maximum.
    node = sch.get(block)
    body, value = node.body, getattr(node.body, "value", None)
    terms = [(value.a, value.b), (value.b, value.a)] if isinstance(value, Add) else []
    added = [  # a store adds to its own element
        term
        for before, term in terms
        if isinstance(body, BufferStore) and isinstance(before, TensorLoad)
        if before.source.same_as(body.buffer) and structural_equal(before.indices, body.indices)
    ]
    reduced = [it.var for it, _ in padded if it.iter_type == IterVar.CommReduce]
    if not all(added and is_zero(added[0], [item]) for item in reduced):
        names = ", ".join(f"'{var.name}'" for var in reduced)
        raise TransformError(
            f"block '{name}' reduces over {names}, and padded zeros would change the result: "
            "it is not a sum of products of the padded operands",
            'pad its other iterators only (a multiple of 1), and split the rest with tail="guard"',
        )
    # An output would be the same along an iterator that goes over none of its dimensions.
    indices = [part.min for region in node.writes for part in region.region]
    for iterator, multiple in padded:
        is_spatial = iterator.iter_type != IterVar.CommReduce
        if is_spatial and not is_among(iterator.var, indices):
            more = -(constant(iterator.dom.extent) or 1) % multiple
            raise TransformError(
                f"iterator '{iterator.var.name}' is not an index of what block "
                f"'{name}' writes, and its {more} new iterations would overwrite the old ones",
                "pad its other iterators only (a multiple of 1)",
            )
    # What lies behind a part of a tensor is there already, and no zero: TVM pads up to the tensor's
    # length, and takes what is longer as it is.
    analyzer = Analyzer()
    for iterator, _ in padded:
        extent, reduces = iterator.dom.extent, iterator.iter_type == IterVar.CommReduce
        for region in node.reads if reduces else node.writes:
            for part, length in zip(region.region, region.source.shape, strict=True):
                if not part.min.same_as(iterator.var) or analyzer.can_prove_equal(length, extent):
                    continue
                does = "read and summed" if reduces else "overwritten"
                raise TransformError(
                    f"iterator '{iterator.var.name}' of block '{name}' goes over {extent} of "
                    f"the {length} elements of '{region.source.name}', and those after them "
                    f"would be {does} instead of padding",
                    "pad its other iterators only (a multiple of 1), and split the rest with "
                    'tail="guard"',
                )
    old = find_all(get_root(sch, block), SBlock)
    sch.pad_einsum(block, list(multiples))
    operands, crops = (
        [it for it in blocks if not is_among(sch.get(it), old)]
        for blocks in (sch.get_producers(block), sch.get_consumers(block))
    )
    crop = crops[0] if crops else None
    if crop is not None and sch.get_consumers(crop) and try_inlining(sch, crop):
        crop = None
    return Padding(tuple(operands), crop)


def require_own_loops(sch: Schedule, block: SBlockRV, advice: str) -> None:
    """Refuse a block whose loops TVM would replace, and which are more than its plain iteration.

    TVM recreates these loops: other blocks in them would be gone, and kinds and predicates, too.
    """
    realize, own = get_realize(sch, block), get_own_loops(sch, block)
    loops = sch.get_loops(block)
    strange = next((loop for loop in loops if len(get_sblocks_under(sch, loop)) > 1), None)
    fault = ""
    if len(own) < len(realize.iter_values) and strange is not None:
        others = [str(node.name_hint) for node in get_sblocks_under(sch, strange)]
        others.remove(get_sblock_name(sch, block))
        fault = f"shares loop '{sch.get(strange).loop_var.name}' with block '{others[0]}'"
    else:
        # Each loop goes over one iterator, and over its whole domain.
        left, count = [sch.get(loop) for loop in own], len(realize.iter_values)
        is_plain = len(own) == count and constant(realize.predicate) == 1
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            fed = [it for it in left if it.loop_var.same_as(value)]
            is_plain &= bool(fed) and structural_equal(fed[0].extent, iterator.dom.extent)
            left = [it for it in left if not is_among(it, fed)]
        if not is_plain:
            fault = f"does not have one loop for each of its {count} iterators"
    for node in map(sch.get, own):
        if not fault and (node.kind != ForKind.SERIAL or len(node.annotations)):
            state = get_kind(node) if node.kind != ForKind.SERIAL else "annotated"
            fault = f"has the {state} loop '{node.loop_var.name}'"
    if fault:
        raise TransformError(f"block '{get_sblock_name(sch, block)}' {fault}", advice)


def is_zero(term: Any, padded: list[Any], zeros: list[Any] | None = None) -> bool:
    """Whether an expression is zero where all that is loaded along padded iterators is zero, or all
    of the buffers `zeros`.
    """
    if isinstance(term, TensorLoad):
        is_ours = zeros is None or is_among(term.source, zeros)
        return is_ours and any(is_used(var, index) for index in term.indices for var in padded)
    if isinstance(term, Mul):
        # Zero times infinity is none: the other factor is zero as well, or cannot be infinite.
        others = [it for it in (term.a, term.b) if not is_zero(it, padded, zeros)]
        return len(others) < 2 and not any(find_all(factor, TensorLoad) for factor in others)
    if isinstance(term, (Add, Sub, Max, Min)):
        return all(is_zero(part, padded, zeros) for part in (term.a, term.b))
    if isinstance(term, Cast):
        return is_zero(term.value, padded, zeros)
    if is_choice(term):
        return all(is_zero(argument, padded, zeros) for argument in list(term.args)[1:])
    return isinstance(term, (FloatImm, IntImm)) and term.value == 0
