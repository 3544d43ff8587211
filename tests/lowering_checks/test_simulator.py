"""The simulator computes what a GPU computes, and sees what is planted in a kernel.

Plants are made in scheduled modules by TVM's own primitives, or in the lowered module by dropping
statements, so that the schedule itself looks right.
"""

import numpy as np
import pytest
import tvm
from golden_runs import check_golden_on_simulator, list_new_steps, lowering_once, run_golden
from kernels import BeyondTheEnd, RowSum
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import BufferStore, Evaluate, For
from tvm_ffi import structural_map

from tirstep.lowering_checks import DeviceError, check_numbers, get_device
from tirstep.lowering_checks.devices import DeviceFinding, run
from tirstep.lowering_checks.devices.simulator import lower, simulate, simulate_lowered
from tirstep.modules import Problem, matmul, vector_add
from tirstep.transforms import (
    accumulate_in_registers,
    bind_loop,
    cache_read_at,
    fold_tile,
    split_reduction,
    stage_operand_at,
    tile_block,
)
from tirstep.transforms.recipes import RECIPES, Recipe

SIMULATOR = get_device("simulator")
WITH_BARRIERS = [
    "window_sum_shared",
    "matmul_shared",
    "matmul_registers",
    "matmul_tiled_shared",
    "matmul_shared_blocking",
    "matmul_bias_relu_shared_blocking",
    "conv1d_memory_hierarchy",
    "conv1d_unrolled",
]


def arguments(problem: Problem) -> list[np.ndarray]:
    outputs = [np.full(output.shape, np.nan, output.dtype) for output in problem.outputs]
    return [*problem.integer_inputs(0), *outputs]


def findings(problem: Problem, module: tvm.IRModule) -> list[DeviceFinding]:
    return simulate(module, arguments(problem)).findings


def drop(module: tvm.IRModule, kind: type, wanted: str, which: int) -> tvm.IRModule:
    """The module without one of the statements whose text contains `wanted`."""
    seen = -1

    def edit(node):
        nonlocal seen
        if wanted not in str(node):
            return node
        seen += 1
        return Evaluate(tvm.tirx.const(0, "int32")) if seen == which else node

    functions = {
        name.name_hint: structural_map(function, (kind, edit))
        for name, function in module.functions_items()
    }
    assert seen >= which, f"there are {seen + 1} statements with {wanted}"
    return tvm.IRModule(functions)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_a_recipe_has_no_faults_and_the_right_numbers(recipe: Recipe) -> None:
    golden = run_golden(recipe)
    # Before its instructions each lane of a warp computes all of the warp's tile, one by one, and
    # before its threads one thread all of a block's. Those of recipes before are run there.
    last = golden.steps[-1]
    if SIMULATOR.find_obstacle(last.module) is None:
        assert check_golden_on_simulator(recipe.name).findings == []
    others = [step for step in list_new_steps(golden) if step is not last]
    for step in [] if recipe.arch else others:
        is_slow = "threadIdx" not in step.module.script()
        if not is_slow and SIMULATOR.find_obstacle(step.module) is None:
            where = golden.label(step)
            with lowering_once():
                assert check_numbers(golden.problem, step.module, SIMULATOR, where=where) == []


@pytest.mark.parametrize("name", WITH_BARRIERS)
def test_every_dropped_barrier_is_a_race(name: str) -> None:
    golden = run_golden(RECIPES[name])
    lowered = lower(golden.steps[-1].module)
    barriers = lowered.script().count("tvm_storage_sync")
    assert barriers >= 1
    for which in range(barriers):
        planted = drop(lowered, Evaluate, "tvm_storage_sync", which)
        found = simulate_lowered(planted, arguments(golden.problem)).findings
        assert {finding.kind for finding in found} == {"race"}
        assert "with no barrier in between" in found[0].message


def test_a_race_is_told_with_threads_index_and_line() -> None:
    golden = run_golden(RECIPES["matmul_shared_blocking"])
    planted = drop(lower(golden.steps[-1].module), Evaluate, "tvm_storage_sync", 1)
    finding = simulate_lowered(planted, arguments(golden.problem)).findings[0]
    assert finding.message == (
        "load of A_shared[0] by thread (1, 0, 0) of block (0, 0, 0) and store by thread (0, 0, 0) "
        "of block (0, 0, 0) with no barrier in between"
    )
    assert "modules/matmul.py:" in finding.location
    assert str(finding).startswith("race: load of A_shared[0] by thread (1, 0, 0)")


