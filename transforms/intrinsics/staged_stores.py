"""The store of a warpgroup's sums into a tile in shared memory, computed with in registers.

It is no tensor intrinsic of TVM's, which would have to describe every function of the sums: what a
block computes of each of them is repeated for those that a thread has. Results of 16 bits go by
stmatrix, which stores four matrices of 8 by 8 at once: of each, eight lanes name the rows.
"""

from __future__ import annotations

import math
from typing import Any

from tvm.ir import Range, TensorLoad
from tvm.s_tir import MatchBufferRegion, SBlock, SBlockRealize
from tvm.script import tirx as T
from tvm.tirx import (
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IntImm,
    IterVar,
    Ramp,
    SeqStmt,
    Var,
    const,
    decl_buffer,
)
from tvm_ffi import structural_map

from ..gpu_limits import WARP
from ..tir import bind_ranges, constant, replace_fields, substitute
from .fragments import SIDE
from .warpgroups import GROUP, ROWS, THREADS, get_accumulated, swizzle_chunk
from .wgmma import WgmmaTile

TILE_STORE = "tirstep_tile_store"
"""Our annotation of a block that stores sums into a tile whose layout is not chosen yet."""
MATRIX_BITS = 16
"""Of an element that stmatrix stores."""
_PAIR = 2
"""Neighbours in a row of the sums that a thread has."""


