"""Results that go through a tile in shared memory, in their own type, and from there by the TMA.

`store_through_tiles` converts sums in registers, an epilogue and all, before they go to shared
memory; `store_by_tma` lets the TMA take the tile from there. It only annotates: the module means
what it did, and any pipeline lowers it to that. The pass makes the tensor map and the copies of it.

Sums in fragments are stored by whole instructions, whatever of them lies inside of the tensor. A
consumer that crops a padded problem goes through what is inside alone, and cannot stand where they
are stored: `compute_whole_tiles` has it computed for the padding, too.

Instructions from the PTX ISA, section "Data Movement and Conversion Instructions:
cp.async.bulk.tensor". A block that goes through several tiles has stages beside the tile that it
stores. Where there is no room for all of that, a few slots hold slabs of the tile: threads store
one, the TMA takes it from there, and meanwhile they store the next one. The pass runs behind the
one that makes pipelines of bulk copies, which may have put the copy of a tile under the condition
of a role: the barrier here is one of all threads.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

from tvm.ir import Call, Range, TensorLoad, TensorRegion
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
    FloorDiv,
    For,
    IfThenElse,
    IntImm,
    IterVar,
    SeqStmt,
    Var,
    const,
    decl_buffer,
    stmt_seq,
)
from tvm.tirx import if_then_else as choose
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..enumeration import try_iterations
from ..gpu_limits import MAX_SHARED_BYTES, WARP
from ..pass_options import set_pipeline
from ..queries import find_epilogue, get_realize, get_sblock_name
from ..rewriting import cover_all, edit_loop, exchange, open_loops, replace_blocks
from ..schedule import TransformError, transform
from ..tensor_cores.fragments import SCOPE
from ..tensor_cores.mma_tiles import SharedStore, require_tile_loops, write_in_rows
from ..tir import (
    constant,
    find_all,
    get_axis,
    get_children,
    get_operands,
    is_among,
    is_end,
    is_used,
    list_allocated,
    number_threads,
    replace_fields,
    substitute,
)
from .tma_loads import (
    READ,
    find_aligned,
    find_own_places,
    if_elected,
    make_barrier,
    make_proxy_fence,
    make_tensor_map,
)
from .tma_tiles import (
    ATOM,
    COMPUTES,
    PITCH,
    SLAB,
    TMA_STORE,
    CopyShape,
    count_bytes,
    count_slots,
    find_box,
    find_slabs,
    find_tile,
    points_into,
    redirect,
    require_addressable,
)
from .warp_roles import find_threads, put_at_root
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
            f"block '{name}' does not compute each element from the sum at the same indices",
            "leave it a kernel of its own",
        )
    whole = [constant(size) or 0 for size in sums.shape]
    lengths = [constant(iterator.dom.extent) or 0 for iterator in node.iter_vars]
    if whole == lengths:
        return
    if min(whole) < 1 or min(lengths) < 1:
        raise TransformError(f"block '{name}' has symbolic sizes", "give constant sizes")
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
    old, (copy,) = node.writes[0].source, (sch.get(each) for each in sch.get_consumers(consumer))
    tile = decl_buffer(whole, old.dtype, str(old.name), scope=str(old.scope()))
    ends = {
        index: LT(index, IntImm("int32", length))
        for index, length, size in zip(own, lengths, whole, strict=True)
        if size > length
    }

    # A block that computes a whole tile; what it reads beside the sums is 0 outside of `ends`.
    def guard(load: Any) -> Any:
        used = [index for index in ends if any(is_used(index, it) for it in load.indices)]
        if load.source.same_as(sums) or not used:
            return load
        inside = functools.reduce(And, (ends[index] for index in used))
        return choose(inside, load, const(0, load.ty.dtype))

    def read_tile(load: Any) -> Any:
        return BufferLoad(tile, load.indices)

    made = {
        node: replace_fields(
            node,
            iter_vars=[
                IterVar(Range.from_min_extent(0, size), it.var, it.iter_type)
                for it, size in zip(node.iter_vars, whole, strict=True)
            ],
            writes=[BufferRegion(tile, region.region) for region in node.writes],
            body=BufferStore(tile, structural_map(body.value, (TensorLoad, guard)), body.indices),
        ),
        copy: replace_fields(
            copy,
            reads=[BufferRegion(tile, region.region) for region in copy.reads],
            body=structural_map(copy.body, (TensorLoad, read_tile)),
        ),
    }
    sizes = dict(zip(loops, whole, strict=True))

    def lengthen(loop: Any) -> Any:
        if loop.loop_var not in sizes or len(find_all(loop, SBlock)) > 1:
            return loop
        return edit_loop(loop, extent=IntImm("int32", sizes[loop.loop_var]))

    who = "store_through_tiles"
    replace_blocks(sch, consumer, made, [tile], who=who, callbacks=[(For, lengthen)])


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
    """Store a result through a tile of its own type in shared memory, converted in registers.

    A consumer of the sums that converts them, adds a bias or crops a padded problem computes in the
    registers that hold the sums, on whole tiles; what it reads outside of a tensor is replaced by
    zeros. `tensorize_warpgroups` stores the tile in rows of 128, 64, 32 or 16 bytes whose chunks of
    16 bytes are permuted by the number of the row (`place_in_tile`), as the TMA reads it.

    rewrite: under `grid`: ``for k: C += ...``, ``D = f(C)`` -> ``(for k: C_local += ...);
        D_shared = f(C_local); for f_0: for f_1 in threadIdx.y: for f_2 in threadIdx.x: for f_3 in
        T.vectorized(vector): D[...] = D_shared[...]``
    consumes: the loops of the consumer
    returns: the block that stores into shared memory, for `tensorize_warpgroups`, and the one that
        writes from there, for `store_by_tma`
    requires: the loops of the grid and of the warpgroups that `tile_in_warpgroups` returned, bound
        to blockIdx.x and threadIdx.y, with nothing else in them yet; the number of `warps` or
        warpgroups, with `lanes` threads each; a vector of 16 bytes at most; a consumer that reads
        each of its sums at its own place, once
    """
    require_tile_loops(sch, block, grid, warp_loop, warps)
    epilogue = find_epilogue(sch, block)
    if epilogue is None:
        write = sch.cache_write(block, 0, SCOPE)
        store = sch.cache_write(block, 0, "local")
    else:
        store, write = epilogue, find_epilogue(sch, epilogue)
        if write is None:
            sch.cache_write(epilogue, 0, SCOPE)
        else:  # which takes what is computed of the sums where it belongs
            sch.set_scope(epilogue, 0, SCOPE)
        compute_whole_tiles(sch, block, store)
        (write,) = sch.get_consumers(store)
        sch.set_scope(block, 0, "local")
    size = sch.get(write).writes[0].source.dtype.itemsize
    if vector < 1 or CHUNK_BYTES % (vector * size):
        raise TransformError(
            f"vector={vector} elements of {size} bytes must fit into a chunk of {CHUNK_BYTES} "
            "bytes, the unit of the swizzle",
            f"use {CHUNK_BYTES // size} or a divisor of it",
        )
    sch.reverse_compute_at(store, warp_loop, preserve_unit_loops=True)
    sch.reverse_compute_at(write, grid, preserve_unit_loops=True)
    sch.annotate(store, TILE_STORE, 1)
    made = write_in_rows(sch, block, SharedStore(store, write), [None, warps, lanes, vector])
    set_pipeline(sch)
    return made


@transform
def store_by_tma(sch: Schedule, write: SBlockRV) -> None:
    """Store a tile from shared memory to the tensor by TMA.

    All threads end their stores with a fence of the asynchronous proxy and a barrier; one of them
    issues the copies, commits them as one group, and waits for it: before shared memory is used
    again, until it has been read; before the kernel ends, until everything is written. Elements
    outside of the tensor are not written.

    rewrite: ``D[...] = D_shared[...]`` -> ``fence.proxy.async; barrier; if elected:
        cp.async.bulk.tensor D, D_shared; commit_group; wait_group 0``, when the module is lowered
        by the pipeline "tirstep"
    consumes: nothing
    requires: a block that copies a whole tile from ``shared.dyn`` to global memory, as
        `store_through_tiles` and `tensorize_warpgroups` leave it, in its own type, with no other
        guard than the tensor's end, in a kernel of whole warps; a tensor that the TMA can address:
        a pitch of a multiple of 16 bytes, a tile of at most 256 elements along each dimension;
        compute capability 9.0
    """
    # The copies that write a tile, all threads and iterations together.
    block, name = sch.get(write), get_sblock_name(sch, write)
    store, ends = block.body, list[Any]()
    if isinstance(store, IfThenElse):
        store, ends = store.then_case, [*get_operands(store.condition, And)]
    if not isinstance(store, BufferStore) or not isinstance(store.value, TensorLoad):
        raise TransformError(
            f"block '{name}' does more than copy a tile in its own type",
            "convert, add and compute in registers first, with store_through_tiles",
        )
    realize, (own, places, analyzer) = get_realize(sch, write), find_own_places(sch, write)
    # Conditions of a block's own loops alone go beyond its tile, say; others may be no more than
    # that an iterator does not go beyond its domain.
    variables = [loop.loop_var for loop in own]
    conditions, strange = list[Any](), list[Any]()
    for part in get_operands(realize.predicate, And):
        if all(is_among(each, variables) for each in undefined_vars(part)):
            conditions.append(part)
        elif not isinstance(part, LT) or not any(
            constant(part.b) == constant(iterator.dom.extent)
            and constant(analyzer.simplify(part.a - value)) == 0
            for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        ):
            strange.append(part)
    at, shape = store.indices, store.buffer.shape
    strange += [part for part in ends if not is_end(part, at, shape, block.iter_vars)]
    if strange:
        raise TransformError(
            f"block '{name}' writes only where '{strange[0]}', and the TMA writes all that "
            "lies inside of the tensor",
            "guard it only by the tensor's end, or leave the copy to threads",
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
    target, tile = store.buffer, store.value.source
    if str(tile.scope()) != SCOPE or str(target.scope()) != "global":
        raise TransformError(
            f"block '{name}' copies '{tile.name}' of scope '{tile.scope()}' to scope "
            f"'{target.scope()}'",
            'store what lies in scope "shared.dyn" to global memory',
        )
    found = find_box(store.indices, extents, find_aligned(sch, write, own, extents))
    if found is None or max(found[1]) > 1:
        raise TransformError(
            f"block '{name}' writes '{target.name}' at {list(store.indices)}, and the TMA "
            "copies a dense rectangle",
            "place a plain copy there",
        )
    box, _, rows = found
    size = int(target.dtype.itemsize)
    slab = find_slabs(block, list(store.value.indices), rows, size * 8)
    if not slab:
        raise TransformError(
            f"block '{name}' reads a tile that does not lie in rows of swizzled chunks",
            "store it with store_through_tiles, and call tensorize_warpgroups first",
        )
    panels = -(-box[-1] * size // slab)
    box[-1] = slab // size
    shape = CopyShape(slab if slab > PITCH else 0, panels, tuple(box))
    require_addressable(target, shape, name)
    if len(points) < (whole := math.prod(extents[index] for index in rows)):
        raise TransformError(
            f"block '{name}' copies {len(points)} elements of a tile of {whole}",
            "let it copy the whole tile",
        )
    used = panels * math.prod(box) * size
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
    body, maps = function.body, list[Any]()
    for block in find_all(body, SBlock):
        if TMA_STORE in block.annotations:
            body = _lower_store(body, block, list(function.params), maps)
    return function.with_body(put_at_root(body, maps)) if maps else function


def _lower_store(body: Any, block: SBlock, parameters: list[Any], maps: list[Any]) -> Any:
    """A function's body with a bulk store in the place of a copy; `maps` get the host's part."""
    path = [body]  # the statements around the block, outermost first, and itself
    while not path[-1].same_as(block):
        children = get_children(path[-1])
        path.append(next(it for it in children if is_among(block, find_all(it, SBlock))))
    # The store takes the place of what stands in the innermost sequence.
    place = 1 + max((at for at, it in enumerate(path) if isinstance(it, SeqStmt)), default=-1)
    nests = [at for at, it in enumerate(path) if isinstance(it, For)]
    bound = [at for at in nests if get_axis(path[at])]
    threads = find_threads(body, path[nests[-1]]) if nests else []
    marks = [it for it in path if isinstance(it, AttrStmt)]
    if not threads:
        return body
    inner = [path[at].loop_var for at in nests if at >= place]
    (store,) = find_all(block, BufferStore)
    target, tile = store.buffer, store.value.source
    form = CopyShape.of_list(block.annotations[TMA_STORE])
    *_, slabs, rows, chunks, width = (constant(size) or 1 for size in tile.shape)
    if form.panels > slabs or math.prod(form.box[:-1]) > rows or form.box[-1] != chunks * width:
        raise TransformError(
            f"'{tile.name}' of shape {list(tile.shape)} does not hold {form.panels} boxes of "
            f"{form.box}, which block '{block.name_hint}' copies",
            "lower the module as store_by_tma left it",
        )
    first = [*inner, *(axis for axis, _ in threads)]  # the tile begins where these are 0
    copied = find_tile(target, tile, store.indices, form, first)
    variable = Var(f"tensor_map_{len(maps) // 2}_of_{target.name}", T.handle("tensormap").ty)
    maps += make_tensor_map(variable, copied)

    # Whether the kernel ends behind it: no loop comes back to it, and nothing follows.
    pairs = zip(path[bound[0] : place], path[bound[0] + 1 : place + 1], strict=True)
    follows = any(
        not outer.seq[-1].same_as(it) for outer, it in pairs if isinstance(outer, SeqStmt)
    )
    is_last = not follows and not any(at < place and at not in bound for at in nests)
    # Whether the tile has its memory all the time: outside of the one loop that comes back to the
    # store. Then threads need not wait before they store to it again.
    back = [at for at in nests if at < place - 1 and at not in bound]
    outside = [it for it in path[: back[0]] if isinstance(it, SBlock)] if back else []
    is_lasting = len(back) == 1 and any(is_among(tile, it.alloc_buffers) for it in outside)
    waits_late = is_lasting and not is_last
    staged, slots = tile, 0
    if waits_late:
        slots = count_slots(tile, sum(map(count_bytes, list_allocated(path[bound[0]]))))
    if slots:
        shape = [*tile.shape[:SLAB], slots, *tile.shape[SLAB + 1 :]]
        staged = decl_buffer(shape, tile.dtype, str(tile.name), scope=SCOPE)

    chain = T.ptx[f"cp.async.bulk.tensor.{len(target.shape)}d.global.shared::cta.tile.bulk_group"]
    size = math.prod(constant(it) or 1 for it in staged.shape[SLAB + 1 :])
    commit, copies = Evaluate(T.ptx["cp.async.bulk.commit_group"]()), list[Any]()
    for panel in range(copied.shape.panels):
        offset = (panel % slots if slots else panel) * size
        pointer, start = (
            staged.access_ptr(READ, offset=offset, extent=size),
            copied.get_start(panel),
        )
        copies.append(Evaluate(chain(T.address_of(variable), *reversed(start), pointer)))
    # What all threads do so that bulk copies of any of them see what they stored.
    made, visible = list[Any](), [make_proxy_fence(), make_barrier()]
    if not slots:
        wait = [] if waits_late else [_wait_for_stores("" if is_last else ".read")]
        made = [*visible, if_elected(threads, [*copies, commit, *wait])]
    if slots or not is_among(target, parameters):
        # StorageRewrite would otherwise give its memory away.
        made.append(Evaluate(target.access_ptr(_WRITE)))
    if not (is_last or waits_late):  # threads wait until the tile may be stored to again
        made.append(make_barrier())
    lowered = stmt_seq(*made)
    if waits_late:
        # Before threads store to the tile again they wait until it has been read: in front of the
        # innermost statement that does all of that, and once.
        place, loop = back[0], exchange(path[back[0]], path[place], lowered)
        outer, first = None, loop.body
        statement = first
        while True:
            if isinstance(statement, SeqStmt):
                outer = statement
                first = statement = next(it for it in outer.seq if _stores_to(it, tile))
            elif isinstance(statement, SBlockRealize):
                statement = statement.block.body
            elif isinstance(statement, AttrStmt) or (
                isinstance(statement, For) and constant(statement.extent) == 1
            ):
                statement = statement.body
            else:
                break
        again = [if_elected(threads, [_wait_for_stores(".read")]), make_barrier(), first]
        if slots:  # slab after slab is stored and copied, when its slot has been read
            computes = [it.value for it in marks if it.attr_key == COMPUTES] or [const(True)]
            stores = _cut_in_slabs(first, tile, staged, threads, computes[0])
            again = []
            for store, copy in zip(stores, copies, strict=True):
                wait = [_wait_for_stores(".read", slots - 1)]
                again += [if_elected(threads, wait), make_barrier(), store]
                again += [*visible, if_elected(threads, [copy, commit])]
        if outer is not None:
            each = ([*again] if it.same_as(first) else [it] for it in outer.seq)
            again = [exchange(loop.body, outer, SeqStmt([*itertools.chain(*each)]))]
        lowered = edit_loop(loop, body=stmt_seq(*again))
    kernel = exchange(path[bound[-1]], path[place], lowered)
    if slots:  # which the kernel allocates in the place of the tile

        def rewrite(block: Any) -> Any:
            kept = [staged if it.same_as(tile) else it for it in block.alloc_buffers]
            return replace_fields(block, alloc_buffers=kept) if kept else block

        def cover(region: Any) -> Any:
            return cover_all(staged) if region.source.same_as(tile) else region

        def name(call: Any) -> Any:  # what keeps a tile's memory its own
            return staged.access_ptr(int(call.args[4])) if points_into(call, tile) else call

        kernel = structural_map(kernel, [(SBlock, rewrite), (TensorRegion, cover), (Call, name)])
    if not is_last:
        end = if_elected(threads, [_wait_for_stores("")])
        kernel = edit_loop(kernel, body=SeqStmt([kernel.body, end]))
    return exchange(body, path[bound[-1]], kernel)


def _wait_for_stores(modifier: str, in_flight: int = 0) -> Evaluate:
    """Wait for bulk stores of a thread, or (".read") until they have read shared memory."""
    return Evaluate(T.ptx[f"cp.async.bulk.wait_group{modifier}"](in_flight))


def _stores_to(statement: Any, buffer: Any) -> bool:
    """Whether threads store to a buffer, or an instruction of theirs does."""
    if any(store.buffer.same_as(buffer) for store in find_all(statement, BufferStore)):
        return True
    pointers = (call for call in find_all(statement, Call) if points_into(call, buffer))
    return any(int(call.args[4]) & _WRITE for call in pointers)


def _cut_in_slabs(
    statement: Any, tile: Any, made: Any, threads: list[tuple[Any, int]], condition: Any
) -> list[Any]:
    """Statements that store a tile's slabs, one after the other, each to its slot.

    Of `threads` those store that a condition says. Loops over the pieces of a store are unrolled.
    """
    loops, statement = open_loops(statement)
    size = math.prod(constant(it) or 1 for it in tile.shape[SLAB + 1 :])
    _, analyzer = number_threads(threads)

    def cover(_: Any) -> Any:
        return cover_all(made).region

    slabs: list[list[Any]] = [[] for _ in range(constant(tile.shape[SLAB]) or 1)]
    for place in itertools.product(*(range(constant(loop.extent) or 1) for loop in loops)):
        values = {loop.loop_var: IntImm("int32", at) for loop, at in zip(loops, place, strict=True)}
        piece = substitute(statement, values)
        # The one slab that a piece of a store is stored to.
        stores = [
            it.indices[SLAB] for it in find_all(piece, BufferStore) if it.buffer.same_as(tile)
        ]
        pointers = [
            FloorDiv(it.args[2], size) for it in find_all(piece, Call) if points_into(it, tile)
        ]
        with analyzer.constraint_scope(condition):
            found = {constant(analyzer.simplify(each)) for each in (*stores, *pointers)}
        if len(found) != 1 or None in found:
            raise TransformError(
                f"'{tile.name}' is not stored slab by slab, and there is no room for all of it",
                "use fewer stages, or smaller tiles",
            )
        slab = int(found.pop() or 0)
        slot = slab % (constant(made.shape[SLAB]) or 1)

        def index(indices: Any, slot: int = slot) -> list[Any]:
            return [*indices[:SLAB], slot, *indices[SLAB + 1 :]]

        offset = (slot - slab) * size
        slabs[slab].append(redirect(piece, tile, made, index=index, cover=cover, offset=offset))
    return [stmt_seq(*pieces) for pieces in slabs]
