"""Pipelines of `prefetch_by_tma`, in which warps may have roles, and blocks that stay.

A pass makes them where blocks are opaque and buffers as small as a thread block needs, before TVM
swizzles indices and makes its own pipelines. `make_persistent` only annotates a loop: as many
thread blocks as run at once then go through the tiles of the grid. Roles stand around the loop over
a block's tiles: the warps that copy go on to the next tile while the others store theirs. Stages
and parities follow the steps of all tiles that a block goes through. Until TVM has put barriers in,
roles are marks, since it puts none under the condition of threads; those of the warps that compute
are named ones then (`NameBarriersOfRoles`).

Instructions from the PTX ISA, section "Parallel Synchronization and Communication Instructions:
bar".
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import tirx as T
from tvm.tirx import (
    GE,
    LT,
    AttrStmt,
    BufferStore,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Not,
    SeqStmt,
    Var,
    const,
    decl_buffer,
    stmt_seq,
)
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from ..gpu_limits import MAX_SHARED_BYTES, WARP, count_registers
from ..pass_options import lower_around
from ..passes.barriers import is_barrier
from ..queries import get_enclosing_loops, get_loop_name
from ..rewriting import edit_loop, exchange, leave_out
from ..schedule import Int64, TransformError, transform
from ..tensor_cores.fragments import SCOPE
from ..tir import (
    constant,
    find_all,
    get_axis,
    get_elements,
    get_loops_around,
    is_among,
    list_allocated,
    list_threads,
    replace_fields,
)
from .product_overlap import run_overlapped
from .tma_loads import (
    ROOM,
    Pipeline,
    if_elected,
    if_one_lane,
    make_tensor_map,
    require_one_pipeline,
)
from .tma_tiles import (
    COMPUTES,
    COPIES,
    TMA_PERSISTENT,
    TMA_ROLES,
    TMA_STAGES,
    count_bytes,
    count_saved,
)

_PASS = "tirstep.LowerTmaPipelines"
BARRIER = 8
"""The number of the named barrier of the warps that compute."""


@transform
def make_persistent(
    sch: Schedule, loop: LoopRV, *, blocks: Int64, stages: Int64 | None = None
) -> None:
    """Launch as many persistent CTAs as run at once, which loop over the tiles of the grid.

    Block number b computes the tiles b, b + `blocks`, b + 2 * `blocks` and so on, so that tiles
    that run at the same time are still neighbours in the grid's order. If a mask ends loops early,
    every other round of tiles goes backwards, so that no block gets all of the long tiles. Producer
    warps go from tile to tile without a break, and fetch the next tile while the consumers store
    theirs; mbarriers are initialized once, and their stages and parities continue over all tiles.
    The memory through which a result is stored is not shared with the stages, and barriers of the
    consumer warps count only their threads (bar.sync with a number). A grid of several axes is
    traversed as a GPU numbers its blocks, along blockIdx.x first. `blocks` is the number of
    multiprocessors (132 on an H200) times the number of blocks that fit on one. `stages` sets the
    pipeline's number of stages, which may exceed the iterations of its loop, since tiles are also
    copied ahead for the next round.

    rewrite: ``for tile in blockIdx.x: for k: wait for full[k % stages]; compute; store`` ->
        ``for block in blockIdx.x: for tile in range(block, tiles, blocks): for k: wait for
        full[step % stages]; compute; store``, step counting on from tile to tile, when the module
        is lowered
    consumes: nothing
    requires: a loop that `specialize_warps` has specialized, the only pipeline of its kernel; a
        grid of known size; at least as many `stages` as the pipeline has, with room in shared
        memory for them and the tile that is stored; at least one block
    """
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if TMA_ROLES not in node.annotations or TMA_PERSISTENT in node.annotations:
        raise TransformError(
            f"loop '{name}' is not a warp-specialized pipeline, or is persistent already",
            "call specialize_warps first, and make_persistent once: without warp "
            "specialization nothing is copied while a tile is stored",
        )
    require_one_pipeline(sch, loop, "leave one tile for each block")
    if blocks < 1:
        raise TransformError(
            f"blocks={blocks} is not a number of thread blocks",
            "give those that run at once: the multiprocessors of the GPU, 132 of an H200",
        )
    has = int(node.annotations[TMA_STAGES])
    wanted = has if stages is None else stages
    if wanted < has:
        raise TransformError(
            f"stages={wanted} are fewer than the {has} that loop '{name}' has",
            "give prefetch_by_tma the fewer stages",
        )
    enclosing = get_enclosing_loops(sch, loop)
    grid = [each for each in enclosing if (get_axis(each) or "").startswith("blockIdx")]
    if not grid:
        raise TransformError(
            f"the tiles of loop '{name}' are not bound to thread blocks", "bind them to blockIdx.x"
        )
    for each in grid:
        if constant(each.extent) is None:
            raise TransformError(
                f"loop '{each.loop_var.name}' around loop '{name}' has {each.extent} tiles, a "
                "symbolic number",
                "give the sizes of the problem",
            )
    # The stages of this pipeline, the mbarriers, and what the kernel keeps beside them.
    around, used, most = lower_around(sch.mod, [_PASS]).get(_PASS), 0, MAX_SHARED_BYTES[SCOPE]
    functions = around.before.functions_items() if around else ()
    for kernel in (it for _, function in functions for it in find_all(function.body, For)):
        loops = [it for it in find_all(kernel, For) if TMA_ROLES in it.annotations]
        loops = [it for it in loops if it.loop_var.name == name]
        if get_axis(kernel) == "blockIdx.x" and loops:
            own = list_allocated(loops[0])
            room = sum(count_bytes(it) for it in list_allocated(kernel) if not is_among(it, own))
            used = max(used, room + wanted * sum(map(count_bytes, own)) + ROOM * 8)
    used -= count_saved(around.before, used) if around else 0
    if 2 * wanted + 1 > ROOM:
        raise TransformError(
            f"stages={wanted} need {2 * wanted + 1} mbarriers, and there is room for {ROOM}",
            f"use {(ROOM - 1) // 2} stages at most",
        )
    if used > most:
        raise TransformError(
            f"{wanted} stages of loop '{get_loop_name(sch, loop)}' and the tile that is stored "
            f"take {-(-used >> 10)} KiB of shared memory, and a block has {most >> 10}",
            "use fewer stages or smaller tiles, or store from registers",
        )
    if wanted != has:
        sch.unannotate(loop, TMA_STAGES)
        sch.annotate(loop, TMA_STAGES, wanted)
    sch.annotate(loop, TMA_PERSISTENT, blocks)


@prim_func_pass(opt_level=0, name=_PASS)
def LowerTmaPipelines(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Make a pipeline of bulk copies of each loop that `prefetch_by_tma` annotated, in a kernel.

    Where there are no threads, as on a CPU, copies stay what they are.

    rewrite: ``for k: A_shared = A[k]; compute(A_shared)`` -> ``map = tensor map of A; (init
        mbarrier[0 .. stages - 1]; copy A[0 .. stages - 2]; for k: wait for mbarrier[k % stages];
        barrier; copy A[k + stages - 1]; compute(A_shared[k % stages]))``
    """
    body, maps, has_roles = function.body, list[Any](), False
    for loop in find_all(body, For):
        threads = find_threads(function.body, loop) if TMA_STAGES in loop.annotations else []
        if not threads:
            continue
        parameters = list(function.params)
        pipeline = Pipeline(loop, function.body, threads, parameters, len(maps) // 2)
        tiles = [*pipeline.tiles, *pipeline.once]
        for variable, tile in zip(pipeline.maps, tiles, strict=True):
            maps += make_tensor_map(variable, tile)
        if TMA_ROLES in loop.annotations:
            body, has_roles = give_roles(body, pipeline), True
        else:
            body = exchange(body, loop, pipeline.lower())
    if not maps:
        return function
    if has_roles:
        # Arrays in registers have no dimension of which all threads use the first element alone, as
        # those of the intrinsics of wgmma have: CUDA would otherwise keep arrays under the
        # condition of a role in local memory, as long as they are.
        places: dict[Any, list[Any]] = {}
        for buffer, indices in get_elements(body):
            if str(buffer.scope()) == "local":
                places.setdefault(buffer, []).append(indices)
        # Those whose address a call takes, from where it may reach any element, stay.
        pointed = [arg for call in find_all(body, Call) for arg in call.args]
        calls = [it for it in find_all(body, Call) if get_op_name(it).endswith("address_of")]
        pointed += [load.source for call in calls for load in find_all(call, TensorLoad)]
        made = {}
        for buffer, all_indices in places.items():
            firsts = [
                {constant(it) for it in each} == {0} for each in zip(*all_indices, strict=True)
            ]
            shape = [1 if first else size for first, size in zip(firsts, buffer.shape, strict=True)]
            if any(firsts) and not any(buffer.same_as(it) for it in pointed):
                made[buffer] = decl_buffer(shape, buffer.dtype, buffer.name, scope="local")
        body = structural_map(body, (Var, lambda node: made.get(node, node)))
    return function.with_body(put_at_root(body, maps))


def put_at_root(body: Any, statements: list[Any]) -> Any:
    """Statements of the host before all others of a function."""
    if not isinstance(body, SBlockRealize):
        return SeqStmt([*statements, body])
    block = body.block
    inner = SeqStmt([*statements, block.body])
    return SBlockRealize(body.iter_values, body.predicate, replace_fields(block, body=inner))


def find_threads(body: Any, loop: For) -> list[tuple[Any, int]]:
    """The thread axes around a loop, threadIdx.x first, and their extents."""
    found = list_threads([*get_loops_around(loop, find_all(body, For)), loop])
    return [(outer.loop_var, constant(outer.extent) or 1) for outer in found]


def give_roles(body: Any, pipeline: Pipeline) -> Any:
    """A kernel in which warps of their own copy a pipeline's tiles, and the others compute.

    The thread axis that grows has those warps at its end. All other statements of the kernel are
    for the others alone, and stand under a condition each, so that barriers stand outside of it.
    """
    variable, extent = pipeline.threads[-1]
    inner = math.prod(count for _, count in pipeline.threads[:-1])
    if pipeline.producers % inner:
        raise TransformError(
            f"{pipeline.producers} more threads are not a multiple of threadIdx.x, {inner}",
            "bind threadIdx.x to a divisor of 32",
        )
    computes = LT(variable, IntImm("int32", extent))
    around = get_loops_around(pipeline.loop, find_all(body, For))
    if not around or get_axis(around[-1]) is None:
        name = around[-1].loop_var.name if around else "the kernel"
        raise TransformError(
            f"loop '{pipeline.loop.loop_var.name}' stands in loop '{name}', which is not bound",
            "specialize warps only where the loop over tiles is the kernel's outermost one",
        )
    within = around[-1]

    def rewrite(loop: For) -> Any:
        if loop.loop_var.same_as(within.loop_var):
            rest = leave_out(loop.body, lambda part: is_among(part, pipeline.fetches))
            kernel = _guard(rest, pipeline, computes)
            # A kernel's buffers that stand beside the stages in all rounds: memory of theirs is no
            # stage's, which the next tile is copied to while this one is stored.
            others, staging = list[Any](), list_allocated(pipeline.loop)
            if pipeline.axes or pipeline.once:
                others = [it for it in list_allocated(loop.body) if not is_among(it, staging)]
                others += pipeline.counters
            loop = edit_loop(loop, body=pipeline.allocate(kernel, others))
        if loop.loop_var.same_as(variable):
            return edit_loop(loop, extent=IntImm("int32", extent + pipeline.producers // inner))
        for at, (axis, _) in enumerate(pipeline.axes):
            if loop.loop_var.same_as(axis):  # blocks that stay are on the first axis of the grid
                blocks = 1 if at else pipeline.stays
                return edit_loop(loop, extent=IntImm("int32", blocks))
        return loop

    return structural_map(body, (For, rewrite))


def _guard(statement: Any, pipeline: Pipeline, computes: Any) -> Any:
    """A statement around the pipeline, whose parts are for the warps that compute alone."""
    if pipeline.axes:
        return SeqStmt(_run_with_roles(pipeline, computes, statement))
    if isinstance(statement, For) and statement.loop_var.same_as(pipeline.loop.loop_var):
        return SeqStmt(_run_with_roles(pipeline, computes))
    loops = find_all(statement, For)
    if not any(loop.loop_var.same_as(pipeline.loop.loop_var) for loop in loops):
        # All warps may compute in a thread's own registers, if a statement does nothing but that;
        # under a condition, CUDA would keep arrays in local memory.
        scopes = {str(buffer.scope()) for buffer, _ in get_elements(statement)}
        is_own = not find_all(statement, Call) and scopes <= {"local"}
        return statement if is_own else IfThenElse(computes, statement, None)
    if isinstance(statement, SBlockRealize):
        inner = _guard(statement.block.body, pipeline, computes)
        block = replace_fields(statement.block, body=inner)
        return SBlockRealize(statement.iter_values, statement.predicate, block)
    if isinstance(statement, SeqStmt):
        return SeqStmt([_guard(each, pipeline, computes) for each in statement.seq])
    raise TransformError(
        f"loop '{pipeline.loop.loop_var.name}' stands in a statement of another kind",
        "specialize warps only where the loop over tiles is the kernel's outermost one",
    )


def _run_with_roles(pipeline: Pipeline, computes: Any, kernel: Any = None) -> list[Any]:
    """The pipeline between its mbarriers, in which each role does its own.

    Where a thread block goes through tiles, both roles do all of the kernel.
    """
    loop, late = pipeline.loop, pipeline.in_flight
    computed = pipeline.compute()
    require_no_barrier(computed, pipeline)
    loads = pipeline.fence_loads(computed)

    full = len(pipeline.groups) * pipeline.stages  # mbarriers, behind which those of empty ones are

    def find_empty(step: Any, group: int) -> Any:
        stage = FloorMod(pipeline.count(step), pipeline.stages)
        return pipeline.point_to(stage + (full + group * pipeline.stages))

    def release(done: Any, group: int = 0) -> list[Any]:
        arrive = T.ptx["mbarrier.arrive.shared.b64"](find_empty(done, group))
        return [*loads, *_arrive_by_warps(arrive)]

    # Wait for tile after tile, compute, and release its stage.
    if pipeline.overlaps:
        consumer = run_overlapped(pipeline, release)
    else:
        done = release(loop.loop_var - late)
        if late:  # the groups behind may still read their tiles
            done = [IfThenElse(GE(loop.loop_var, IntImm("int32", late)), stmt_seq(*done), None)]
        iterations = pipeline.loop_over([pipeline.wait_for_tile(), *computed, *done])
        consumer = [iterations, *pipeline.wait_for_groups()]
    # One lane copies tile after tile, each to a stage that is empty: at first all of them are.
    step = Var(f"{loop.loop_var.name}_copied", loop.loop_var.ty)
    free = FloorMod(FloorDiv(pipeline.count(step), pipeline.stages) + 1, 2)
    body = [
        [Evaluate(T.cuda.mbarrier_wait(find_empty(step, group), free)), pipeline.copy(step, group)]
        for group in range(len(pipeline.groups))
    ]
    once_full, once_empty = pipeline.point_to(2 * full), pipeline.point_to(2 * full + 1)
    if pipeline.once:  # behind the first tile, for which there may be room earlier
        parity = FloorMod(pipeline.round_, 2) if pipeline.axes else IntImm("int32", 0)
        fetch = [pipeline.copy_once(once_full)]
        consumer = [Evaluate(T.cuda.mbarrier_wait(once_full, parity)), *consumer]
        if pipeline.axes:  # the next tile's comes when this one's has been read
            fetch.insert(0, Evaluate(T.cuda.mbarrier_wait(once_empty, 1 - parity)))
            consumer += _arrive_by_warps(T.ptx["mbarrier.arrive.shared.b64"](once_empty))
        body[0].append(IfThenElse(step.equal(0), stmt_seq(*fetch), None))
    copies = For(
        step, loop.min, loop.extent, ForKind.SERIAL, stmt_seq(*itertools.chain(*body)), None, {}
    )
    tile = stmt_seq(copies, *pipeline.end_tile())
    tiles = pipeline.loop_over_tiles(tile, f"{loop.loop_var.name}_tile_copied")
    producer = [if_elected(pipeline.threads, [tiles], first=pipeline.warps * WARP)]
    if pipeline.axes:
        left = [each for at in range(late) for each in release(loop.extent - late + at)]
        consumer = [*pipeline.fence_others(), *consumer, *left, *pipeline.end_tile()]
        # What warps that compute do in all rounds: the kernel, with theirs in the pipeline's place.
        # Its buffers stand around the loop over tiles.
        variable, staging = loop.loop_var, list_allocated(loop)
        for kind in (For, IfThenElse):
            for each in find_all(kernel, kind):
                if any(it.same_as(loop) and not it.same_as(each) for it in find_all(each, For)):
                    raise TransformError(
                        f"loop '{variable.name}' stands in a loop, or under a condition, of its "
                        "tile",
                        "let it be the outermost one of a tile, and pad the problem first",
                    )

        def drop(block: SBlock) -> SBlock:
            kept = [it for it in block.alloc_buffers if is_among(it, staging)]
            return replace_fields(block, alloc_buffers=kept) if block.alloc_buffers else block

        own = stmt_seq(*consumer)
        tile = structural_map(kernel, (SBlock, drop))
        tile = structural_map(tile, (For, lambda it: own if it.loop_var.same_as(variable) else it))
        consumer = [pipeline.loop_over_tiles(tile, f"{variable.name}_tile")]
    if pipeline.registers[0]:
        # Who copies takes registers again when those who compute have given back theirs: taken
        # earlier, by warps that have nothing to copy, they would be missing to those who compute,
        # for ever.
        less, more = T.ptx.setmaxnreg.dec.sync.aligned.u32, T.ptx.setmaxnreg.inc.sync.aligned.u32
        few, many = pipeline.registers
        first = count_registers(pipeline.warps * WARP + pipeline.producers)
        given_back = pipeline.point_to(2 * full + 2 * bool(pipeline.once))
        arrive = T.ptx["mbarrier.arrive.shared.b64"](given_back)
        wait = T.cuda.mbarrier_wait(given_back, 0)
        producer = [Evaluate(less(few)), *producer, Evaluate(wait), Evaluate(more(first))]
        back = [Evaluate(less(first)), *_arrive_by_warps(arrive)]
        consumer = [Evaluate(more(many)), *consumer, *back]
    does, does_not = stmt_seq(*consumer), stmt_seq(*producer)
    begin = [BufferStore(it, const(0), [0]) for it in pipeline.counters]
    split = [*begin, IfThenElse(computes, does, does_not)]
    if pipeline.axes:  # marks for `NameBarriersOfRoles`
        threads = IntImm("int32", math.prod(count for _, count in pipeline.threads))
        roles = ((COMPUTES, does), (COPIES, does_not))
        split[-1:] = [AttrStmt(threads, key, computes, each) for key, each in roles]
    # Arrivals at mbarriers: of full stages; by warps at empty ones, and where registers move.
    warps = [pipeline.warps] * (full + bool(pipeline.registers[0]))
    counts = [*[1] * full, *warps]
    counts[2 * full : 2 * full] = [1, pipeline.warps] if pipeline.once else []
    return [*pipeline.initialize(counts), *split, *pipeline.invalidate(len(counts))]


def _arrive_by_warps(arrive: Any) -> list[Any]:
    """Each warp arrives at an mbarrier, when all its lanes have come so far."""
    return [Evaluate(T.cuda.warp_sync()), if_one_lane([Evaluate(arrive)])]


def require_no_barrier(statements: list[Any], pipeline: Pipeline) -> None:
    """Refuse barriers of all threads, to which the warps that copy never come."""
    if any(is_barrier(each) for part in statements for each in find_all(part, Evaluate)):
        raise TransformError(
            f"loop '{pipeline.loop.loop_var.name}' has a barrier of all threads",
            "specialize warps only where nothing but bulk copies stores to shared memory",
        )


@prim_func_pass(opt_level=0, name="tirstep.NameBarriersOfRoles")
def NameBarriersOfRoles(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Put roles of a persistent kernel under their condition, and name the barriers there.

    A barrier among warps that compute is one of their threads alone: others never come to it. It
    runs when TVM has put barriers in.

    rewrite: ``barrier`` of the warps that compute -> ``bar.sync 8, threads``
    """
    if not any(node.attr_key == COMPUTES for node in find_all(function.body, AttrStmt)):
        return function

    def name_barriers(role: Any) -> Any:
        named = Evaluate(T.ptx.bar.sync(T.uint32(BARRIER), T.uint32(constant(role.node))))
        return structural_map(role.body, (Evaluate, lambda it: named if is_barrier(it) else it))

    def pair(sequence: Any) -> Any:  # roles that follow one another, as cases of one condition
        parts: list[Any] = []
        for part in sequence.seq:
            before: Any = parts[-1] if parts else None
            if [getattr(it, "attr_key", "") for it in (before, part)] == [COMPUTES, COPIES]:
                parts[-1] = IfThenElse(before.value, name_barriers(before), part.body)
            else:
                parts.append(part)
        return sequence if len(parts) == len(sequence.seq) else stmt_seq(*parts)

    def choose(node: Any) -> Any:  # a role that stands alone
        if node.attr_key == COMPUTES:
            return IfThenElse(node.value, name_barriers(node), None)
        return IfThenElse(Not(node.value), node.body, None) if node.attr_key == COPIES else node

    body = structural_map(function.body, (SeqStmt, pair))
    return function.with_body(structural_map(body, (AttrStmt, choose)))
