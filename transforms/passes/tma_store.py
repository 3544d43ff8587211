"""A pass that lets the TMA write the tiles that `store_by_tma` annotated.

Instructions from the PTX ISA, section "Data Movement and Conversion Instructions:
cp.async.bulk.tensor". It runs behind the pass that makes pipelines of bulk copies, which may have
put the copy of a tile under the condition of a role: the barrier here is one of all threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm.ir import Call
from tvm.s_tir import SBlock, SBlockRealize
from tvm.script import tirx as T
from tvm.sym import Analyzer
from tvm.tirx import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Var,
    const,
)
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_equal

from tirstep.tvm_compat import get_op_name

from ..rewriting import with_body
from ..schedule import TransformError
from ..tir import constant, find_all, get_axis, is_among, replace_fields, substitute
from ..tma_tiles import TMA_STORE, CopyShape, TmaTile
from .store_slots import allocate_slots, cut_in_slabs, find_condition, find_slots, make_slots
from .tile_turns import TURN
from .tma import find_threads, put_at_root
from .tma_pipeline import (
    READ,
    if_elected,
    join,
    make_barrier,
    make_proxy_fence,
    make_tensor_map,
)

_WRITE = 2
"""The mask of a pointer that writes."""


@prim_func_pass(opt_level=0, name="tirstep.LowerTmaStores")
def LowerTmaStores(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Make a bulk store of each tile that `store_by_tma` annotated, in a kernel.

    Where there are no threads, as on a CPU, the copy stays what it is.

    rewrite: ``D[...] = D_shared[...]`` -> ``map = tensor map of D; (fence.proxy.async; barrier; if
        elected: cp.async.bulk.tensor D, D_shared; commit_group; wait_group 0)``
    """
    body, parameters = function.body, list(function.params)
    maps: list[Any] = []
    for block in [block for block in find_all(body, SBlock) if TMA_STORE in block.annotations]:
        # The statements around a block, outermost first, and the realization of the block last.
        path = [body]
        while not (isinstance(path[-1], SBlockRealize) and path[-1].block.same_as(block)):
            path.append(
                next(it for it in _get_parts(path[-1]) if is_among(block, find_all(it, SBlock)))
            )
        store = TileStore.of(block, path, len(maps) // 2, parameters)
        if store.threads:
            maps += make_tensor_map(store.map, store.tile)
            # The body with a store in the place of its copy, whose kernel ends when all is written.
            at, made = store.place, store.lower()
            if store.waits_late:
                at = find_loops(path)[0]
                made = _rebuild(path[at:], store.place - at, made)
                again = _wait_before(made.body, store) or SeqStmt(store.store_again(made.body))
                made = with_body(made, again)
            innermost = max(
                at for at, it in enumerate(path) if isinstance(it, For) and get_axis(it)
            )
            kernel = _rebuild(path[innermost:], at - innermost, made)
            if store.slots:
                kernel = allocate_slots(kernel, store.tile.target, store.staged)
            if not store.is_last:
                end = if_elected(store.threads, [make_wait()])
                kernel = with_body(kernel, SeqStmt([kernel.body, end]))
            body = _rebuild(path, innermost, kernel)
    return function.with_body(put_at_root(body, maps)) if maps else function


def _get_parts(statement: Any) -> list[Any]:
    """The statements within one."""
    if isinstance(statement, SeqStmt):
        return list(statement.seq)
    if isinstance(statement, SBlockRealize):
        return [statement.block.body]
    if isinstance(statement, IfThenElse):
        cases = (statement.then_case, statement.else_case)
        return [case for case in cases if case is not None]
    return [statement.body]


@dataclass
class TileStore:
    """A tile that the TMA writes.

    Attributes
    ----------
    tile : of the tensor that is written, and the buffer in shared memory
    map : the variable of its tensor map
    threads : as `find_threads`
    place : in the statements around the copy, of the one that the store takes the place of
    is_last : whether the kernel ends behind it
    waits_late : whether the memory of the tile is its own all the time, so that threads need not
        wait before they store to it again
    is_made : whether the function makes the tensor itself
    slots : through how many the tile's slabs go, where shared memory has no room for all; else 0
    computes : which threads store the tile
    """

    tile: TmaTile
    map: Var
    threads: list[tuple[Any, int]]
    place: int
    is_last: bool
    waits_late: bool
    is_made: bool
    slots: int
    computes: Any

    def __post_init__(self) -> None:
        self.staged = make_slots(self.tile.target, self.slots) if self.slots else self.tile.target

    @classmethod
    def of(cls, block: SBlock, path: list[Any], number: int, parameters: list[Any]) -> TileStore:
        """The store of a block that `store_by_tma` annotated, and the statements around that."""
        sequences = [at for at, each in enumerate(path) if isinstance(each, SeqStmt)]
        place = sequences[-1] + 1 if sequences else 0
        loops = [each for each in path if isinstance(each, For)]
        threads = find_threads(path[0], loops[-1]) if loops else []
        if any(isinstance(each, AttrStmt) and each.attr_key == TURN for each in path):
            threads = threads[:-1]  # of the warpgroup whose turn it is
        inner = [each.loop_var for each in path[place:] if isinstance(each, For)]
        tile = _find_tile(block, [*inner, *(axis for axis, _ in threads)])
        name = f"tensor_map_{number}_of_{tile.source.name}"
        return cls(
            tile,
            Var(name, T.handle("tensormap").ty),
            threads,
            place,
            is_last := _is_last(path, place),
            waits_late := not is_last and _is_lasting(path, tile.target),
            not is_among(tile.source, parameters),
            find_slots(path, tile.target) if waits_late else 0,
            find_condition(path),
        )

    def lower(self) -> Any:
        """What all threads do before, and the one that copies and waits.

        Where the kernel goes on, threads wait until the tile has been read, and may be stored to.
        """
        wait = [] if self.waits_late else [make_wait() if self.is_last else make_wait("read")]
        commit = Evaluate(T.ptx["cp.async.bulk.commit_group"]())
        copied = if_elected(self.threads, [*self._copy(), commit, *wait])
        statements = [] if self.slots else [*make_tile_visible(), copied]
        if self.is_made or self.slots:  # StorageRewrite would otherwise give its memory away
            statements.append(Evaluate(self.tile.source.access_ptr(_WRITE)))
        ends = self.is_last or self.waits_late
        return join(statements if ends else [*statements, make_barrier()])

    def store_again(self, statement: Any) -> list[Any]:
        """A statement that stores the tile, and what stands before, in a loop that comes back."""
        if self.slots:
            return self._store_in_slots(statement)
        return [if_elected(self.threads, [make_wait("read")]), make_barrier(), statement]

    def _store_in_slots(self, statement: Any) -> list[Any]:
        """Slab after slab is stored and copied, when its slot has been read."""
        commit = Evaluate(T.ptx["cp.async.bulk.commit_group"]())
        wait = Evaluate(T.ptx["cp.async.bulk.wait_group.read"](self.slots - 1))
        done: list[Any] = []
        stores = cut_in_slabs(statement, self.tile.target, self.staged, self.threads, self.computes)
        for store, copy in zip(stores, self._copy(), strict=True):
            done += [if_elected(self.threads, [wait]), make_barrier(), store]
            done += [*make_tile_visible(), if_elected(self.threads, [copy, commit])]
        return done

    def _copy(self) -> list[Any]:
        source, target = self.staged, self.tile.source
        slab = math.prod(constant(size) or 1 for size in source.shape[-3:])
        rank = len(target.shape)
        chain = T.ptx[f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"]
        copies = []
        for panel in range(self.tile.panels):
            start = reversed(self.tile.get_start(panel))
            place = panel % self.slots if self.slots else panel
            pointer = source.access_ptr(READ, offset=place * slab, extent=slab)
            copies.append(Evaluate(chain(T.address_of(self.map), *start, pointer)))
        return copies


def make_tile_visible() -> list[Any]:
    """What all threads do so that bulk copies of any of them see what they stored."""
    return [make_proxy_fence(), make_barrier()]


def make_wait(*modifiers: str) -> Evaluate:
    """Wait for all bulk stores of a thread, or ("read") until they have read shared memory."""
    return Evaluate(T.ptx[".".join(["cp.async.bulk.wait_group", *modifiers])](0))


def _find_tile(block: SBlock, inner: list[Any]) -> TmaTile:
    """The tile of a lowered copy, whose first element is that where variables `inner` are 0."""
    shape = CopyShape.of_list(block.annotations[TMA_STORE])
    (store,) = find_all(block, BufferStore)
    first = {variable: const(0, variable.ty.dtype) for variable in inner}
    analyzer = Analyzer()
    start = tuple(analyzer.simplify(substitute(index, first)) for index in store.indices)
    tile = store.value.source
    *_, slabs, rows, chunks, width = (constant(size) or 1 for size in tile.shape)
    if shape.panels > slabs or max(1, *shape.box[:-1]) > rows or shape.box[-1] != chunks * width:
        raise TransformError(
            f"'{tile.name}' of shape {list(tile.shape)} does not hold {shape.panels} boxes of "
            f"{shape.box}, which block '{block.name_hint}' copies",
            "lower the module as store_by_tma left it",
        )
    last = len(shape.box) - 1
    return TmaTile(store.buffer, tile, start, shape.box, shape.swizzle, shape.panels, last)


def _is_last(path: list[Any], place: int) -> bool:
    """Whether a kernel ends behind a statement: no loop comes back to it, and nothing follows."""
    around = path[: place + 1]
    loops = [each for each in around[:-1] if isinstance(each, For)]
    kernel = next((at for at, it in enumerate(around) if it in loops and get_axis(it)), 0)
    return all(get_axis(loop) is not None for loop in loops) and all(
        outer.seq[-1].same_as(inner)
        for outer, inner in zip(around[kernel:], around[kernel + 1 :], strict=False)
        if isinstance(outer, SeqStmt)
    )


def find_loops(path: list[Any]) -> list[int]:
    """The places of loops on a path that no thread axis is bound to, up to the last sequence."""
    last = max((at for at, it in enumerate(path) if isinstance(it, SeqStmt)), default=0)
    return [at for at, it in enumerate(path[:last]) if isinstance(it, For) and not get_axis(it)]


def _is_lasting(path: list[Any], buffer: Any) -> bool:
    """Whether a buffer is allocated outside of the one loop that comes back to its store."""
    loops = find_loops(path)
    outside = [it for it in path[: loops[0]] if isinstance(it, SBlockRealize)] if loops else []
    return len(loops) == 1 and any(is_among(buffer, it.block.alloc_buffers) for it in outside)


def _wait_before(statement: Any, store: TileStore) -> Any:
    """A statement in which threads wait until a tile has been read, before they store to it again.

    None where it runs several times, or not for all of them.
    """
    tile = store.tile.target
    if isinstance(statement, SeqStmt):
        parts = list(statement.seq)
        at = next(at for at, part in enumerate(parts) if _stores_to(part, tile))
        made = _wait_before(parts[at], store)
        parts[at : at + 1] = store.store_again(parts[at]) if made is None else [made]
        return SeqStmt(parts)
    is_once = isinstance(statement, For) and constant(statement.extent) == 1
    if not is_once and not isinstance(statement, SBlockRealize | AttrStmt):
        return None
    (inner,) = _get_parts(statement)
    made = _wait_before(inner, store)
    return None if made is None else _exchange(statement, inner, made)


def _stores_to(statement: Any, buffer: Any) -> bool:
    """Whether threads store to a buffer, or an instruction of theirs does."""
    if any(store.buffer.same_as(buffer) for store in find_all(statement, BufferStore)):
        return True
    return any(
        get_op_name(call) == "tirx.tvm_access_ptr"
        and structural_equal(call.args[1], buffer.data)
        and int(call.args[4]) & _WRITE
        for call in find_all(statement, Call)
    )


def _rebuild(path: list[Any], place: int, made: Any) -> Any:
    """The first statement of a path, with another one at a place of it."""
    for outer, inner in zip(reversed(path[:place]), reversed(path[1 : place + 1]), strict=True):
        made = _exchange(outer, inner, made)
    return made


def _exchange(statement: Any, old: Any, new: Any) -> Any:
    """A statement with another one of those directly within it."""
    if isinstance(statement, SeqStmt):
        return SeqStmt([new if each.same_as(old) else each for each in statement.seq])
    if isinstance(statement, SBlockRealize):
        block = replace_fields(statement.block, body=new)
        return SBlockRealize(statement.iter_values, statement.predicate, block)
    if isinstance(statement, IfThenElse):
        cases = (statement.then_case, statement.else_case)
        then, other = (new if it is not None and it.same_as(old) else it for it in cases)
        return IfThenElse(statement.condition, then, other)
    if isinstance(statement, For):
        return with_body(statement, new)
    return AttrStmt(statement.node, statement.attr_key, statement.value, new)
