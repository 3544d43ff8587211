"""Tiles copied by the Tensor Memory Accelerator (TMA), into stages that mbarriers guard.

A transform only annotates a loop: the module means what it did, and any pipeline lowers it to that.
`Pipeline` has the pieces of what becomes of it: tensor maps, stages, mbarriers, copies and waits,
which the pass of `warp_roles` puts together.

Instructions from the PTX ISA, sections "mbarrier" and "Data Movement and Conversion Instructions:
cp.async.bulk.tensor". Pointers into the tiles and mbarriers are declared to be read only: TVM's
ThreadSync would otherwise put barriers around the accesses, which the mbarriers order. All that are
needed stand here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm.ir import Call, Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.script import tirx as T
from tvm.sym import Analyzer
from tvm.tirx import (
    LT,
    And,
    Bind,
    BufferStore,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Select,
    SeqStmt,
    Var,
    decl_buffer,
    stmt_seq,
)
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from ..annotations import ALIGNMENT, SWIZZLE, TMA_IN_FLIGHT
from ..gpu_limits import MAX_SHARED_BYTES, MAX_THREADS, REGISTERS, WARP, count_registers
from ..loops import require_constant
from ..pass_options import set_pipeline
from ..passes.barriers import is_barrier, is_proxy_fence
from ..pipelining import require_copies, require_pipeline
from ..queries import (
    get_enclosing_kernel,
    get_enclosing_loops,
    get_loop_name,
    get_own_loops,
    get_realize,
    get_sblock_name,
)
from ..schedule import TransformError, transform
from ..tensor_cores.fragments import SCOPE
from ..tir import (
    bind_ranges,
    constant,
    find_all,
    get_axis,
    get_loops_around,
    get_operands,
    is_among,
    is_choice,
    is_end,
    list_threads,
    number_threads,
    substitute,
)
from .tma_tiles import (
    ATOM,
    PITCH,
    SWIZZLES,
    TMA_COPY,
    TMA_OVERLAP,
    TMA_PERSISTENT,
    TMA_PREFIX,
    TMA_ROLES,
    TMA_STAGES,
    CopyShape,
    TmaTile,
    find_box,
    find_slabs,
    find_tile,
    redirect,
    require_addressable,
)


@transform
def prefetch_by_tma(
    sch: Schedule,
    loop: LoopRV,
    copies: Sequence[SBlockRV],
    *,
    stages: int = 3,
    in_flight: int = 0,
) -> None:
    """Prefetch the next tiles by TMA, into stages with an mbarrier each.

    One thread issues the copies of `stages - 1` tiles before the loop, and of one more tile in each
    iteration, as soon as all threads have finished with its stage. All threads wait for the
    mbarrier of their stage, whose parity changes with each round through the stages. Elements
    outside of the tensor arrive as zeros. If `in_flight` groups of wgmma may still be reading tiles
    of previous iterations, that many stages are left to them, and that many fewer tiles are copied
    ahead.

    rewrite: ``for k: A_shared = A[k]; compute(k)`` -> ``for k: wait for mbarrier[k % stages];
        barrier; cp.async.bulk.tensor A[k + stages - 1]; compute(k)``, when the module is lowered
        by the pipeline "tirstep"
    consumes: nothing
    requires: a loop as for `prefetch_asynchronously`, within a kernel whose threads are whole
        warps; `copies` of a rectangle each, with any loops and threads, as made by
        `stage_fragments_at`, `stage_operand_at` and (rows that are not transposed)
        `stage_swizzled_at`, without predicates; stages from 2 + `in_flight` to the iterations of
        the loop, as far as shared memory suffices; a tensor that the TMA can address: a pitch of a
        multiple of 16 bytes, a tile of at most 256 elements along each dimension, rows of the
        length of the swizzle; compute capability 9.0
    """
    parts = require_pipeline(sch, loop)
    require_copies(sch, loop, copies, parts, takes_more=True)
    if constant(sch.get(loop).min) != 0:
        raise TransformError(f"loop '{get_loop_name(sch, loop)}' does not begin at 0", "let it")
    extent = require_constant(sch, loop)
    if in_flight < 0:
        raise TransformError(f"in_flight={in_flight} is not a number of groups", "use 0 or more")
    least = 2 + in_flight
    if not least <= stages <= extent:
        raise TransformError(
            f"stages={stages} does not fit loop '{get_loop_name(sch, loop)}' of {extent} "
            f"iterations{f' with {in_flight} groups in flight' if in_flight else ''}",
            f"use {least} to {extent}" if extent > least else f"use {least}",
        )
    shapes = [measure_copy(sch, copy) for copy in copies]
    used = stages * sum(
        shape.panels * math.prod(shape.box) * sch.get(copy).writes[0].source.dtype.itemsize
        for copy, shape in zip(copies, shapes, strict=True)
    )
    most = MAX_SHARED_BYTES[SCOPE] - ATOM  # which the mbarriers take
    if used > most:
        raise TransformError(
            f"{stages} stages of these tiles take {used >> 10} KiB of shared memory, and a block "
            f"has {most >> 10} KiB at most",
            "use fewer stages, or smaller tiles",
        )
    # One lane of a warp is elected, which takes a whole warp.
    threads = math.prod(get_thread_extents(sch, loop))
    if threads % WARP:
        raise TransformError(
            f"the kernel around loop '{get_loop_name(sch, loop)}' has {threads} threads",
            f"use a multiple of {WARP}, whose first warp issues the copies",
        )
    for copy, shape in zip(copies, shapes, strict=True):
        sch.annotate(copy, TMA_COPY, shape.to_list())
    sch.annotate(loop, TMA_STAGES, stages)
    if in_flight:
        sch.annotate(loop, TMA_IN_FLIGHT, in_flight)
    set_pipeline(sch)


@transform
def specialize_warps(
    sch: Schedule, loop: LoopRV, *, registers: Sequence[int] | None = None
) -> None:
    """Specialize warps in a pipeline of `prefetch_by_tma`: one issues copies, the others compute.

    The thread block grows by one warp, or by one row along threadIdx.x where that is longer. The
    added warp waits for a stage to be empty, at an mbarrier where each computing warp arrives, and
    fills it; no barrier of all threads is left in the loop. With `registers` (per thread that
    copies, and per thread that computes) the block grows by a warpgroup of four warps instead,
    which gives registers to the others (setmaxnreg), and gets them back after the loop.

    rewrite: ``for k: wait for mbarrier[k % stages]; barrier; copy A[k + stages - 1]; compute`` ->
        ``if computing: for k: wait for full[k % stages]; compute; arrive at empty[k % stages]
        else: for k: wait for empty[k % stages]; copy A[k]``, when the module is lowered
    consumes: nothing
    requires: a loop that `prefetch_by_tma` annotated, with nothing but thread-bound loops around
        it; threadIdx.x of a divisor or a multiple of 32, or no other thread axis; 1024 threads at
        most with those that are added; with `registers` multiples of 8 from 24 to 256 that add up
        to the registers with which all threads start, and computing threads in whole warpgroups
    """
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if TMA_STAGES not in node.annotations or TMA_ROLES in node.annotations:
        raise TransformError(
            f"loop '{name}' is not a pipeline of bulk copies, or is warp-specialized already",
            "call prefetch_by_tma first, and specialize_warps once",
        )
    serial = [each for each in get_enclosing_loops(sch, loop) if get_axis(each) is None]
    if serial:
        raise TransformError(
            f"loop '{serial[-1].loop_var.name}' around loop '{name}' is not bound",
            "specialize warps only where the loop over tiles is the kernel's outermost one",
        )
    extents = get_thread_extents(sch, loop)
    threads, row = math.prod(extents), math.prod(extents[:-1])
    added = (WARP if WARP % row == 0 else row) if registers is None else 4 * WARP
    if added % row or added % WARP or threads + added > MAX_THREADS:
        raise TransformError(
            f"the kernel has {threads} threads, of {extents} along x, y and z, and {added} "
            "more cannot be added along the last axis",
            f"bind threadIdx.x to {WARP} or 4 times that, and use {MAX_THREADS - added} threads at "
            "most",
        )
    counts, total = list(registers or (0, 0)), threads + added
    if registers is not None:  # which move from a warpgroup that copies to threads that compute
        if len(counts) != 2 or any(count % 8 or not 24 <= count <= 256 for count in counts):
            raise TransformError(
                f"registers={counts} are not counts that setmaxnreg takes",
                "give two multiples of 8 from 24 to 256: for a producer's thread and for a "
                "consumer's",
            )
        used = added * counts[0] + threads * counts[1]
        if threads % added or used > REGISTERS:
            raise TransformError(
                f"{threads} threads with {counts[1]} registers and {added} with {counts[0]} are "
                f"not whole warpgroups in the {REGISTERS} registers of a multiprocessor",
                "let a multiple of 128 threads compute, with fewer registers",
            )
        first = count_registers(total)
        if not counts[0] <= first <= counts[1] or used > total * first:
            raise TransformError(
                f"{total} threads begin with {first} registers each, and registers={counts} must "
                f"share out these {total * first}: fewer for producers, more for consumers",
                "give producers at most as many, and consumers what that leaves",
            )
    sch.annotate(loop, TMA_ROLES, [added, *counts])


def measure_copy(sch: Schedule, copy: SBlockRV) -> CopyShape:
    """How the TMA copies what a block does; raises `TransformError` where it cannot."""
    block, name = sch.get(copy), get_sblock_name(sch, copy)
    if constant(get_realize(sch, copy).predicate) != 1:
        raise TransformError(
            f"block '{name}' copies only a part of its tile, under a predicate",
            "choose threads and vectors that divide the tile",
        )
    if not isinstance(block.body, BufferStore):
        raise TransformError(f"block '{name}' is more than one store", "place a plain copy")
    if ALIGNMENT in block.annotations:
        raise TransformError(
            f"block '{name}' writes rows with padding in between, and the TMA writes them "
            "without gaps",
            "leave the rows without padding, and exchange their chunks where banks conflict",
        )
    store, load, conditions = block.body, block.body.value, list[Any]()
    if is_choice(load) and getattr(load.args[2], "value", None) == 0:
        conditions, load = list(get_operands(load.args[0], And)), load.args[1]
    if not isinstance(load, TensorLoad) or str(load.source.scope()) != "global":
        raise TransformError(
            f"block '{name}' does more than copy from global memory, with zeros outside of "
            "the tensor",
            "convert or compute after the copy",
        )
    # Zeros must stand exactly outside of the tensor, where the TMA puts them.
    for condition in conditions:
        if not is_end(condition, load.indices, load.source.shape, block.iter_vars):
            raise TransformError(
                f"block '{name}' stores zeros where not '{condition}', and the TMA stores zeros "
                "only outside of the tensor",
                "pad with zeros outside of the tensor only, or fetch by threads",
            )
    own, places, analyzer = find_own_places(sch, copy)
    extents = {it: int(analyzer.const_int_bound(at).max_value) + 1 for it, at in places.items()}
    found = find_box(load.indices, extents, find_aligned(sch, copy, own, extents))
    if found is None:
        raise TransformError(
            f"block '{name}' loads '{load.source.name}' at {list(load.indices)}, and the TMA "
            "copies a dense rectangle",
            "place a plain copy there",
        )
    box, strides, rows = found
    size = int(load.source.dtype.itemsize)
    length = extents.get(rows[-1], 1) if rows else 1
    slab = find_slabs(block, list(store.indices), rows, size * 8, length)
    stored = list(store.indices)[-len(rows) :]
    is_in_order = len(stored) == len(rows) and all(
        one.same_as(it) for one, it in zip(stored, rows, strict=True)
    )
    if not (slab or is_in_order):
        raise TransformError(
            f"block '{name}' stores its tile in another order than it loads it, and the TMA copies "
            "rows as rows",
            "copy it without transposing, and read it transposed",
        )
    if math.prod(constant(loop.extent) or 0 for loop in own) != math.prod(box):
        raise TransformError(
            f"block '{name}' does not copy each element of its tile once",
            "place a plain copy, or one that stage_fragments_at makes",
        )
    panels = -(-box[-1] * size // slab) if slab else 1  # the last of which may copy more
    box[-1] = min(box[-1], slab // size) if slab else box[-1]
    swizzle = box[-1] * size if SWIZZLE in block.annotations or slab > PITCH else 0
    shape = CopyShape(swizzle, panels, tuple(box), tuple(strides) if max(strides) > 1 else ())
    require_addressable(load.source, shape, name)
    row = shape.box[-1] * size
    if row % PITCH:
        raise TransformError(
            f"the tile of block '{name}' has rows of {row} bytes, and the TMA copies multiples of "
            f"{PITCH}",
            "use a longer tile",
        )
    if shape.swizzle and shape.swizzle not in SWIZZLES:
        raise TransformError(
            f"the tile of block '{name}' has rows of {row} bytes, and the TMA swizzles rows of "
            f"{' or '.join(map(str, SWIZZLES))}",
            'use a tile of shorter rows, or layout="rows"',
        )
    if math.prod(shape.box) * size % ATOM:
        raise TransformError(
            f"block '{name}' copies {math.prod(shape.box) * size} bytes at once, and "
            f"addresses in shared memory must be multiples of {ATOM}",
            "use a larger tile",
        )
    return shape


@transform
def copy_once_by_tma(sch: Schedule, loop: LoopRV, copy: SBlockRV) -> None:
    """Let a pipeline's producer warps copy a tile that all iterations read, once, before the loop.

    An mbarrier says when the tile has arrived. With persistent CTAs another mbarrier says that it
    has been read, and the copy for the next tile runs while this tile's results are stored.

    rewrite: ``Q_shared = Q[i]; for k: wait for full[k % stages]; compute`` -> ``wait for Q_shared;
        for k: …`` and, of the warps that copy, ``copy K[0]; copy Q[i]; copy K[1] …``, when the
        module is lowered
    consumes: nothing
    requires: a loop that `specialize_warps` has specialized, in a kernel that is not persistent
        yet; a `copy` in front of it, in the same kernel, under threads and loops of its own;
        otherwise what `prefetch_by_tma` requires of a copy
    """
    node, block, name = sch.get(loop), sch.get(copy), get_sblock_name(sch, copy)
    if TMA_ROLES not in node.annotations or TMA_PERSISTENT in node.annotations:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' is not a warp-specialized pipeline, or is "
            "persistent already",
            "call specialize_warps first, and make_persistent after this",
        )
    parts = _list_parts(get_enclosing_loops(sch, loop)[-1].body)
    place = next(at for at, part in enumerate(parts) if part.same_as(node))
    if not any(it.same_as(block) for part in parts[:place] for it in find_all(part, SBlock)):
        raise TransformError(
            f"block '{name}' does not come before loop '{get_loop_name(sch, loop)}'",
            "stage its tile at the loop around the pipeline, with comes_first=True",
        )
    require_one_pipeline(sch, loop, "let threads copy the tile")
    sch.annotate(copy, TMA_COPY, measure_copy(sch, copy).to_list())


def require_one_pipeline(sch: Schedule, loop: LoopRV, advice: str) -> None:
    """Refuse a loop in whose kernel there is another pipeline of bulk copies."""
    loops = find_all(get_enclosing_kernel(sch, loop), For)
    if sum(TMA_STAGES in it.annotations for it in loops) > 1:
        name = get_loop_name(sch, loop)
        raise TransformError(
            f"the kernel of loop '{name}' has another pipeline of bulk copies", advice
        )


def get_thread_extents(sch: Schedule, loop: LoopRV) -> list[int]:
    """The extents of the kernel's thread axes, x first; without those that it does not have."""
    loops = find_all(get_enclosing_kernel(sch, loop), For)
    return [constant(each.extent) or 1 for each in list_threads(loops)]


