"""Windows of a convolution as the rows of a matrix, whose tiles are rectangles of pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import (
    GE,
    LT,
    And,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Cast,
    For,
    IfThenElse,
    IterVar,
    Mul,
    SeqStmt,
    Var,
    const,
    decl_buffer,
    if_then_else,
)
from tvm_ffi import structural_map

from .fusion.blocks import Point, is_reduced, read_reduction
from .inlining import inline_producers
from .layout import require_own_loops
from .queries import find_epilogue, get_sblock_name
from .rewriting import edit_scope, get_scope, open_loops, replace_scope
from .schedule import TransformError, transform
from .tir import (
    constant,
    find_all,
    get_operands,
    is_among,
    is_choice,
    is_end,
    is_used,
    substitute,
)


@transform
def tile_windows(
    sch: Schedule,
    block: SBlockRV,
    *,
    tile: Sequence[int],
    columns: int,
    depth: int,
    copies: bool = False,
    inlines: bool = True,
) -> SBlockRV:
    """Turn a convolution into a matmul whose row tiles are rectangles of pixels.

    A row of the matmul is the window of one pixel of the result, a column is a channel of the
    result, and k runs over filter positions and, within each, channels. Pixels are numbered
    rectangle by rectangle, so that a tile of prod(tile) rows and `depth` channels of one filter
    position is a rectangle of the image. `prefetch_by_tma` copies it at once, with zeros for the
    padding, and beyond the image if rectangles do not divide the result. Results there are not
    stored. This does with the TMA's tiled mode what its im2col mode is for; TVM has no tensor maps
    for that.

    With `copies` the operands are copied first, with channels padded to a multiple of `depth`. If
    that makes them whole lines of the L2 cache, tiles arrive sooner. With `inlines` the blocks that
    compute an operand are inlined; otherwise they are kernels of their own.

    A trace cannot replay this, since no TVM primitive does it, and says so.

    rewrite: ``for n, y, x, o, i, j, c: Y[n, y, x, o] += X[n, y + i, x + j, c] * F[o, i, j, c]`` ->
        ``windows[p, k] = X[...] if inside else 0; filters[o, k] = F[...] if inside else 0; for p,
        o, k: sums[p, o] += windows[p, k] * filters[o, k]; results = sums; for p, o: if inside:
        Y[...] = results[p, o]``
    consumes: the block's loops, producers that are inlined, and its epilogue
    returns: the block that stores the result
    requires: a block that sums products of two tensors' elements into a whole tensor, in its
        original loops, and at most one consumer of the same kind, which converts each sum or
        computes only from it; spatial iterators that each index one operand, those of the first
        operand before the one of the second, in the order of the result's dimensions; the last
        reduction iterator along the last dimension of both operands; zeros only outside of a
        tensor; constant sizes; a size of at least 1 in `tile` for each iterator of rows, and for
        columns and depth; a depth that divides the number of summed channels, unless these are all
        channels of an operand
    """
    name = get_sblock_name(sch, block)
    epilogue = find_epilogue(sch, block)
    if inlines and sch.get_producers(block):
        inline_producers(sch, block)
    node = sch.get(block)
    reduction, spatial = read_reduction(node), [it for it in node.iter_vars if not is_reduced(it)]
    steps = [it for it in node.iter_vars if is_reduced(it)]
    if None in (extents := [constant(it.dom.extent) for it in node.iter_vars]):
        raise TransformError(
            f"the shape {extents} of block '{name}' is not constant", "use constant sizes"
        )
    if reduction.kind != "sum" or not isinstance(reduction.term, Mul):
        raise TransformError(
            f"block '{name}' does not sum products", "pass a block that multiplies two operands"
        )
    (first, of_first), (second, of_second) = (
        _read_operand(name, it, node.iter_vars) for it in (reduction.term.a, reduction.term.b)
    )
    *rows, column = spatial
    along = steps[-1].var
    of_rows, of_column = of_first.indices, of_second.indices
    last = [of_rows[-1], of_column[-1]]
    is_product = (
        rows
        and all(any(is_used(it.var, at) for at in of_rows) for it in rows)
        and not any(is_used(it.var, at) for it in rows for at in of_column)
        and not any(is_used(column.var, at) for at in of_rows)
        and all(at.same_as(along) for at in last)
        and len(reduction.indices) == len(spatial)
        and all(at.same_as(it.var) for at, it in zip(reduction.indices, spatial, strict=True))
    )
    if not is_product:
        raise TransformError(
            f"block '{name}' is not a convolution with rows of windows, columns of filters "
            "and channels last",
            "pass a block as modules.convolution writes it",
        )
    if len(tile) != len(rows) or min(*tile, columns, depth) < 1:
        raise TransformError(
            f"tile={tuple(tile)}, columns={columns} and depth={depth} do not fit the {len(rows)} "
            f"iterators of rows of block '{name}'",
            "give a size of at least 1 for each",
        )
    shapes = [it.source.shape for it in (of_first, of_second)]
    target, written = reduction.buffer, [node]
    if epilogue is not None:
        written.append(sch.get(epilogue))
        target = written[-1].writes[0].source
    width, length = constant(column.dom.extent) or 1, constant(steps[-1].dom.extent) or 1
    domains = [
        [constant(it.dom.extent) for it in block.iter_vars if not is_reduced(it)]
        for block in written
    ]
    if any(whole != [constant(size) for size in target.shape] for whole in domains):
        raise TransformError(
            f"'{target.name}' of shape {list(target.shape)} has elements that block '{name}' does "
            "not compute",
            "convolve into a tensor that holds only the result",
        )
    if -(-length // depth) * depth > length and all(constant(it[-1]) != length for it in shapes):
        raise TransformError(
            f"block '{name}' sums {length} of the channels of both operands, and steps of "
            f"depth={depth} would take more",
            "use a depth that divides the channels",
        )
    for handle in [block] if epilogue is None else [block, epilogue]:
        require_own_loops(sch, handle, "call this before loops are split, bound or shared")
    # Where iterators are, in the row p, the column o and the step k of the product.
    p, o, k = (Var(it, "int32") for it in "pok")
    lengths = [constant(it.dom.extent) or 1 for it in rows]
    counts = [-(-length // size) for length, size in zip(lengths, tile, strict=True)]
    whole = math.prod(tile)
    outer, inner = _take_apart(p // whole, counts), _take_apart(p % whole, tile)
    taps = [constant(it.dom.extent) or 1 for it in steps]
    taps[-1] = -(-taps[-1] // depth) * depth
    sizes = {p: math.prod(counts) * whole, o: -(-width // columns) * columns, k: math.prod(taps)}
    analyzer = Analyzer()
    for variable, size in sizes.items():
        analyzer.bind(variable, Range(0, size))
    pixels = [at * size + it for at, size, it in zip(outer, tile, inner, strict=True)]
    places = {it.var: analyzer.simplify(at) for it, at in zip(rows, pixels, strict=True)}
    places[column.var] = o
    channels = _take_apart(k, taps)
    places |= {it.var: analyzer.simplify(at) for it, at in zip(steps, channels, strict=True)}

    def is_inside(indices: Any, shape: Any) -> list[Any]:
        """The conditions of a place to lie in a tensor, without those that always hold."""
        wanted = [
            part
            for index, size in zip(indices, shape, strict=True)
            for part in (GE(index, const(0, "int32")), LT(index, size))
        ]
        return [part for part in wanted if not analyzer.can_prove(part)]

    def make(called: str, own: Sequence[Any], stored: Any, body: Any, **more: Any) -> For:
        """The nest of a block over some of `sizes`, which stores once; one with an initialization
        reduces over k.
        """
        point, init = Point(), more.pop("init", None)
        for it in own:
            kind = IterVar.CommReduce if init is not None and it.same_as(k) else IterVar.DataPar
            point.old[it] = point.enter(f"v{it.name}", Range(0, sizes[it]), "int32", kind)
        body, init, stored = (None if it is None else point.of(it) for it in (body, init, stored))
        loads = [it for it in find_all(body, TensorLoad) if not it.source.same_as(stored.buffer)]
        used = [*((it.source, it.indices) for it in loads), (stored.buffer, stored.indices)]
        *reads, write = (
            BufferRegion(buffer, [Range.from_min_extent(at, 1) for at in indices])
            for buffer, indices in used
        )
        block = SBlock(point.iterators, reads, [write], called, body, init=init, **more)
        return point.build_nest(block)

    def fill(called: str, shape: list[Any], at: list[Any], load: Any) -> Any:
        """A buffer that holds a tensor's elements, and zeros where an index lies outside of it."""
        conditions, value = is_inside(load.indices, load.source.shape), load
        if conditions:
            value = if_then_else(reduce(And, conditions), load, const(0, load.ty.dtype))
        made = decl_buffer(shape, load.source.dtype, called, layout=None)
        store = BufferStore(made, value, at)
        nests.append(make(called, at, store, store))
        buffers.append(made)
        return made

    nests, matrices, buffers = list[Any](), list[Any](), list[Any]()
    for value, load, at, called in (
        (first, of_first, p, "windows"),
        (second, of_second, o, "filters"),
    ):
        load = substitute(load, places)
        if copies:
            source = load.source
            shape = [*map(int, source.shape[:-1]), taps[-1]]
            whole_at = [Var(f"i{it}", "int32") for it in range(len(shape))]
            for it, size in zip(whole_at, shape, strict=True):
                sizes[it] = size
                analyzer.bind(it, Range(0, size))
            copy = fill(f"{source.name}_copy", shape, whole_at, BufferLoad(source, whole_at))
            load = BufferLoad(copy, load.indices)
        made = fill(called, [sizes[at], sizes[k]], [at, k], load)
        matrices.append((value, BufferLoad(made, [at, k])))
    # The product, and what is computed with its sums.
    sums = decl_buffer(
        (sizes[p], sizes[o]), reduction.dtype, str(reduction.buffer.name) + "_sums", layout=None
    )
    before = BufferLoad(sums, [p, o])
    factors = [
        _exchange(factor, value, load)
        for factor, (value, load) in zip(
            (reduction.term.a, reduction.term.b), matrices, strict=True
        )
    ]
    store = BufferStore(sums, reduction.combine(before, Mul(*factors)), [p, o])
    begin = BufferStore(sums, reduction.identity, [p, o])
    notes = dict(node.annotations)
    product = make(name, [p, o, k], store, store, init=begin, annotations=notes)
    value, called = before, f"{name}_result"
    if epilogue is not None:
        # The epilogue's expression of each sum, with the product's in its place.
        called, body = str(written[-1].name_hint), written[-1].body
        loads, own = find_all(body, TensorLoad), [it.var for it in written[-1].iter_vars]
        stored = list(getattr(body, "indices", ()))
        is_plain = isinstance(body, BufferStore) and all(
            len(at) == len(own) and all(one.same_as(it) for one, it in zip(at, own, strict=True))
            for at in (stored, *(load.indices for load in loads))
        )
        if not is_plain or not all(load.source.same_as(reduction.buffer) for load in loads):
            raise TransformError(
                f"block '{called}' uses more than each sum at its own indices",
                "let what reads other tensors be a kernel of its own",
            )
        value = structural_map(body.value, (TensorLoad, lambda load: before))
    results = decl_buffer(
        (sizes[p], sizes[o]), target.dtype, str(target.name) + "_tiles", layout=None
    )
    store = BufferStore(results, value, [p, o])
    nests += [product, make(called, [p, o], store, store)]
    indices = [places[it.var] for it in spatial]
    store = BufferStore(target, BufferLoad(results, [p, o]), indices)
    conditions = is_inside(indices, target.shape)
    body = IfThenElse(reduce(And, conditions), store, None) if conditions else store
    nests.append(make(f"{name}_crop", [p, o], store, body))
    scope, parts = get_scope(sch, block).stmt, list[Any]()
    for part in scope.body.seq if isinstance(scope.body, SeqStmt) else [scope.body]:
        blocks = find_all(part, SBlock)
        if is_among(node, blocks):
            parts += nests
        if not any(is_among(it, written) for it in blocks):
            parts.append(part)
    new = edit_scope(scope, SeqStmt(parts), [*buffers, sums, results])
    kept = {node: open_loops(product)[1].block}
    if epilogue is not None:
        kept[written[-1]] = open_loops(nests[-2])[1].block
    replace_scope(sch, block, new, kept, who="tile_windows")
    (cast,) = sch.get_consumers(block)
    (crop,) = sch.get_consumers(cast)
    return crop


