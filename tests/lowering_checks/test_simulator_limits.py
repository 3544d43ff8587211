"""What the simulator once let through: masked vectors, barriers of warps, shuffles, launches."""

import numpy as np
import pytest
import tvm
from golden_runs import run_golden
from known import read_programs
from lowered import find_kinds, run_kernel
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.compile.compiling import compile_unrun
from tirstep.lowering_checks.devices.simulator import UnsupportedError, lower, simulate_lowered
from tirstep.modules import matmul, vector_add
from tirstep.transforms.recipes import RECIPES

SIMULATOR = get_device("simulator")


@I.ir_module
class Crop:
    """The first 36 columns of 37."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 37), "float32"), B: T.Buffer((8, 36), "float32")):
        for i, j in T.grid(8, 36):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]


def findings(problem, lowered: tvm.IRModule):
    outputs = [np.full(output.shape, np.nan, output.dtype) for output in problem.outputs]
    return simulate_lowered(lowered, [*problem.integer_inputs(0), *outputs]).findings


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
    return findings(problem, from_source(text.replace(old, new, 1)))


def test_a_misaligned_vector_under_a_guard_is_found() -> None:
    """Half of the threads fetch, each a vector that is stored one element late."""
    golden = run_golden(RECIPES["matmul_shared_blocking"])
    old, new = "A_shared[cse_v1:cse_v1 + 4]", "A_shared[cse_v1 + 1:cse_v1 + 5]"
    found = edited(golden.problem, golden.steps[-1].module, old, new)
    (finding,) = (finding for finding in found if finding.kind == "misaligned access")
    assert "vector access at A_shared[1] by " in finding.message


def test_a_vector_that_is_loaded_element_by_element_may_begin_anywhere() -> None:
    """Rows of 37: no base is known to be a multiple of 4, so TVM generates make_float4(A[i], ...).

    The stores go to rows of 36, and are vectors.
    """
    array = np.arange(8 * 37, dtype="float32").reshape(8, 37)
    sch = Schedule(Crop)
    rows, columns = sch.get_loops(sch.get_sblock("B"))
    threads, lanes = sch.split(columns, [None, 4])
    sch.bind(rows, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    sch.vectorize(lanes)
    program = SIMULATOR.compile(sch.mod)
    result = program([array, np.full((8, 36), np.nan, "float32")])[1]
    assert list(program.findings) == []
    np.testing.assert_array_equal(result, array[:, :36])
    executable = compile_unrun(sch.mod, tvm.target.Target("nvidia/nvidia-h100"))
    source = executable.mod.imports[0].inspect_source()
    assert "make_float4(A_ptr[" in source
    assert "*(float4*)(B_ptr" in source


def test_a_pointer_that_an_instruction_takes_must_be_aligned() -> None:
    """cp.async copies 16 bytes at once, from multiples of 16."""
    copy = 'T.evaluate(T.s_tir.cp_async_raw("float32", X.data, tx * 4, A.data, tx * 4 + {0}, 16))'
    body = """\
X = T.alloc_buffer((128,), "float32", scope="shared.dyn")
---
with T.attr({{"async_commit_queue_scope": 0}}):
    {0}