def find_own_places(sch: Schedule, block: SBlockRV) -> tuple[list[For], dict[Var, Any], Analyzer]:
    """A block's own loops, where its iterators are in them from their first iterations on, and an
    analyzer that knows their ranges.
    """
    realize, own = get_realize(sch, block), [sch.get(loop) for loop in get_own_loops(sch, block)]
    analyzer, first = bind_ranges(own), {loop.loop_var: loop.min for loop in own}
    places = {
        iterator.var: analyzer.simplify(value - substitute(value, first))
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
    return own, places, analyzer


def find_aligned(
    sch: Schedule, block: SBlockRV, own: Sequence[For], extents: dict[Any, int]
) -> list[Any]:
    """The iterators of a block, with loops of its own, whose tiles begin at multiples of their
    extents.
    """
    realize, first = get_realize(sch, block), {loop.loop_var: loop.min for loop in own}
    analyzer = bind_ranges(map(sch.get, sch.get_loops(block)))
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return [
        it.var
        for it, value in pairs
        if analyzer.can_prove_equal(substitute(value, first) % extents[it.var], 0)
    ]


READ = 1
"""The mask of a pointer that reads."""
ENCODES = "encode_matrix_descriptor"
"""What a call of TVM's ends in that describes a tile to wgmma."""
_LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes"
ROOM = 128
"""Places of 8 bytes for mbarriers: 1024 bytes, so that tiles beside them begin at multiples of
that."""


class Pipeline:
    """A loop in the body of a function, annotated by `prefetch_by_tma`, whose tiles the TMA copies.

    Where `make_persistent` annotated it, too, thread blocks go through the tiles of a grid in
    rounds, as the persistent kernels of NVIDIA's CUTLASS 3 do.

    Attributes
    ----------
    threads : as `find_threads`
    parameters : of the function
    axes : the variables and extents of the grid, that of blockIdx.x first; none for one tile
    stays : how many thread blocks there are, no more than tiles; along the first axis
    round_, steps : the variable of the loop over a block's tiles, and the steps of the pipeline for
        a tile, an expression of its place where a mask ends the loop
    counters : a register that counts steps of earlier tiles; none where each has as many
    block : that allocates the tiles, around the loop's body
    tiles : of the copies, with buffers of one stage
    once, fetches : the tiles that all iterations read, and the statements that copy them by threads
    groups : the numbers of tiles that arrive and are released together: all of them, but where
        products overlap those of the first product apart, which is done with them earlier
    rest : what the loop computes
    others : the buffers that the loop's body allocates beside the tiles
    producers, registers : threads of warps with roles that copy, and registers of a thread of
        theirs and of the others
    warps : that compute
    staged : the buffers of all stages, in dynamic memory: CUDA aligns static ones to 64 bytes only
    notes : what others say of the loop
    """

    def __init__(
        self,
        loop: For,
        body: Any,
        threads: list[tuple[Any, int]],
        parameters: list[Any],
        first_map: int,
    ) -> None:
        block = loop.body.block if isinstance(loop.body, SBlockRealize) else None
        parts = list(block.body.seq) if block and isinstance(block.body, SeqStmt) else []
        copies = [part for part in parts if _find_copies(part)]
        if block is None or not copies or parts[: len(copies)] != copies:
            raise TransformError(
                f"loop '{loop.loop_var.name}' does not begin with copies into buffers of its own",
                "lower the module as prefetch_by_tma left it",
            )
        self.loop, self.threads, self.parameters, self.block = loop, threads, parameters, block
        self.rest, notes = parts[len(copies) :], loop.annotations
        self.stages = int(notes[TMA_STAGES])
        self.in_flight = int(notes.get(TMA_IN_FLIGHT, 0))
        self.overlaps = TMA_OVERLAP in notes
        self.producers, *self.registers = map(int, notes.get(TMA_ROLES, (0, 0, 0)))
        self.warps = math.prod(count for _, count in threads) // WARP
        self.tiles = [self._read(copy) for copy in copies]
        kernel = get_loops_around(loop, find_all(body, For))[-1].body
        others = [it for it in _list_parts(kernel) if loop not in find_all(it, For)]
        self.fetches = [it for it in others if _find_copies(it)]
        self.once = [self._read(copy) for copy in self.fetches]
        targets = [tile.target for tile in self.tiles]
        self.groups = [list(range(len(targets)))]
        if self.overlaps:
            used = [it.source for block in find_all(self.rest[0], SBlock) for it in block.reads]
            first = [at for at in self.groups[0] if is_among(targets[at], used)]
            self.groups = [first, [at for at in self.groups[0] if at not in first]]
        self.others = [it for it in block.alloc_buffers if not is_among(it, targets)]
        self.staged = [
            decl_buffer((self.stages, *it.shape), it.dtype, str(it.name), scope=SCOPE)
            for it in targets
        ]
        self.barriers = decl_buffer((ROOM,), "uint64", "tma_barriers", scope=SCOPE)
        numbers = range(first_map, first_map + len(targets) + len(self.once))
        self.maps = [Var(f"tensor_map_{at}", T.handle("tensormap").ty) for at in numbers]
        self.notes = {key: it for key, it in notes.items() if not str(key).startswith(TMA_PREFIX)}
        self.axes, self.counters = list[tuple[Any, int]](), list[Any]()
        if TMA_PERSISTENT not in notes or TMA_ROLES not in notes:
            return
        around = {
            axis: outer
            for outer in get_loops_around(loop, find_all(body, For))
            if (axis := get_axis(outer) or "").startswith("blockIdx")
        }
        axes = [(around[axis].loop_var, constant(around[axis].extent)) for axis in sorted(around)]
        self.axes = [(variable, extent) for variable, extent in axes if extent is not None]
        if not self.axes or len(self.axes) < len(axes):
            raise TransformError(
                f"loop '{loop.loop_var.name}' has an unknown number of tiles around it",
                "lower the module as make_persistent left it",
            )
        self.round_, self.steps = Var("round", loop.loop_var.ty), constant(loop.extent)
        if self.steps is None:
            self.steps = loop.extent
            self.counters = [decl_buffer((1,), "int32", "tma_steps", scope="local")]
        self.grid = math.prod(extent for _, extent in self.axes)
        self.stays = min(int(notes[TMA_PERSISTENT]), self.grid)

    def _read(self, copy: Any) -> TmaTile:
        """The tile of a copy, under loops of its own and over threads."""
        block = _find_copies(copy)[0]
        store = find_all(block.body, BufferStore)[0]
        inner = [*(it.loop_var for it in find_all(copy, For)), *(axis for axis, _ in self.threads)]
        load = store.value.args[1] if is_choice(store.value) else store.value
        shape = CopyShape.of_list(block.annotations[TMA_COPY])
        tile = find_tile(load.source, store.buffer, load.indices, shape, inner)
        whole = math.prod(constant(extent) or 1 for extent in store.buffer.shape)
        if tile.bytes != whole * tile.target.dtype.itemsize:
            raise TransformError(
                f"'{tile.target.name}' has {whole} elements, and block '{block.name_hint}' copies "
                f"{tile.bytes} bytes",
                "lower the module as prefetch_by_tma left it",
            )
        return tile

    def lower(self) -> Any:
        """The pipeline in which all threads wait and compute, and one of them copies."""
        ahead, step = self.stages - 1 - self.in_flight, self.loop.loop_var
        # A loop that ends at a mask has another number of iterations in each block.
        extent, first = self.loop.extent, list[Any]()
        count = constant(extent)
        for at in range(ahead if count is None else min(ahead, count)):
            copy = self.copy(at)
            is_there = LT(IntImm("int32", at), extent)
            first.append(IfThenElse(is_there, copy, None) if count is None else copy)
        computed = self.compute()
        copy = if_elected(self.threads, [self.copy(step + ahead)])
        following = IfThenElse(LT(step + ahead, extent), copy, None)
        fence = self.fence_loads(computed)
        body = [
            *self.initialize([1] * self.stages),
            if_elected(self.threads, first),
            self.loop_over([self.wait_for_tile(), make_barrier(), following, *computed, *fence]),
            *self.wait_for_groups(),
            *self.invalidate(self.stages),
        ]
        return self.allocate(SeqStmt(body))

    def allocate(self, body: Any, others: Sequence[Any] = ()) -> SBlockRealize:
        """A statement in which there are the stages and the mbarriers, and other buffers.

        It names the intermediate tensors that copies read by their tensor maps: TVM's
        StorageRewrite would otherwise give their memory to what the kernel writes. So it does with
        others in shared memory, for which TVM would find room in stages that are used later on in
        the text, and at the same time.
        """
        sources = [tile.source for tile in self.tiles]
        made = [source for source in sources if not is_among(source, self.parameters)]
        made += [buffer for buffer in others if str(buffer.scope()).startswith("shared")]
        body = stmt_seq(body, *(Evaluate(buffer.access_ptr(READ)) for buffer in made))
        own = self.others if self.overlaps else []
        buffers = [*self.staged, self.barriers, *others, *own]
        return SBlockRealize([], True, SBlock([], [], [], "", body, alloc_buffers=buffers))

    def initialize(self, counts: list[int]) -> list[Any]:
        """Make mbarriers, each for a number of arrivals."""
        init, fence = T.ptx.mbarrier.init.shared.b64, T.ptx["fence.mbarrier_init.release.cluster"]
        inits = [Evaluate(init(self.point_to(at), count)) for at, count in enumerate(counts)]
        made = if_elected(self.threads, [*inits, Evaluate(fence())])
        return [*self._fence_stores(), made, make_barrier()]

    def fence_others(self) -> list[Any]:
        """In front of the loop, once more for each tile of a thread block, as `initialize`."""
        fence = self._fence_stores()
        return [*fence, make_barrier()] if fence else []

    def _fence_stores(self) -> list[Any]:
        """A fence behind what threads stored before the loop, where wgmma reads that; or nothing.

        The fences in the loop would order that, and are dropped with those of its tiles.
        """
        own = [tile.target.data for tile in (*self.tiles, *self.once)]
        pointers = [
            call.args[1]
            for part in self.rest
            for call in find_all(part, Call)
            if get_op_name(call).endswith(ENCODES)
        ]
        reads = any(
            not any(tvm_ffi.structural_equal(pointer.args[1], data) for data in own)
            for pointer in pointers
        )
        return [make_proxy_fence()] if reads else []

    def invalidate(self, count: int) -> list[Any]:
        """The place of the mbarriers may become another buffer's, or theirs again."""
        invalidate = T.ptx["mbarrier.inval.shared.b64"]
        calls = [Evaluate(invalidate(self.point_to(at))) for at in range(count)]
        return [make_barrier(), if_elected(self.threads, calls)]

    def count(self, step: Any) -> Any:
        """The number of an iteration among those of all tiles of a thread block."""
        if not self.axes:
            return step
        return (self.counters[0][0] if self.counters else self.round_ * self.steps) + step

    def end_tile(self) -> list[Any]:
        """Behind a tile's steps, in each role."""
        return [BufferStore(it, it[0] + self.steps, [0]) for it in self.counters]

    def loop_over_tiles(self, body: Any, name: str) -> Any:
        """The loop over a block's tiles, in which its own tile is the one of the round.

        Its extent says which block has a tile less: barriers may stand in a loop, and under no
        condition. Where each block has one tile, there is no loop. Where tiles take different
        times, long and short ones lie in the order of the grid: every other round goes back, so
        that no block has all of the long ones.
        """
        if not self.axes:
            return body
        variable, block = Var(name, self.round_.ty), self.axes[0][0]
        whole, rest = divmod(self.grid, self.stays)
        place, last = block, block  # among the tiles of a round, and of the last one
        if self.counters:
            back = self.stays - 1 - block
            place = Select(FloorMod(variable, 2).equal(1), back, block)
            last = back if whole % 2 else block
        extent = IntImm("int32", whole)
        if rest:
            extent = FloorDiv(self.grid - 1 - last, self.stays) + 1
        left, places = variable * self.stays + place, {}
        for axis, size in self.axes[:-1]:
            places[axis] = FloorMod(left, size)
            left = FloorDiv(left, size)
        places[self.axes[-1][0]] = left
        made = substitute(body, {self.round_: variable, **places})
        return For(variable, IntImm("int32", 0), extent, ForKind.SERIAL, made, None, {})

    def wait_for_tile(self, group: int = 0) -> Evaluate:
        """Wait until an iteration's tiles of a group have arrived."""
        step = self.count(self.loop.loop_var)
        place = self.point_to(FloorMod(step, self.stages) + group * self.stages)
        return Evaluate(T.cuda.mbarrier_wait(place, FloorMod(FloorDiv(step, self.stages), 2)))

    def wait_for_groups(self) -> list[Any]:
        """Behind the loop, tiles become another buffer's memory, and no group may read them."""
        return [wait_for_groups(0)] if self.in_flight else []

    def compute(self) -> list[Any]:
        """The computation of an iteration, with its stage."""
        stage = FloorMod(self.count(self.loop.loop_var), self.stages)
        parts = [*drop_fences(self.rest)]
        for tile, made in zip(self.tiles, self.staged, strict=True):
            size = math.prod(constant(extent) or 1 for extent in tile.target.shape)
            for at, part in enumerate(parts):
                parts[at] = redirect(
                    part,
                    tile.target,
                    made,
                    index=lambda indices: [stage, *indices],
                    cover=lambda region: [Range.from_min_extent(stage, 1), *region],
                    offset=stage * size,
                )
        return parts

    def fence_loads(self, computed: list[Any]) -> list[Any]:
        """Behind loads of tiles, which a bulk copy of another proxy may overwrite next.

        The instructions of wgmma read tiles in the proxy of bulk copies, and need none.
        """

        def skip(call: Any) -> Any:  # what describes a tile to wgmma
            return IntImm("int32", 0) if get_op_name(call).endswith(ENCODES) else call

        left = [structural_map(part, (Call, skip)) for part in computed]
        used = [load.source for part in left for load in find_all(part, TensorLoad)]
        used += [each for part in left for call in find_all(part, Call) for each in call.args]
        tiles = [each for buffer in self.staged for each in (buffer, buffer.data)]
        return [make_proxy_fence()] if any(is_among(each, tiles) for each in used) else []

    def loop_over(self, statements: list[Any]) -> For:
        """The loop, with other statements in its body and without the tiles' buffers."""
        name, body, loop = self.block.name_hint, SeqStmt(statements), self.loop
        block = SBlock([], [], [], name, body, alloc_buffers=self.others)
        realized = SBlockRealize([], True, block)
        return For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, realized, None, self.notes)

    def copy(self, step: Any, group: int = 0) -> Any:
        """Announce the bytes of an iteration's tiles of a group, and issue their copies."""
        if isinstance(step, int):
            stage, value = step % self.stages, IntImm("int32", step)
        else:
            stage, value = FloorMod(self.count(step), self.stages), step
        arrived = self.point_to(stage + group * self.stages)
        return self._issue(self.groups[group], arrived, stage, {self.loop.loop_var: value})

    def copy_once(self, arrived: Any) -> Any:
        """The same of the tiles that all iterations read; `arrived` points to their mbarrier."""
        first = len(self.tiles)
        return self._issue(list(range(first, first + len(self.once))), arrived, 0, {})

    def _issue(self, numbers: list[int], arrived: Any, stage: Any, values: dict[Any, Any]) -> Any:
        """Copies of tiles into a stage, which an mbarrier hears of; `values` are of variables."""
        tiles = [*self.tiles, *self.once]
        buffers = [*self.staged, *(tile.target for tile in self.once)]
        total = sum(tiles[number].bytes for number in numbers)
        calls = [Evaluate(T.ptx["mbarrier.arrive.expect_tx.shared.b64"](arrived, total))]
        for number in numbers:
            tile, buffer, variable = tiles[number], buffers[number], self.maps[number]
            panels, box = tile.shape.panels, tile.shape.box
            size = math.prod(box)
            for panel in range(panels):
                start = [substitute(index, values) for index in tile.get_start(panel)]
                place = stage * (size * panels) + panel * size
                target = buffer.access_ptr(READ, offset=place, extent=size)
                load, described = T.ptx[_LOAD.format(len(start))], T.address_of(variable)
                calls.append(Evaluate(load(target, described, *reversed(start), arrived)))
        return SeqStmt(calls)

    def point_to(self, stage: Any) -> Any:
        """A pointer to an mbarrier: those of a group's stages follow one another."""
        return self.barriers.access_ptr(READ, offset=stage, extent=1)