class StagedStore:
    """A block that computes elements of a tile from sums, and what a thread does of it.

    Attributes
    ----------
    outer, inner : the block of the warpgroup's tile, and the one in it of an element
    rows, columns : the variables of the loops in between
    sums : their buffer, as instructions of `tile` leave them
    """

    def __init__(self, outer: SBlock, tile: WgmmaTile, sums: Any) -> None:
        self.outer, self.tile, self.sums = outer, tile, sums
        loops, realize = _open(outer.body)
        self.loops, self.inner = loops[-2:], realize.block
        self.iterators = {
            iterator.var: value
            for iterator, value in zip(self.inner.iter_vars, realize.iter_values, strict=True)
        }
        self.target = self.inner.body.buffer
        shape = [constant(part.extent) or 1 for part in self._find_part(outer.reads, sums).region]
        self.own = _view(sums, shape, "C")
        self.thread = Var("tx", "int32")
        self.i, self.j, self.at = (Var(name, "int32") for name in ("i", "j", "part"))

    def make(self) -> SBlock:
        """The block of the warpgroup's tile, whose threads store what they have."""
        matched = [MatchBufferRegion(self.own, self._find_part(self.outer.reads, self.sums))]
        if self.target.dtype.bits == MATRIX_BITS:
            part = self._find_part(self.outer.writes, self.target)
            window = _view(self.target, [constant(it.extent) or 1 for it in part.region], "D", 3)
            matched.append(MatchBufferRegion(window, part))
            body = self._store_matrices(window)
        else:
            body = self._store_pairs()
        down, across = self.tile.blocks
        for variable, extent in ((self.j, across), (self.i, down)):
            body = _unroll(variable, extent, body)
        wait = Evaluate(T.ptx.wgmma.wait_group.sync.aligned(0))
        axis = IterVar(None, Var("threadIdx.x", "int32"), IterVar.ThreadIndex, "threadIdx.x")
        whole = SeqStmt([wait, body])
        loop = For(self.thread, *_upto(THREADS), ForKind.THREAD_BINDING, whole, axis)
        return replace_fields(self.outer, body=loop, match_buffers=matched)

    def _store_pairs(self) -> Any:
        """Each pair of neighbours is one vector."""
        of_pair = Var("of_pair", "int32")
        first = self.at * _PAIR
        *front, last = self._place(first)
        store = BufferStore(self.target, self._compute(first, of_pair), [*front, last + of_pair])
        vector = For(of_pair, *_upto(_PAIR), ForKind.VECTORIZED, store)
        return _unroll(self.at, self.tile.share // _PAIR, vector)

    def _store_matrices(self, window: Any) -> Any:
        """Four matrices, of 16 rows and columns, at once; two where there are 8 columns only."""
        count = 4 if self.tile.share % 8 == 0 else 2
        dtype = self.target.dtype
        values = decl_buffer((count * _PAIR,), dtype, "values", scope="local")
        of_pair = Var("of_pair", "int32")
        stores: list[Any] = []
        for register in range(count):
            first = self.at * (count * _PAIR) + register * _PAIR
            value = self._compute(first, of_pair)
            store = BufferStore(values, value, [register * _PAIR + of_pair])
            stores.append(For(of_pair, *_upto(_PAIR), ForKind.VECTORIZED, store))
            of_pair = Var("of_pair", "int32")
        loads = [BufferLoad(values, [Ramp(_PAIR * it, 1, _PAIR)]) for it in range(count)]
        registers = [T.reinterpret("uint32", load) for load in loads]
        chain = T.ptx[f"stmatrix.sync.aligned.m8n8.x{count}.shared.b16"]
        pointer = window.access_ptr("w", offset=self._find_row(window, count), extent=GROUP)
        stores.append(Evaluate(chain(pointer, *registers)))
        others = [it for it in self.outer.reads if not it.source.same_as(self.sums)]
        reads, writes = [_all_of(self.own), *others], [_all_of(window)]
        block = SBlock([], reads, writes, "matrices", SeqStmt(stores), alloc_buffers=[values])
        times = self.tile.share // (count * _PAIR)
        return _unroll(self.at, times, SBlockRealize([], True, block))

    def _find_part(self, regions: Any, buffer: Any) -> Any:
        """What a block's outer one has of a buffer."""
        return next(it for it in regions if it.source.same_as(buffer))

    def _find_row(self, window: Any, count: int) -> Any:
        """How far the row of a matrix that a lane names lies from the begin of the tile."""
        *_, chunks, width = (constant(size) or 1 for size in window.shape)
        lane = self.thread % WARP
        row = self.i * ROWS + self.thread // WARP * SIDE + lane % SIDE
        chunk = (self.j * self.tile.each) // width + self.at * (count // 2)
        if count == 4:
            chunk = chunk + lane // SIDE
        slab, within = chunk // chunks, chunk % chunks
        swizzled = swizzle_chunk(row, within, chunks * width * self.target.dtype.itemsize)
        at = row * (chunks * width) + swizzled * width
        slabs = constant(window.shape[-4]) or 1
        return at if slabs == 1 else slab * window.strides[-4] + at

    def _place(self, element: Any) -> list[Any]:
        """Where an element of a thread goes."""
        values = self._find_values(*self._find_element(element))
        return [self._simplify(substitute(it, values)) for it in self.inner.body.indices]

    def _compute(self, element: Any, of_pair: Any) -> Any:
        """What an element of a thread becomes, or its neighbour where `of_pair` is 1."""
        row, column = self._find_element(element)
        values = self._find_values(row, column + of_pair)
        front = [0] * (len(self.own.shape) - 4) + [self.i, self.j]

        def load(node: Any) -> Any:
            if not node.source.same_as(self.sums):
                indices = [substitute(index, values) for index in node.indices]
                return BufferLoad(node.source, [self._simplify(it, of_pair) for it in indices])
            return BufferLoad(self.own, [*front, 0, element + of_pair])

        value = structural_map(self.inner.body.value, (TensorLoad, load))
        return self._simplify(substitute(value, values), of_pair)

    def _find_element(self, element: Any) -> tuple[Any, Any]:
        at = get_accumulated(self.thread, element)
        return self.i * ROWS + at.row, self.j * self.tile.each + at.column

    def _find_values(self, row: Any, column: Any) -> dict[Any, Any]:
        """The iterators of an element at a row and a column of the tile."""
        at = dict(zip((loop.loop_var for loop in self.loops), (row, column), strict=True))
        return {variable: substitute(value, at) for variable, value in self.iterators.items()}

    def _simplify(self, expression: Any, of_pair: Any = None) -> Any:
        down, across = self.tile.blocks
        ranges = {self.thread: THREADS, self.i: down, self.j: across, self.at: self.tile.share}
        if of_pair is not None:
            ranges[of_pair] = _PAIR
        analyzer = bind_ranges(())
        for variable, extent in ranges.items():
            analyzer.bind(variable, Range.from_min_extent(0, extent))
        for iterator in self.outer.iter_vars:
            analyzer.bind(iterator.var, iterator.dom)
        return analyzer.simplify(expression)


def _view(buffer: Any, shape: list[int], name: str, dense: int | None = None) -> Any:
    """A part of a buffer as one of its own, of whose dimensions the last ones lie densely."""
    strides: list[Any] = []
    if dense is not None:
        inner = [math.prod(shape[at + 1 :]) for at in range(len(shape) - dense, len(shape))]
        strides = [Var(f"s{at}", "int32") for at in range(len(shape) - dense)]
        strides += [IntImm("int32", each) for each in inner]
    return decl_buffer(
        shape,
        buffer.dtype,
        name,
        strides=strides or None,
        elem_offset=Var(f"{name}_elem_offset", "int32"),
        scope=str(buffer.scope()),
        offset_factor=1,
    )


def _all_of(buffer: Any) -> BufferRegion:
    ranges = [Range.from_min_extent(0, size) for size in buffer.shape]
    return BufferRegion(buffer, ranges)


def _open(statement: Any) -> tuple[list[Any], Any]:
    """The loops around the one block in a statement, and its realization."""
    loops = []
    while isinstance(statement, For):
        loops.append(statement)
        statement = statement.body
    return loops, statement


def _upto(extent: int) -> tuple[Any, Any]:
    return const(0, "int32"), IntImm("int32", extent)


def _unroll(variable: Any, extent: int, body: Any) -> For:
    return For(variable, *_upto(extent), ForKind.UNROLLED, body)
