"""A pass that makes the pipelines of `prefetch_by_tma`, in which warps may have roles.

It runs where blocks are opaque and buffers as small as a thread block needs, before TVM swizzles
indices and makes its own pipelines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
)
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from ..gpu_limits import WARP, count_registers
from ..passes.barriers import is_barrier
from ..rewriting import edit_loop
from ..schedule import TransformError
from ..tir import constant, find_all, get_axis, get_elements, get_loops_around, replace_fields
from .persistent import find_lasting, go_through_tiles, split_roles
from .tma_loads import Pipeline, if_elected, if_one_lane, join
from .tma_tiles import TMA_ROLES, TMA_STAGES
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
    annotated = [loop for loop in find_all(function.body, For) if TMA_STAGES in loop.annotations]
    loops = [loop for loop in annotated if find_threads(function.body, loop)]
    maps: list[Any] = []
    body = function.body
    for loop in loops:
        threads = find_threads(function.body, loop)
        parameters = list(function.params)
        pipeline = Pipeline.of(loop, threads, len(maps) // 2, parameters, function.body)
        maps += pipeline.make_tensor_maps()
        if TMA_ROLES in loop.annotations:
            body = give_roles(body, pipeline)
        else:
            body = replace_loop(body, loop, pipeline.lower())
    if not loops:
        return function
    if any(TMA_ROLES in loop.annotations for loop in loops):
        # A statement whose arrays in registers have no dimension of which all threads use the first
        # element alone, as those of the intrinsics of wgmma have.
        # CUDA would otherwise keep arrays under the condition of a role in local memory, as long as
        # they are.
        places: dict[Any, list[Any]] = {}
        for buffer, indices in get_elements(body):
            if str(buffer.scope()) == "local":
                places.setdefault(buffer, []).append(indices)
        calls = find_all(body, Call)
        made = {}
        for buffer, all_indices in places.items():
            firsts = [
                {constant(it) for it in each} == {0} for each in zip(*all_indices, strict=True)
            ]
            shape = [1 if first else size for first, size in zip(firsts, buffer.shape, strict=True)]
            if any(firsts) and not any(_points_into(call, buffer) for call in calls):
                made[buffer] = decl_buffer(shape, buffer.dtype, buffer.name, scope="local")
        body = structural_map(body, (Var, lambda node: made.get(node, node)))
    return function.with_body(put_at_root(body, maps))


def _points_into(call: Call, buffer: Any) -> bool:
    """Whether a call takes a buffer's address, from where it may reach any element."""
    whole = [arg for arg in call.args if isinstance(arg, Var) and arg.same_as(buffer)]
    if not get_op_name(call).endswith("address_of"):
        return bool(whole)
    return any(load.source.same_as(buffer) for load in find_all(call, TensorLoad))