def if_elected(
    threads: list[tuple[Any, int]], statements: list[Any], *, first: int = 0
) -> IfThenElse:
    """Statements that one lane of a warp runs: of the one that begins at the thread `first`, among
    those that have no smaller number.
    """
    inner = if_one_lane(statements)
    if len(threads) == 2 and threads[0][1] == WARP:  # simpler to read, and for the compiler
        return IfThenElse(threads[1][0].equal(first // WARP), inner, None)
    number, _ = number_threads(threads)
    return IfThenElse(LT(number, IntImm("int32", first + WARP)), inner, None)


def if_one_lane(statements: list[Any]) -> IfThenElse:
    """Statements that one lane of each warp runs, of warps all of whose lanes are there."""
    return IfThenElse(T.cuda.elect_sync() != T.uint32(0), stmt_seq(*statements), None)


def _list_parts(statement: Any) -> list[Any]:
    """The statements in a sequence, or in a block's body."""
    body = statement.block.body if isinstance(statement, SBlockRealize) else statement
    return list(body.seq) if isinstance(body, SeqStmt) else [body]


def _find_copies(part: Any) -> list[SBlock]:
    return [block for block in find_all(part, SBlock) if TMA_COPY in block.annotations]


def make_proxy_fence() -> Evaluate:
    """What threads did in shared memory is there for wgmma and bulk copies, and done before."""
    return Evaluate(T.ptx["fence.proxy.async.shared::cta"]())


def wait_for_groups(in_flight: int) -> Evaluate:
    """Wait until no more groups of wgmma run."""
    return Evaluate(T.ptx.wgmma.wait_group.sync.aligned(in_flight))


def make_barrier() -> Evaluate:
    """A barrier of the thread block."""
    return Evaluate(T.tvm_storage_sync("shared"))


def make_tensor_map(variable: Any, tile: TmaTile) -> list[Any]:
    """The host's statements that describe a tensor and its tiles: innermost dimensions first."""
    size = tile.source.dtype.itemsize
    shape = [constant(extent) or 1 for extent in tile.source.shape]
    rank = len(shape)
    pitches = [math.prod(shape[at:]) * size for at in range(1, rank)]
    dtype = str(tile.source.dtype)
    encode = T.tensormap_encode_tiled(
        variable,
        tile.source.data,
        *reversed(shape),
        *reversed(pitches),
        *reversed(tile.shape.span),
        *reversed(tile.shape.strides or [1] * rank),
        descriptor_dtype="uint8" if dtype.startswith("float8") or dtype == "int8" else dtype,
        rank=rank,
        swizzle=SWIZZLES.index(tile.shape.swizzle) + 1 if tile.shape.swizzle else 0,
    )
    return [Bind(variable, T.tvm_stack_alloca("tensormap", 1)), Evaluate(encode)]


def drop_fences(parts: list[Any]) -> list[Any]:
    """Statements without the fences of the asynchronous proxy, and the barriers behind these.

    They order what threads store to shared memory before the instructions of wgmma, and bulk copies
    are of the same proxy: an mbarrier is enough. Where threads store there, all of them stay.
    """
    stores = [store for part in parts for store in find_all(part, BufferStore)]
    if any(str(store.buffer.scope()).startswith("shared") for store in stores):
        return parts

    def rewrite(sequence: Any) -> Any:
        pairs = list(zip([None, *sequence.seq], sequence.seq, strict=False))
        kept = [
            part
            for before, part in pairs
            if not (is_proxy_fence(part) or (is_barrier(part) and is_proxy_fence(before)))
        ]
        return stmt_seq(*kept) if 0 < len(kept) < len(pairs) else sequence

    return [structural_map(part, (SeqStmt, rewrite)) for part in parts]
