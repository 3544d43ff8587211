"""A pass that makes the pipelines of `prefetch_by_tma`, in which warps may have roles.

It runs where blocks are opaque and buffers as small as a thread block needs, before TVM swizzles
indices and makes its own pipelines.
"""

from __future__ import annotations

import math
from typing import Any

from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.script import tirx as T
from tvm.tirx import (
    GE,
    LT,
    AttrStmt,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    SeqStmt,
    Var,
    decl_buffer,
    stmt_seq,
)
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from ..gpu_limits import WARP, count_registers
from ..passes.barriers import is_barrier
from ..rewriting import edit_loop, exchange
from ..schedule import TransformError
from ..tir import constant, find_all, get_axis, get_elements, get_loops_around, replace_fields
from .persistent import find_lasting, go_through_tiles
from .tma_loads import Pipeline, if_elected, if_one_lane, make_tensor_map
from .tma_tiles import COMPUTES, COPIES, TMA_ROLES, TMA_STAGES
from .warp_turns import run_in_turns, run_overlapped

MIN_BLOCKS = "tirx.launch_bounds_min_blocks_per_sm"
"""TVM's attribute within a kernel: the second of the launch bounds."""


@prim_func_pass(opt_level=0, name="tirstep.LowerTmaPipelines")
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
        for variable, tile in zip(pipeline.maps, pipeline.tiles, strict=True):
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
    axes = {
        get_axis(outer): outer for outer in (*get_loops_around(loop, find_all(body, For)), loop)
    }
    found = [axes[f"threadIdx.{axis}"] for axis in "xyz" if f"threadIdx.{axis}" in axes]
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
            f"{pipeline.producers} threads more do not divide into rows of {inner}",
            "bind threadIdx.x to a divisor of 32",
        )
    computes = LT(variable, IntImm("int32", extent))
    around = get_loops_around(pipeline.loop, find_all(body, For))
    if not around or get_axis(around[-1]) is None:
        name = around[-1].loop_var.name if around else "the kernel"
        raise TransformError(
            f"loop '{pipeline.loop.loop_var.name}' stands in loop '{name}', which is not bound",
            "give roles to warps where the loop over tiles is the kernel's outermost one",
        )
    within = around[-1]

    def rewrite(loop: For) -> Any:
        if loop.loop_var.same_as(within.loop_var):
            kernel = _guard(loop.body, pipeline, computes)
            if pipeline.blocks != 1:  # a multiprocessor has several at once: __launch_bounds__
                several = IntImm("int32", pipeline.blocks)
                kernel = AttrStmt(IntImm("int32", 0), MIN_BLOCKS, several, kernel)
            others = find_lasting(loop.body, pipeline)
            loop = edit_loop(loop, body=pipeline.allocate(kernel, others))
        if loop.loop_var.same_as(variable):
            return edit_loop(loop, extent=IntImm("int32", extent + pipeline.producers // inner))
        for at, (axis, _) in enumerate(pipeline.rounds.axes):
            if loop.loop_var.same_as(axis):  # blocks that stay are on the first axis of the grid
                blocks = 1 if at else pipeline.rounds.blocks
                return edit_loop(loop, extent=IntImm("int32", blocks))
        return loop

    return structural_map(body, (For, rewrite))


def _count_arrivals(pipeline: Pipeline) -> list[int]:
    """The arrivals that complete each mbarrier of a kernel with roles.

    Those of full stages come first, then those of empty ones, at which warps arrive, and that of
    registers that move.
    """
    stages, warps = pipeline.stages, pipeline.warps
    moving = [warps] if pipeline.registers[0] else []
    return [*[1] * stages, *[warps] * stages, *moving]


def _guard(statement: Any, pipeline: Pipeline, computes: Any) -> Any:
    """A statement around the pipeline, whose parts are for the warps that compute alone."""
    if pipeline.rounds.is_persistent:
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
        "give roles to warps where the loop over tiles is the kernel's outermost one",
    )


def _run_with_roles(pipeline: Pipeline, computes: Any, kernel: Any = None) -> list[Any]:
    """The pipeline between its mbarriers, in which each role does its own.

    Where a thread block goes through tiles, both roles do all of the kernel.
    """
    loop, rounds, late = pipeline.loop, pipeline.rounds, pipeline.in_flight
    computed = pipeline.compute()
    require_no_barrier(computed, pipeline)
    loads = pipeline.fence_loads(computed)

    def find_empty(step: Any) -> Any:
        return pipeline.point_to(FloorMod(pipeline.count(step), pipeline.stages) + pipeline.stages)

    def release(done: Any) -> list[Any]:
        arrive = T.ptx["mbarrier.arrive.shared.b64"](find_empty(done))
        return [*loads, *_arrive_by_warps(arrive)]

    # Wait for tile after tile, compute, and release its stage.
    if pipeline.overlaps:
        consumer = run_overlapped(pipeline, release)
    elif pipeline.alternates:
        consumer = run_in_turns(pipeline, release)
    else:
        done = release(loop.loop_var - late)
        if late:  # the groups behind may still read their tiles
            done = [IfThenElse(GE(loop.loop_var, IntImm("int32", late)), stmt_seq(*done), None)]
        iterations = pipeline.loop_over([pipeline.wait_for_tile(), *computed, *done])
        consumer = [iterations, *pipeline.wait_for_groups()]
    # One lane copies tile after tile, each to a stage that is empty: at first all of them are.
    step = Var(f"{loop.loop_var.name}_copied", loop.loop_var.ty)
    free = FloorMod(FloorDiv(pipeline.count(step), pipeline.stages) + 1, 2)
    until_empty = Evaluate(T.cuda.mbarrier_wait(find_empty(step), free))
    body = SeqStmt([until_empty, pipeline.copy(step)])
    copies = For(step, loop.min, loop.extent, ForKind.SERIAL, body, None, {})
    tile = stmt_seq(copies, *rounds.end_tile())
    tiles = rounds.loop_over(tile, f"{loop.loop_var.name}_tile_copied")
    producer = [if_elected(pipeline.threads, [tiles], first=pipeline.warps * WARP)]
    if rounds.is_persistent:
        left = [each for at in range(late) for each in release(loop.extent - late + at)]
        consumer = [*pipeline.fence_others(), *consumer, *left, *rounds.end_tile()]
        consumer = [go_through_tiles(kernel, pipeline, consumer)]
    if pipeline.registers[0]:
        # Who copies takes registers again when those who compute have given back theirs: taken
        # earlier, by warps that have nothing to copy, they would be missing to those who compute,
        # for ever.
        less, more = T.ptx.setmaxnreg.dec.sync.aligned.u32, T.ptx.setmaxnreg.inc.sync.aligned.u32
        few, many = pipeline.registers
        first = count_registers((pipeline.warps * WARP + pipeline.producers) * pipeline.blocks)
        given_back = pipeline.point_to(2 * pipeline.stages)
        arrive = T.ptx["mbarrier.arrive.shared.b64"](given_back)
        wait = T.cuda.mbarrier_wait(given_back, 0)
        producer = [Evaluate(less(few)), *producer, Evaluate(wait), Evaluate(more(first))]
        back = [Evaluate(less(first)), *_arrive_by_warps(arrive)]
        consumer = [Evaluate(more(many)), *consumer, *back]
    does, does_not = stmt_seq(*consumer), stmt_seq(*producer)
    split = [*rounds.begin(), IfThenElse(computes, does, does_not)]
    if rounds.is_persistent:  # marks for `NameBarriersOfRoles`
        threads = IntImm("int32", math.prod(count for _, count in pipeline.threads))
        roles = ((COMPUTES, does), (COPIES, does_not))
        split[-1:] = [AttrStmt(threads, key, computes, each) for key, each in roles]
    counts = _count_arrivals(pipeline)
    return [*pipeline.initialize(counts), *split, *pipeline.invalidate(len(counts))]


def _arrive_by_warps(arrive: Any) -> list[Any]:
    """Each warp arrives at an mbarrier, when all its lanes have come so far."""
    return [Evaluate(T.cuda.warp_sync()), if_one_lane([Evaluate(arrive)])]


def require_no_barrier(statements: list[Any], pipeline: Pipeline) -> None:
    """Refuse barriers of all threads, to which the warps that copy never come."""
    if any(is_barrier(each) for part in statements for each in find_all(part, Evaluate)):
        raise TransformError(
            f"loop '{pipeline.loop.loop_var.name}' has a barrier of all threads",
            "give roles to warps where nothing but bulk copies stores to shared memory",
        )