def test_a_lost_fetch_reads_what_nobody_wrote() -> None:
    golden = run_golden(RECIPES["matmul_shared_blocking"])
    planted = drop(lower(golden.steps[-1].module), BufferStore, "B_shared[", 0)
    (finding,) = simulate_lowered(planted, arguments(golden.problem)).findings
    assert finding.kind == "uninitialized read"
    assert finding.message == (
        "load of B_shared[0] by thread (0, 0, 0) of block (0, 0, 0) before any store to it"
    )


def shorten(module: tvm.IRModule) -> tvm.IRModule:
    """Every loop of two rounds makes one."""

    def edit(loop: For) -> For:
        if int(loop.extent) != 2:
            return loop
        extent = tvm.tirx.const(1, "int32")
        return For(loop.loop_var, loop.min, extent, loop.kind, loop.body, None, {}, loop.step)

    return tvm.IRModule({"main": structural_map(module["main"], (For, edit))})


def test_a_fetch_one_round_short_is_found() -> None:
    golden = run_golden(RECIPES["window_sum_shared"])
    lowered = lower(golden.steps[-1].module)
    (finding,) = simulate_lowered(shorten(lowered), arguments(golden.problem)).findings
    assert finding.kind == "uninitialized read"
    assert "load of A_shared[128] by thread (127, 0, 0) of block (0, 0, 0)" in finding.message


def test_a_fetch_into_registers_reads_another_threads() -> None:
    """Plain TVM accepts a cooperative fetch into scope "local"; its numbers are wrong on a GPU."""
    problem = matmul.problem(16, 16, 16)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(4, 4), fuse_threads=True)
    copy = cache_read_at(sch, block, tile.blocks[1], operand=0, scope="local")
    fetch = sch.fuse(*sch.get_loops(copy)[-2:])
    sch.bind(sch.split(fetch, [None, 16])[1], "threadIdx.x")
    (finding,) = findings(problem, sch.mod)
    assert finding.kind == "uninitialized read"
    assert "load of A_local[0] by thread (1, 0, 0) of block (0, 0, 0), which never stored" in str(
        finding
    )
    assert "thread (0, 0, 0) of block (0, 0, 0) did, in a register of its own" in finding.message


def test_an_access_beyond_the_end_is_found_and_does_no_harm() -> None:
    result = simulate(BeyondTheEnd, [np.arange(30, dtype="float32"), np.full(30, np.nan, "f4")])
    load, store = result.findings
    assert (load.kind, store.kind) == ("out of bounds", "out of bounds")
    assert (
        "load of A[30] by thread (6, 0, 0) of block (3, 0, 0) (A has 30 elements)" in load.message
    )
    assert "store to B[30] by thread (6, 0, 0) of block (3, 0, 0)" in store.message
    assert (load.count, store.count) == (2, 2)
    np.testing.assert_array_equal(result.arguments[1], np.arange(30))


@I.ir_module
class DivergentBarrier:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32")):
        for block in T.thread_binding(2, thread="blockIdx.x"):
            for thread in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("A"):
                    vi = T.axis.spatial(64, block * 32 + thread)
                    T.reads()
                    T.writes(A[vi])
                    if vi % 32 < 16:
                        T.evaluate(T.tvm_storage_sync("shared"))
                    A[vi] = T.float32(1)


def test_a_divergent_barrier_is_found() -> None:
    found = simulate(DivergentBarrier, [np.full(64, np.nan, "float32")]).findings
    assert [finding.kind for finding in found] == ["divergent barrier"]
    assert "barrier reached by only some threads of a block" in found[0].message


def test_a_misaligned_vector_is_found() -> None:
    """Rows of 9 elements with vectors of 4: TVM casts to float4 wherever the row begins."""
    problem = matmul.problem(64, 64, 32)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(8, 8), per_thread=(4, 4))
    accumulate_in_registers(sch, block, tile.threads[1])
    steps = split_reduction(sch, block, inner=8)
    copy = cache_read_at(sch, block, steps.outer, operand=0)
    sch.storage_align(copy, 0, -2, 8, 1)
    pieces = sch.split(sch.fuse(*sch.get_loops(copy)[-2:]), [None, 8, 8, 4])
    sch.vectorize(pieces[3])
    bind_loop(sch, pieces[1], axis="threadIdx.y")
    bind_loop(sch, pieces[2], axis="threadIdx.x")
    (finding,) = findings(problem, sch.mod)
    assert finding.kind == "misaligned access"
    assert "vector access at A_shared[9] by " in finding.message


