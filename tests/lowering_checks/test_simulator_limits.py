"""What the simulator once let through: masked vectors, barriers of warps, shuffles, launches."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from known import read_programs
from lowered import find_kinds, run_kernel
from tvm.s_tir import Schedule

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.device import NotRunError
from tirstep.lowering_checks.devices.simulator import UnsupportedError, lower, simulate_lowered
from tirstep.modules import vector_add


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


def test_an_axis_that_no_gpu_has_is_refused() -> None:
    problem, module = bound(64, 8, "blockIdx.x", "threadIdx.q")
    with pytest.raises(DeviceError, match="which a GPU does not have; bind its loops"):
        findings(problem, lower(module))


CLUSTER = 'T.launch_thread("clusterCtaIdx.x", 2)'


@pytest.mark.parametrize(
    ("launch", "error", "message"),
    [
        (
            CLUSTER.replace(".x", ".y"),
            DeviceError,
            "1 blocks along 'blockIdx.y' are not whole",
        ),
        (CLUSTER.replace("2", "3"), DeviceError, "2 blocks along 'blockIdx.x' are not whole clus"),
    ],
)
def test_clusters_that_do_not_divide_the_blocks_are_refused(
    launch: str, error: type[Exception], message: str
) -> None:
    name = "MulticastToOneBlockForWhichTwoWait"
    (program,) = (program for program in read_programs() if program.name == name)
    assert CLUSTER in program.text
    changed = replace(program, text=program.text.replace(CLUSTER, launch))
    with pytest.raises(error, match=message):
        simulate_lowered(changed.module, program.make_arguments())


def test_a_cluster_that_no_gpu_launches_is_a_finding() -> None:
    name = "MulticastForWhichBothBlocksAnnounceAndWait"
    (program,) = (program for program in read_programs() if program.name == name)
    text = program.text.replace(CLUSTER, CLUSTER.replace("2", "32"))
    text = text.replace('T.launch_thread("blockIdx.x", 2)', 'T.launch_thread("blockIdx.x", 32)')
    changed = replace(program, text=text)
    found = simulate_lowered(changed.module, program.make_arguments()).findings
    (launch,) = (each.message for each in found if each.kind == "launch")
    assert launch == "a cluster of 32 blocks exceeds a GPU's limit of 16"


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


def test_a_view_of_a_wider_type_needs_a_multiple_of_its_bytes() -> None:
    arrays = {"A": np.zeros(3, "float16"), "B": np.zeros(1, "float32")}
    with pytest.raises(UnsupportedError, match="of A, whose 6 bytes must be a multiple of 4"):
        run_kernel(arrays, 'W = T.decl_buffer((1,), "float32", data=A.data)\n---\nB[tx] = W[tx]')


def test_a_kernel_for_a_gpu_that_is_not_known_is_not_judged() -> None:
    (program,) = (it for it in read_programs() if it.name == "RowTurnedRoundThroughSharedMemory")
    device, function = get_device("simulator"), program.module["main"]
    for arch in ("sm_50", "sm_90a", "sm_100f"):
        target = tvm.target.Target({"kind": "cuda", "arch": arch})
        device.compile(tvm.IRModule({"main": function.with_attr("target", target)}))
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_107a"})
    with pytest.raises(NotRunError, match="does not know the limits of a GPU of sm_107a"):
        device.compile(tvm.IRModule({"main": function.with_attr("target", target)}))
