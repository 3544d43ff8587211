"""What the simulator once let through: masked vectors, barriers of warps, shuffles, launches."""

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import DeviceError, find_device, run_golden
from tirstep.lowering_checks.devices.simulator import lower, simulate_lowered
from tirstep.modules import matmul, vector_add
from tirstep.transforms.recipes import RECIPES

SIMULATOR = find_device("simulator")


def faults(problem, lowered: tvm.IRModule):
    outputs = [np.full(one.shape, np.nan, one.dtype) for one in problem.outputs]
    return simulate_lowered(lowered, [*problem.integer_inputs(0), *outputs]).faults


def bound(n: int, threads: int, block_axis: str, thread_axis: str):
    problem = vector_add.problem(n)
    sch = Schedule(problem.module)
    outer, inner = sch.split(sch.get_loops(sch.get_sblock("C"))[0], [None, threads])
    sch.bind(outer, block_axis)
    sch.bind(inner, thread_axis)
    return problem, sch.mod


def edited(problem, module: tvm.IRModule, old: str, new: str):
    text = lower(module).script()
    assert old in text
    return faults(problem, from_source(text.replace(old, new, 1)))


def test_a_misaligned_vector_under_a_guard_is_found() -> None:
    """Half of the threads fetch, each a vector that begins one element late."""
    golden = run_golden(RECIPES["matmul_shared_blocking"])
    old, new = "k_0 * 4, 1, 4)", "k_0 * 4 + 1, 1, 4)"
    fault = edited(golden.problem, golden.steps[-1].module, old, new)[0]
    assert fault.kind == "misaligned access"
    assert "touches A[1] with a vector of 4" in fault.text


def test_a_barrier_of_a_warp_does_not_order_a_block() -> None:
    golden = run_golden(RECIPES["matmul_shared"])
    old, new = 'T.tvm_storage_sync("shared")', 'T.tvm_storage_sync("warp")'
    found = edited(golden.problem, golden.steps[-1].module, old, new)
    assert {fault.kind for fault in found} == {"race"}


@pytest.fixture
def shuffled():
    problem = matmul.problem(2, 3, 64)
    sch = Schedule(problem.module)
    i, j, k = sch.get_loops(sch.get_sblock("C"))
    sch.bind(i, "blockIdx.y")
    sch.bind(j, "blockIdx.x")
    sch.bind(sch.split(k, [None, 32])[1], "threadIdx.x")
    return problem, sch.mod


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("T.tvm_warp_activemask()", "T.uint32(65535)"),
        ("t0[0] = T.tvm", "if threadIdx_x < 16:\n                        t0[0] = T.tvm"),
    ],
    ids=["mask", "branch"],
)
def test_a_shuffle_without_its_partner_is_found(shuffled, old: str, new: str) -> None:
    problem, module = shuffled
    assert faults(problem, lower(module)) == []
    fault = edited(problem, module, old, new)[0]
    assert fault.kind == "divergent shuffle"
    assert "and not both take part in the shuffle" in fault.text


def test_an_axis_that_no_gpu_has_is_refused() -> None:
    problem, module = bound(64, 8, "blockIdx.x", "threadIdx.q")
    with pytest.raises(DeviceError, match="which a GPU does not have; bind its loops"):
        faults(problem, lower(module))


@pytest.mark.parametrize(
    ("n", "threads", "axes", "sentence"),
    [
        (256, 128, ("blockIdx.x", "threadIdx.z"), "'threadIdx.z' has the extent 128"),
        (65536, 1, ("blockIdx.y", "threadIdx.x"), "'blockIdx.y' has the extent 65536"),
    ],
)
def test_a_launch_beyond_the_limits_is_found(n, threads, axes, sentence) -> None:
    problem, module = bound(n, threads, *axes)
    (fault,) = faults(problem, lower(module))
    assert fault.kind == "launch"
    assert sentence in fault.text


def test_a_loop_on_the_host_launches_again_and_again() -> None:
    problem = vector_add.problem(64)
    sch = Schedule(problem.module)
    sch.bind(sch.split(sch.get_loops(sch.get_sblock("C"))[0], [None, 8])[1], "threadIdx.x")
    program = SIMULATOR.compile(sch.mod)
    a, b = problem.integer_inputs(0)
    result = program([a, b, np.full(64, np.nan, "float32")])[-1]
    assert list(program.faults) == []
    np.testing.assert_array_equal(result, a + b)
