"""The simulator computes what a GPU computes, and sees what is planted in a kernel.

Plants are made in scheduled modules by TVM's own primitives, or in the lowered module by dropping
statements, so that the schedule itself looks right.
"""

import numpy as np
import pytest
import tvm
from golden_runs import check_golden_on_simulator, list_new_steps, lowering_once, run_golden
from kernels import parse_kernel
from tvm.s_tir import Schedule
from tvm.tirx import Evaluate
from tvm_ffi import structural_map

from tirstep.lowering_checks import DeviceError, check_numbers, get_device
from tirstep.lowering_checks.devices import DeviceFinding
from tirstep.lowering_checks.devices.simulator import lower, simulate, simulate_lowered
from tirstep.modules import Problem, matmul, vector_add
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


@pytest.mark.share(30)
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
        "of block (0, 0, 0), within one warp, with no barrier in between"
    )
    assert "modules/matmul.py:" in finding.location
    assert str(finding).startswith("race: load of A_shared[0] by thread (1, 0, 0)")


DivergentBarrier = parse_kernel("""
    A (64,)
    for block in T.thread_binding(2, thread="blockIdx.x"):
        for thread in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("A"):
                vi = T.axis.spatial(64, block * 32 + thread)
                if vi % 32 < 16:
                    T.evaluate(T.tvm_storage_sync("shared"))
                A[vi] = T.float32(1)
""")


def test_a_divergent_barrier_is_found() -> None:
    found = simulate(DivergentBarrier, [np.full(64, np.nan, "float32")]).findings
    assert [finding.kind for finding in found] == ["divergent barrier"]
    assert "barrier reached by only some threads of a block" in found[0].message


# Vectors of four, two elements from each of two rows: TVM stores these one by one.
PiecesOfRows = parse_kernel("""
    A (32,), C (32,)
    rows = T.alloc_buffer((16, 4), scope="shared")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        rows[tx * 2, 0] = A[tx]
        for lane in T.vectorized(4):
            rows[tx * 2 + lane // 2, 2 + lane % 2] = A[tx * 4 + lane]
        for lane in range(4):
            C[tx * 4 + lane] = rows[tx * 2 + lane // 2, 2 + lane % 2]
""")


def test_a_vector_of_pieces_of_rows_need_not_be_aligned() -> None:
    values = np.arange(32, dtype="float32")
    result = simulate(PiecesOfRows, [values, np.full(32, np.nan, "float32")])
    assert result.findings == []


def test_too_many_threads_are_found() -> None:
    problem = vector_add.problem(4096)
    sch = Schedule(problem.module)
    outer, inner = sch.split(sch.get_loops(sch.get_sblock("C"))[0], [None, 2048])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    found = [str(finding) for finding in findings(problem, sch.mod)]
    assert "launch: a thread block of 2048 threads exceeds a GPU's limit of 1024" in found
    assert "launch: extent 2048 of 'threadIdx.x' exceeds a GPU's limit of 1024" in found


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