with T.attr({{"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}}):
    B[tx] = X[tx * 4]
"""
    arrays = {"A": np.arange(132, dtype="float32"), "B": np.full(32, np.nan, "float32")}
    for late, wrong in ((0, []), (2, ["misaligned access"])):
        assert find_kinds(run_kernel(arrays, body.format(copy.format(late)))) == wrong


def test_a_barrier_of_a_warp_does_not_order_a_block() -> None:
    golden = run_golden(RECIPES["matmul_shared"])
    old, new = 'T.tvm_storage_sync("shared")', 'T.tvm_storage_sync("warp")'
    found = edited(golden.problem, golden.steps[-1].module, old, new)
    assert {finding.kind for finding in found} == {"race"}


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
    assert findings(problem, lower(module)) == []
    finding = edited(problem, module, old, new)[0]
    assert finding.kind == "divergent shuffle"
    assert "which do not both take part in it" in finding.message


def test_an_axis_that_no_gpu_has_is_refused() -> None:
    problem, module = bound(64, 8, "blockIdx.x", "threadIdx.q")
    with pytest.raises(DeviceError, match="which a GPU does not have; bind its loops"):
        findings(problem, lower(module))


CLUSTER = 'T.launch_thread("clusterCtaIdx.x", 2)'


@pytest.mark.parametrize(
    ("launch", "error", "message"),
    [
        (CLUSTER.replace(".x", ".y"), UnsupportedError, "but along 'clusterCtaIdx.x' alone"),
        (CLUSTER.replace("2", "3"), DeviceError, "2 blocks along 'blockIdx.x' are no whole clus"),
    ],
)
def test_clusters_that_do_not_divide_the_blocks_are_refused(
    launch: str, error: type[Exception], message: str
) -> None:
    name = "MulticastToOneBlockForWhichTwoWait"
    (program,) = (program for program in read_programs() if program.name == name)
    assert CLUSTER in program.text
    module = from_source(program.text.replace(CLUSTER, launch), {"I": I, "T": T})
    with pytest.raises(error, match=message):
        simulate_lowered(module, program.make_arguments())


def test_a_cluster_that_not_every_gpu_launches_is_a_finding() -> None:
    name = "MulticastForWhichBothBlocksAnnounceAndWait"
    (program,) = (program for program in read_programs() if program.name == name)
    text = program.text.replace(CLUSTER, CLUSTER.replace("2", "16"))
    text = text.replace('T.launch_thread("blockIdx.x", 2)', 'T.launch_thread("blockIdx.x", 16)')
    found = simulate_lowered(from_source(text, {"I": I, "T": T}), program.make_arguments()).findings
    (launch,) = (each.message for each in found if each.kind == "launch")
    assert launch == "extent 16 of 'clusterCtaIdx.x' exceeds a GPU's limit of 8"


@pytest.mark.parametrize(
    ("n", "threads", "axes", "sentence"),
    [
        (256, 128, ("blockIdx.x", "threadIdx.z"), "extent 128 of 'threadIdx.z'"),
        (65536, 1, ("blockIdx.y", "threadIdx.x"), "extent 65536 of 'blockIdx.y'"),
    ],
)
def test_a_launch_beyond_the_limits_is_found(n, threads, axes, sentence) -> None:
    problem, module = bound(n, threads, *axes)
    (finding,) = findings(problem, lower(module))
    assert finding.kind == "launch"
    assert sentence in finding.message


def test_a_loop_on_the_host_launches_again_and_again() -> None:
    problem = vector_add.problem(64)
    sch = Schedule(problem.module)
    sch.bind(sch.split(sch.get_loops(sch.get_sblock("C"))[0], [None, 8])[1], "threadIdx.x")
    program = SIMULATOR.compile(sch.mod)
    a, b = problem.integer_inputs(0)
    result = program([a, b, np.full(64, np.nan, "float32")])[-1]
    assert list(program.findings) == []
    np.testing.assert_array_equal(result, a + b)


@pytest.mark.parametrize("elements", [2**20, 2**32])
def test_shared_memory_that_no_gpu_has(elements: int) -> None:
    """A finding, or a refusal where it would be more than the machine has."""
    arrays = {"B": np.full(32, np.nan, "float32")}
    allocation = f'S = T.alloc_buffer(({elements},), "float32", scope="shared")'
    body = f"{allocation}\n---\nS[tx] = 1.0\nB[tx] = S[tx]"
    if elements == 2**20:
        assert find_kinds(run_kernel(arrays, body)) == ["launch"]
    else:
        with pytest.raises(UnsupportedError, match="'S' has 4294967296 elements of float32, more"):
            run_kernel(arrays, body)
