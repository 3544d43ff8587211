"""Results that go through a tile in shared memory, in their own type, and from there by the TMA.

`store_through_tiles` converts sums in registers, an epilogue and all, before they go to shared
memory; `store_by_tma` lets the TMA take the tile from there. It only annotates: the module means
what it did, and any pipeline lowers it to that. The pass makes the tensor map and the copies of it.

Sums in fragments are stored by whole instructions, whatever of them lies inside of the tensor. A
consumer that crops a padded problem goes through what is inside alone, and cannot stand where they
are stored: `compute_whole_tiles` has it computed for the padding, too.

Instructions from the PTX ISA, section "Data Movement and Conversion Instructions:
cp.async.bulk.tensor". The pass runs behind the one that makes pipelines of bulk copies, which may
have put the copy of a tile under the condition of a role: the barrier here is one of all threads.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from tvm.ir import Call, Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.script import tirx as T
from tvm.tirx import (
    LT,
    And,
    AttrStmt,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IntImm,
    IterVar,
    SeqStmt,
    Var,
    const,
    decl_buffer,
)
from tvm.tirx import if_then_else as choose
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..enumeration import try_iterations
from ..gpu_limits import MAX_SHARED_BYTES, WARP
from ..pass_options import set_pipeline
from ..queries import find_epilogue, get_own_loops, get_realize, get_sblock_name
from ..rewriting import edit_loop, edit_scope, get_scope, open_loops, replace_scope
from ..schedule import TransformError, transform
from ..tensor_cores.fragments import SCOPE
from ..tensor_cores.mma_tiles import SharedStore, require_tile_loops, write_in_rows
from ..tir import (
    bind_ranges,
    constant,
    find_all,
    get_axis,
    get_operands,
    is_among,
    is_used,
    replace_fields,
    substitute,
)
from .slab_slots import allocate_slots, cut_in_slabs, find_condition, find_slots, make_slots
from .tma_loads import (
    READ,
    if_elected,
    join,
    make_barrier,
    make_proxy_fence,
    make_tensor_map,
    require_tma,
)
from .tma_tiles import (
    ATOM,
    TMA_STORE,
    CopyShape,
    TmaTile,
    find_tile,
    measure_store,
    points_into,
)
from .warp_roles import find_threads, put_at_root
from .warp_turns import TURN
from .warpgroup_tiles import TILE_STORE
from .wgmma_intrinsics import CHUNK_BYTES


def compute_whole_tiles(sch: Schedule, block: SBlockRV, consumer: SBlockRV) -> None:
    """Let a consumer compute all that a block sums up, a padding's sums, too.

    rewrite: ``for i in m, j in n: T[i, j] = f(C[i, j], x[j]); for i in m, j in n: D[i, j] =
        T[i, j]`` -> ``for i in M, j in N: T[i, j] = f(C[i, j], x[j] if j < n else 0); ...``
    consumes: nothing
    requires: a consumer that reads one element of the sums each, at its own place, and that one
        copy reads, with loops of its own alone
    """
    node, sums = sch.get(consumer), sch.get(block).writes[0].source
    name = get_sblock_name(sch, consumer)
    body = node.body
    loads = [load for load in find_all(body, TensorLoad) if load.source.same_as(sums)]
    places = [list(load.indices) for load in loads]
    own = [iterator.var for iterator in node.iter_vars]
    if not isinstance(body, BufferStore) or any(
        len(place) != len(own)
        or any(not one.same_as(other) for one, other in zip(place, own, strict=True))
        for place in [*places, list(body.indices)]
    ):
        raise TransformError(
            f"block '{name}' does not compute each element of what it stores from the sum at the "
            "same place",
            "let it be a kernel of its own",
        )
    whole = [constant(size) or 0 for size in sums.shape]
    lengths = [constant(iterator.dom.extent) or 0 for iterator in node.iter_vars]
    if whole == lengths:
        return
    if min(whole) < 1 or min(lengths) < 1:
        raise TransformError(f"block '{name}' has sizes that are open", "give constant sizes")
    loops = [sch.get(loop).loop_var for loop in sch.get_loops(consumer)]
    values = get_realize(sch, consumer).iter_values
    if len(loops) != len(values) or any(
        not loop.same_as(value) for loop, value in zip(loops, values, strict=True)
    ):
        raise TransformError(
            f"the loops of block '{get_sblock_name(sch, consumer)}' are split, fused or in another "
            "order than its iterators",
            "leave the loops of what consumes the sums as they were",
        )
    _extend(sch, consumer, sums, (whole, lengths))


def _extend(
    sch: Schedule, consumer: SBlockRV, sums: Any, sizes: tuple[list[int], list[int]]
) -> None:
    node, (whole, lengths) = sch.get(consumer), sizes
    old = node.writes[0].source
    tile = decl_buffer(whole, old.dtype, str(old.name), scope=str(old.scope()))
    (copy,) = (sch.get(each) for each in sch.get_consumers(consumer))
    ends = {
        iterator.var: LT(iterator.var, IntImm("int32", length))
        for iterator, length, size in zip(node.iter_vars, lengths, whole, strict=True)
        if size > length
    }

    # A block that computes a whole tile; what it reads beside the sums is 0 outside of `ends`.
    def guard(load: Any) -> Any:
        if load.source.same_as(sums):
            return load
        inside = [
            end
            for variable, end in ends.items()
            if any(is_used(variable, index) for index in load.indices)
        ]
        if not inside:
            return load
        return choose(functools.reduce(And, inside), load, const(0, load.ty.dtype))

    iterators = [
        IterVar(Range.from_min_extent(0, size), iterator.var, iterator.iter_type)
        for iterator, size in zip(node.iter_vars, whole, strict=True)
    ]
    value = structural_map(node.body.value, (TensorLoad, guard))
    made = {
        node: (
            replace_fields(
                node,
                iter_vars=iterators,
                writes=[BufferRegion(tile, region.region) for region in node.writes],
                body=BufferStore(tile, value, node.body.indices),
            )
        ),
        copy: replace_fields(
            copy,
            reads=[BufferRegion(tile, region.region) for region in copy.reads],
            body=structural_map(
                copy.body, (TensorLoad, lambda load: BufferLoad(tile, load.indices))
            ),
        ),
    }
    scope = get_scope(sch, consumer).stmt

    # A statement with other blocks, and the loops of one of them of other extents.
    def rebuild(part: Any, extents: list[int]) -> Any:
        if isinstance(part, SeqStmt):
            return SeqStmt([rebuild(each, extents) for each in part.seq])
        if isinstance(part, SBlockRealize) and part.block in made:
            return SBlockRealize(part.iter_values, part.predicate, made[part.block])
        if not isinstance(part, For):
            return part
        inside = rebuild(part.body, extents[1:])
        # Whether nothing but a block, and loops of its own, is in a loop.
        _, inner = open_loops(part)
        if not (isinstance(inner, SBlockRealize) and is_among(inner.block, [node])):
            return part if inside.same_as(part.body) else edit_loop(part, body=inside)
        return edit_loop(part, extent=IntImm("int32", extents[0]), body=inside)

    body = rebuild(scope.body, whole)
    replace_scope(sch, consumer, edit_scope(scope, body, [tile]), made, who="store_through_tiles")


@transform
def store_through_tiles(
    sch: Schedule,
    block: SBlockRV,
    grid: LoopRV,
    warp_loop: LoopRV,
    *,
    warps: int,
    vector: int,
    lanes: int = WARP,
) -> SharedStore:
    """Let a result go through a tile of its own type in shared memory, converted in registers.

    A consumer of the sums, that converts them, adds a bias or crops a padded problem, computes in
    the registers that hold them, on whole tiles: zeros stand for what it reads outside of a tensor.
    `tensorize_warpgroups` lays the tile in rows of 128, 64, 32 or 16 bytes whose chunks of 16 bytes
    are exchanged by the number of the row (`place_in_tile`), as the TMA reads it.

    rewrite: under `grid`: ``for k: C += ...``, ``D = f(C)`` -> ``(for k: C_local += ...);
        D_shared = f(C_local); for f_0: for f_1 in threadIdx.y: for f_2 in threadIdx.x: for f_3 in
        T.vectorized(vector): D[...] = D_shared[...]``
    consumes: the loops of the consumer
    returns: the block that stores into shared memory, for `tensorize_warpgroups`, and the one that
        writes from there, for `store_by_tma`
    requires: the loops of the grid and of the warpgroups that `tile_in_warpgroups` returned, with
        nothing else in them yet, bound to blockIdx.x and threadIdx.y; its number of `warps` or
        warpgroups, of so many `lanes` each; a vector of 16 bytes at most; a consumer that reads
        each of its sums at its own place, once
    """
    require_tile_loops(sch, block, grid, warp_loop, warps)
    epilogue = find_epilogue(sch, block)
    if epilogue is None:
        write = sch.cache_write(block, 0, SCOPE)
        store = sch.cache_write(block, 0, "local")
    else:
        write, store = sch.cache_write(epilogue, 0, SCOPE), epilogue
        compute_whole_tiles(sch, block, store)
        (write,) = sch.get_consumers(store)
        sch.set_scope(block, 0, "local")
    size = sch.get(write).writes[0].source.dtype.itemsize
    if vector < 1 or CHUNK_BYTES % (vector * size):
        raise TransformError(
            f"vector={vector} elements of {size} bytes are no part of a chunk of {CHUNK_BYTES} "
            "bytes, whose places a tile exchanges",
            f"use {CHUNK_BYTES // size} or a divisor of it",
        )
    sch.reverse_compute_at(store, warp_loop, preserve_unit_loops=True)
    sch.reverse_compute_at(write, grid, preserve_unit_loops=True)
    sch.annotate(store, TILE_STORE, 1)
    made = write_in_rows(sch, block, SharedStore(store, write), [None, warps, lanes, vector])
    set_pipeline(sch)
    return made


@transform
def store_by_tma(sch: Schedule, write: SBlockRV, *, arch: str | None = None) -> None:
    """Let the TMA write a tile from shared memory to the tensor.

    All threads end their stores with a fence of the asynchronous proxy and a barrier; one of them
    issues the copies, commits them as one group, and waits for it: until shared memory has been
    read where it is used again, and for all of it before the kernel ends. What lies outside of the
    tensor is not written.

    rewrite: ``D[...] = D_shared[...]`` -> ``fence.proxy.async; barrier; if elected:
        cp.async.bulk.tensor D, D_shared; commit_group; wait_group 0``, when the module is lowered
        by the pipeline "tirstep"
    consumes: nothing
    requires: a block that copies a whole tile from ``shared.dyn`` to global memory, as
        `store_through_tiles` and `tensorize_warpgroups` leave it, in its own type, with no other
        guard than the tensor's end, in a kernel of whole warps; a tensor that the TMA can address:
        a pitch of a multiple of 16 bytes, a tile of at most 256 elements along each dimension;
        compute capability 9.0, where `arch` is given
    """
    require_tma(arch, "leave the copy to threads")
    # The copies that write a tile, all threads and iterations together.
    block, name = sch.get(write), get_sblock_name(sch, write)
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, TensorLoad):
        raise TransformError(
            f"block '{name}' does more than to copy a tile in its own type",
            "convert, add and compute in registers before, with store_through_tiles",
        )
    realize, own = get_realize(sch, write), [sch.get(loop) for loop in get_own_loops(sch, write)]
    first = {loop.loop_var: loop.min for loop in own}
    analyzer = bind_ranges(own)
    places = {
        iterator.var: analyzer.simplify(value - substitute(value, first))
        for iterator, value in zip(block.iter_vars, realize.iter_values, strict=True)
    }
    # Conditions of a block's own loops alone go beyond its tile, say; others may be no more than
    # that an iterator does not go beyond its domain.
    variables = [loop.loop_var for loop in own]
    conditions = []
    for part in get_operands(realize.predicate, And):
        if all(is_among(each, variables) for each in undefined_vars(part)):
            conditions.append(part)
        elif not isinstance(part, LT) or not any(
            constant(part.b) == constant(iterator.dom.extent)
            and constant(analyzer.simplify(part.a - value)) == 0
            for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        ):
            raise TransformError(
                f"block '{name}' writes only where '{part}', and the TMA all that lies inside of "
                "the tensor",
                "guard it by the tensor's end alone, or leave the copy to threads",
            )
    # Where a block's own loops go in its tile, as far as conditions let them.
    chosen = [range(constant(loop.extent) or 0) for loop in own]
    if math.prod(map(len, chosen)) > 8 * MAX_SHARED_BYTES[SCOPE]:
        problem = f"block '{name}' copies more elements than shared memory has room for"
        raise TransformError(problem, "tile it first")
    points = {*map(tuple, try_iterations([*places.values()], conditions, own, chosen).tolist())}
    extents = {
        variable: 1 + max((point[at] for point in points), default=0)
        for at, variable in enumerate(places)
    }
    shape, sizes = measure_store(block, extents, name=name)
    if len(points) < (whole := math.prod(sizes.values())):
        raise TransformError(
            f"block '{name}' copies {len(points)} elements of a tile of {whole}",
            "let it copy the whole tile",
        )
    used = shape.panels * math.prod(shape.box) * block.writes[0].source.dtype.itemsize
    most = MAX_SHARED_BYTES[SCOPE] - ATOM  # beside the mbarriers
    if used > most:
        raise TransformError(
            f"a tile of {used >> 10} KiB does not fit in the {most >> 10} KiB of shared memory "
            "that a block has",
            "use a smaller tile",
        )
    sch.annotate(write, TMA_STORE, shape.to_list())
    set_pipeline(sch)


_WRITE = 2
"""The mask of a pointer that writes."""


@prim_func_pass(opt_level=0, name="tirstep.LowerTmaStores")
def LowerTmaStores(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
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
                made = edit_loop(made, body=again)
            innermost = max(
                at for at, it in enumerate(path) if isinstance(it, For) and get_axis(it)
            )
            kernel = _rebuild(path[innermost:], at - innermost, made)
            if store.slots:
                kernel = allocate_slots(kernel, store.tile.target, store.staged)
            if not store.is_last:
                end = if_elected(store.threads, [make_wait()])
                kernel = edit_loop(kernel, body=SeqStmt([kernel.body, end]))
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
    tile = store.value.source
    *_, slabs, rows, chunks, width = (constant(size) or 1 for size in tile.shape)
    if shape.panels > slabs or max(1, *shape.box[:-1]) > rows or shape.box[-1] != chunks * width:
        raise TransformError(
            f"'{tile.name}' of shape {list(tile.shape)} does not hold {shape.panels} boxes of "
            f"{shape.box}, which block '{block.name_hint}' copies",
            "lower the module as store_by_tma left it",
        )
    return find_tile(store.buffer, tile, store.indices, shape, inner)


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
    pointers = (call for call in find_all(statement, Call) if points_into(call, buffer))
    return any(int(call.args[4]) & _WRITE for call in pointers)


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
        return edit_loop(statement, body=new)
    return AttrStmt(statement.node, statement.attr_key, statement.value, new)