@I.ir_module
class PiecesOfRows:
    """Vectors of four, two elements from each of two rows: TVM stores these one by one."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
        rows = T.alloc_buffer((16, 4), scope="shared")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            rows[tx * 2, 0] = A[tx]
            for lane in T.vectorized(4):
                rows[tx * 2 + lane // 2, 2 + lane % 2] = A[tx * 4 + lane]
            for lane in range(4):
                C[tx * 4 + lane] = rows[tx * 2 + lane // 2, 2 + lane % 2]


def test_a_vector_of_pieces_of_rows_need_not_be_aligned() -> None:
    values = np.arange(32, dtype="float32")
    result = simulate(PiecesOfRows, [values, np.full(32, np.nan, "float32")])
    assert result.findings == []


def test_what_is_no_vector_to_the_code_generator_need_not_be_aligned() -> None:
    """Rows of 7 in rows of 8: of vectors of 4 that go on in the next row some are neighbours."""
    problem = matmul.problem(16, 7, 8)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(16, 1), per_thread=(1, 7))
    accumulate_in_registers(sch, block, tile.threads[1])
    steps = split_reduction(sch, block, inner=4)
    copy = stage_operand_at(
        sch, block, steps.outer, operand=1, threads=(16, 1), vector=4, tail="guard"
    )
    fold_tile(sch, copy, row=2)
    assert findings(problem, sch.mod) == []


def test_of_a_vector_in_one_place_the_last_lane_stays() -> None:
    @I.ir_module
    class Sum:
        @T.prim_func(s_tir=True)
        def main(X: T.Buffer((8,), "int32"), Z: T.Buffer((2,), "int32")):
            for tx in T.thread_binding(2, thread="threadIdx.x"):
                Z[tx] = 0
                for lane in T.vectorized(4):
                    Z[tx] = Z[tx] + X[tx * 4 + lane]

    given = [np.arange(8, dtype="int32"), np.zeros(2, "int32")]
    simulation = simulate(Sum, given)
    assert simulation.arguments[1].tolist() == [3, 7]
    assert not simulation.findings


def test_two_loops_on_one_axis_compute_the_diagonal_alone() -> None:
    problem = matmul.problem(16, 16, 8)
    sch = Schedule(problem.module)
    i, j, _ = sch.get_loops(sch.get_sblock("C"))
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "blockIdx.x")
    (finding,) = check_numbers(problem, sch.mod, SIMULATOR, where="here")
    assert "C[0, 1] is nan" in finding.message
    assert "240 of 256 elements are wrong" in finding.message


def test_extents_that_differ_launch_too_few_threads() -> None:
    """128 threads compute and 64 fetch: TVM launches 64, and half of C is never written."""
    problem = matmul.problem(64, 64, 32)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile_block(sch, block, threads=(16, 8), fuse_threads=True)
    steps = split_reduction(sch, block, inner=8)
    copy = cache_read_at(sch, block, steps.outer, operand=0)
    sch.bind(sch.split(sch.fuse(*sch.get_loops(copy)[-2:]), [None, 64])[1], "threadIdx.x")
    (finding,) = check_numbers(problem, sch.mod, SIMULATOR, where="here")
    assert "2048 of 4096 elements are wrong" in finding.message


def test_too_many_threads_are_found() -> None:
    problem = vector_add.problem(4096)
    sch = Schedule(problem.module)
    outer, inner = sch.split(sch.get_loops(sch.get_sblock("C"))[0], [None, 2048])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    found = [str(finding) for finding in findings(problem, sch.mod)]
    assert "launch: a thread block of 2048 threads exceeds a GPU's limit of 1024" in found
    assert "launch: extent 2048 of 'threadIdx.x' exceeds a GPU's limit of 1024" in found


@pytest.mark.parametrize(("n", "operands", "together"), [(32768, 1, 131072), (8192, 2, 65536)])
def test_too_much_shared_memory_is_found(n: int, operands: int, together: int) -> None:
    """One tile beyond the limit, or two that are each within it."""
    problem = vector_add.problem(n)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    outer, _, inner = sch.split(sch.get_loops(block)[0], [1, None, 256])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    for operand in range(operands):
        copy = cache_read_at(sch, block, outer, operand=operand)
        sch.bind(sch.split(sch.get_loops(copy)[-1], [None, 256])[1], "threadIdx.x")
    (finding,) = findings(problem, sch.mod)
    assert f"{together} bytes of scope 'shared' exceed a GPU's limit of 49152" in str(finding)


@pytest.mark.parametrize("threads", [8, 16, 32, 64, 96])
def test_a_reduction_over_threads_shuffles_within_warps_and_meets_at_barriers(threads: int) -> None:
    sch = Schedule(RowSum)
    i, k = sch.get_loops(sch.get_sblock("B"))
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(k, [None, threads])[1], "threadIdx.x")
    rows = np.random.default_rng(0).integers(-4, 5, (5, 192)).astype("float32")
    result = simulate(sch.mod, [rows, np.full(5, np.nan, "float32")])
    assert result.findings == []
    np.testing.assert_array_equal(result.arguments[1], rows.sum(axis=1))


@I.ir_module
class TwoKernels:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
        B = T.sblock_alloc_buffer((64,))
        for i in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("B"):
                vi = T.axis.spatial(64, i)
                B[vi] = A[vi] + T.float32(1)
        for i in T.thread_binding(64, thread="blockIdx.x"):
            with T.sblock("C"):
                vi = T.axis.spatial(64, i)
                C[vi] = B[63 - vi] * T.float32(2)


def test_two_kernels_run_one_after_the_other_without_a_race() -> None:
    values = np.arange(64, dtype="float32")
    result = simulate(TwoKernels, [values, np.full(64, np.nan, "float32")])
    assert result.findings == []
    np.testing.assert_array_equal(result.arguments[1], (values[::-1] + 1) * 2)


@I.ir_module
class BlocksShareAnElement:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
        for i in T.thread_binding(8, thread="blockIdx.x"):
            with T.sblock("B"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi])
                T.writes(B[0])
                B[0] = A[vi]


def test_two_blocks_that_write_one_element_race() -> None:
    values = np.arange(8, dtype="float32")
    found = simulate(BlocksShareAnElement, [values, np.full(1, np.nan, "float32")]).findings
    assert [finding.kind for finding in found] == ["race"]
    assert "B[0]" in found[0].message


def test_equal_values_written_at_once_are_no_race() -> None:
    found = simulate(
        BlocksShareAnElement, [np.ones(8, "float32"), np.full(1, np.nan, "f4")]
    ).findings
    assert found == []


def test_float32_rounds_like_float32() -> None:
    problem = matmul.problem(8, 8, 300)
    sch = Schedule(problem.module)
    tile_block(sch, sch.get_sblock("C"), threads=(8, 8))
    a, b = problem.float_inputs(0)
    (got,) = run(SIMULATOR.compile(sch.mod), [a, b], problem.outputs)
    expected = np.zeros((8, 8), "float32")
    for k in range(300):
        expected = expected + np.outer(a[:, k], b[k]).astype("float32")
    np.testing.assert_array_equal(got, expected)


def test_counts_see_bank_conflicts_and_coalescing() -> None:
    """v3 walks down rows of 8 floats: 4 rows share a bank, and neighbours lie far apart."""
    counts = {}
    for name in ("matmul_shared", "matmul_rows_on_blocks"):
        golden = run_golden(RECIPES[name])
        module = golden.steps[-1].module
        counts[name] = simulate(module, arguments(golden.problem)).counts
    shared = counts["matmul_shared"]
    assert shared.barriers == 2 * 32 // 8
    assert shared.scopes["shared"].bank_conflicts > 0
    rows = counts["matmul_rows_on_blocks"].scopes["global"]
    assert rows.bytes == (1 + 32 * 4) * 48 * 4  # the zero; then A, B and C read, C written
    assert rows.sectors_per_request < 4


def test_a_step_that_cannot_be_launched_is_refused_in_a_sentence() -> None:
    with pytest.raises(DeviceError, match="not bound yet: C; bind its loops first"):
        SIMULATOR.compile(matmul(8, 8, 8))


def test_the_simulator_has_no_clock() -> None:
    with pytest.raises(DeviceError, match="say nothing about a GPU"):
        SIMULATOR.time(matmul(8, 8, 8), [])