def replace_loop(body: Any, loop: For, made: Any) -> Any:
    """A statement with another one in a loop's place."""
    variable = loop.loop_var
    return structural_map(
        body, (For, lambda node: made if node.loop_var.same_as(variable) else node)
    )


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
    producers, *registers = map(int, pipeline.loop.annotations[TMA_ROLES])
    variable, extent = pipeline.threads[-1]
    inner = math.prod(count for _, count in pipeline.threads[:-1])
    if producers % inner:
        raise TransformError(
            f"{producers} threads more do not divide into rows of {inner}",
            "bind threadIdx.x to a divisor of 32",
        )
    extent *= pipeline.rounds.turns
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
            kernel = _guard(loop.body, pipeline, computes, registers)
            if pipeline.blocks != 1:  # a multiprocessor has several at once: __launch_bounds__
                several = IntImm("int32", pipeline.blocks)
                kernel = AttrStmt(IntImm("int32", 0), MIN_BLOCKS, several, kernel)
            others = find_lasting(loop.body, pipeline)
            loop = edit_loop(loop, body=pipeline.allocate(kernel, others))
        if loop.loop_var.same_as(variable):
            return edit_loop(loop, extent=IntImm("int32", extent + producers // inner))
        blocks = pipeline.rounds.find_extent(loop)
        return loop if blocks is None else edit_loop(loop, extent=IntImm("int32", blocks))

    return structural_map(body, (For, rewrite))


def _count_arrivals(pipeline: Pipeline) -> list[int]:
    """The arrivals that complete each mbarrier of a kernel with roles.

    Those of full stages come first, then those of empty ones, at which warps arrive, and that of
    registers that move.
    """
    stages, warps = pipeline.stages, _count_warps(pipeline)
    moving = [warps] if int(pipeline.loop.annotations[TMA_ROLES][1]) else []
    each = warps // pipeline.rounds.turns  # of those that compute a tile
    return [*[1] * stages, *[each] * stages, *moving]


def _count_warps(pipeline: Pipeline) -> int:
    """The warps that compute."""
    threads = math.prod(count for _, count in pipeline.threads)
    return threads * pipeline.rounds.turns // WARP


def _guard(statement: Any, pipeline: Pipeline, computes: Any, registers: list[int]) -> Any:
    """A statement around the pipeline, whose parts are for the warps that compute alone."""
    if pipeline.rounds.is_persistent:
        return SeqStmt(_run_with_roles(pipeline, computes, registers, statement))
    if isinstance(statement, For) and statement.loop_var.same_as(pipeline.loop.loop_var):
        return SeqStmt(_run_with_roles(pipeline, computes, registers))
    loops = find_all(statement, For)
    if not any(loop.loop_var.same_as(pipeline.loop.loop_var) for loop in loops):
        # All warps may compute in a thread's own registers, if a statement does nothing but that;
        # under a condition, CUDA would keep arrays in local memory.
        scopes = {str(buffer.scope()) for buffer, _ in get_elements(statement)}
        is_own = not find_all(statement, Call) and scopes <= {"local"}
        return statement if is_own else IfThenElse(computes, statement, None)
    if isinstance(statement, SBlockRealize):
        inner = _guard(statement.block.body, pipeline, computes, registers)
        block = replace_fields(statement.block, body=inner)
        return SBlockRealize(statement.iter_values, statement.predicate, block)
    if isinstance(statement, SeqStmt):
        return SeqStmt([_guard(each, pipeline, computes, registers) for each in statement.seq])
    raise TransformError(
        f"loop '{pipeline.loop.loop_var.name}' stands in a statement of another kind",
        "give roles to warps where the loop over tiles is the kernel's outermost one",
    )


def _run_with_roles(
    pipeline: Pipeline, computes: Any, registers: list[int], kernel: Any = None
) -> list[Any]:
    """The pipeline between its mbarriers, in which each role does its own.

    Where a thread block goes through tiles, both roles do all of the kernel.
    """
    computed = pipeline.compute()
    require_no_barrier(computed, pipeline)
    loads = pipeline.fence_loads(computed)

    def release(done: Any) -> list[Any]:
        empty = _point_to_empty(pipeline, done)
        return [*loads, *_arrive_by_warps(T.ptx["mbarrier.arrive.shared.b64"](empty))]

    consumer = _consume(pipeline, computed, release)
    # One lane copies tile after tile, each to a stage that is empty: at first all of them are.
    loop = pipeline.loop
    step = Var(f"{loop.loop_var.name}_copied", loop.loop_var.ty)
    # Wait until the stage of a step is empty, which it is in the first round.
    free = FloorMod(FloorDiv(pipeline.count(step), pipeline.stages) + 1, 2)
    until_empty = Evaluate(T.cuda.mbarrier_wait(_point_to_empty(pipeline, step), free))
    body = SeqStmt([until_empty, pipeline.copy(step)])
    copies = For(step, loop.min, loop.extent, ForKind.SERIAL, body, None, {})
    tile = join([copies, *pipeline.rounds.end_tile()])
    tiles = pipeline.rounds.loop_over(tile, f"{loop.loop_var.name}_tile_copied")
    copier = _count_warps(pipeline) * WARP
    producer = [if_elected(pipeline.threads, [tiles], first=copier)]
    if pipeline.rounds.is_persistent:
        consumer = [*pipeline.fence_others(), *consumer]
        late = pipeline.in_flight
        consumer += [
            *[each for at in range(late) for each in release(pipeline.loop.extent - late + at)],
            *pipeline.rounds.end_tile(),
        ]
        consumer = [go_through_tiles(kernel, pipeline, consumer)]
    if registers[0]:
        # Who copies takes registers again when those who compute have given back theirs: taken
        # earlier, by warps that have nothing to copy, they would be missing to those who compute,
        # for ever.
        less, more = T.ptx.setmaxnreg.dec.sync.aligned.u32, T.ptx.setmaxnreg.inc.sync.aligned.u32
        producers = int(pipeline.loop.annotations[TMA_ROLES][0])
        first = count_registers((_count_warps(pipeline) * WARP + producers) * pipeline.blocks)
        given_back = pipeline.point_to(2 * pipeline.stages)
        arrive = T.ptx["mbarrier.arrive.shared.b64"](given_back)
        wait = T.cuda.mbarrier_wait(given_back, 0)
        producer = [Evaluate(less(registers[0])), *producer, Evaluate(wait), Evaluate(more(first))]
        consumer = [
            Evaluate(more(registers[1])),
            *consumer,
            Evaluate(less(first)),
            *_arrive_by_warps(arrive),
        ]
    split = split_roles(pipeline, computes, join(consumer), join(producer))
    split, counts = [*pipeline.rounds.begin(), *split], _count_arrivals(pipeline)
    return [*pipeline.initialize(counts), *split, *pipeline.invalidate(len(counts))]


def _consume(
    pipeline: Pipeline, computed: list[Any], release: Callable[[Any], list[Any]]
) -> list[Any]:
    """Wait for tile after tile, compute, and release its stage."""
    if pipeline.overlaps:
        return run_overlapped(pipeline, release)
    if pipeline.alternates:
        return run_in_turns(pipeline, release)
    step, late = pipeline.loop.loop_var, pipeline.in_flight
    done = release(step - late)
    if late:  # the groups behind may still read their tiles
        done = [IfThenElse(GE(step, IntImm("int32", late)), join(done), None)]
    loop = pipeline.loop_over([pipeline.wait_for_tile(), *computed, *done])
    return [loop, *pipeline.wait_for_groups()]


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


def _point_to_empty(pipeline: Pipeline, step: Any) -> Any:
    return pipeline.point_to(FloorMod(pipeline.count(step), pipeline.stages) + pipeline.stages)