def _take_apart(number: Any, sizes: Sequence[int]) -> list[Any]:
    """The digits of a number, of as many values as there are sizes; the last one varies most."""
    digits: list[Any] = []
    for size in reversed(sizes[1:]):
        digits.insert(0, number % size)
        number = number // size
    return [number, *digits]


def _read_operand(name: str, factor: Any, iterators: Sequence[IterVar]) -> tuple[Any, Any]:
    """A factor of what a convolution sums up, without conversions: an element of a tensor, or as it
    is chosen with zeros outside of that; and the load of it.
    """
    value = factor
    while isinstance(value, Cast):
        value = value.value
    load, conditions = value, list[Any]()
    if is_choice(value) and getattr(value.args[2], "value", None) == 0:
        conditions, load = list(get_operands(value.args[0], And)), value.args[1]
    if not isinstance(load, TensorLoad):
        raise TransformError(
            f"block '{name}' multiplies by {value}, which is neither an element of a tensor "
            "nor zero",
            "let a block of its own compute it",
        )
    for part in conditions:
        if not is_end(part, load.indices, load.source.shape, iterators):
            raise TransformError(
                f"block '{name}' takes zeros where '{part}' does not hold, which is not the end of "
                f"'{load.source.name}'",
                "pad with zeros only outside of a tensor",
            )
    return value, load


def _exchange(expression: Any, old: Any, new: Any) -> Any:
    """A factor with another element in the place of the one that it converts."""
    if expression.same_as(old):
        return new
    return Cast(expression.ty.dtype, _exchange(expression.value, old, new))
