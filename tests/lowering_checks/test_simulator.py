"""The simulator computes what a GPU computes, and sees what is planted in a kernel.

Plants are made in scheduled modules by TVM's own primitives, or in the lowered module by dropping
statements, so that the schedule itself looks right.
"""

import numpy as np
import pytest
import tvm
from edits import drop_barrier
from golden_runs import check_golden_on_simulator, list_new_steps, lowering_once, run_golden
from kernels import parse_kernel

from tirstep.lowering_checks import DeviceError, check_numbers, get_device
from tirstep.lowering_checks.devices import DeviceFinding
from tirstep.lowering_checks.devices.simulator import lower, simulate, simulate_lowered
from tirstep.modules import Problem, matmul
from tirstep.transforms.recipes import RECIPES, Recipe

SIMULATOR = get_device("simulator")


def arguments(problem: Problem) -> list[np.ndarray]:
    outputs = [np.full(output.shape, np.nan, output.dtype) for output in problem.outputs]
    return [*problem.integer_inputs(0), *outputs]


def findings(problem: Problem, module: tvm.IRModule) -> list[DeviceFinding]:
    return simulate(module, arguments(problem)).findings


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


def test_a_race_is_told_with_threads_index_and_line() -> None:
    golden = run_golden(RECIPES["matmul_shared_blocking"])
    planted = drop_barrier(lower(golden.steps[-1].module), 1)
    finding = simulate_lowered(planted, arguments(golden.problem)).findings[0]
    assert finding.message == (
        "load of A_shared[0] by thread (1, 0, 0) of block (0, 0, 0) and store by thread (0, 0, 0) "
        "of block (0, 0, 0), within one warp, with no barrier in between"
    )
    assert "modules/matmul.py:" in finding.location
    assert str(finding).startswith("race: load of A_shared[0] by thread (1, 0, 0)")


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
