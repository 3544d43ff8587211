"""The four verdicts: what is called right, clean, wrong or not judged, and exit codes."""

import pytest
import tvm
from tvm.script import from_source

from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.judgement import Status, get_exit_code, judge_numbers
from tirstep.lowering_checks.reference import ModuleKernel

R, C, W, N = Status.RIGHT, Status.CLEAN, Status.WRONG, Status.NOT_JUDGED
HEAD = """
@T.prim_func(s_tir=True)
def main(
    A: T.Buffer((64,), "float32"), at: T.Buffer((64,), "int32"), C: T.Buffer((64,), "float32")
):
"""
THREADS = """
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("C"):
                v = T.axis.spatial(64, tx)
                S = T.sblock_alloc_buffer((64,), "float32", scope="shared")
                S[v] = A[v]
                BARRIER
                C[v] = VALUE
"""
SYNC = 'T.tvm_storage_sync("shared")'


def with_threads(value: str, barrier: str = SYNC) -> str:
    return THREADS.replace("VALUE", value).replace("BARRIER", barrier)


SERIAL = "    for i in range(64):\n        C[i] = "
FAR = 'T.Cast("int32", A[v] * T.float32(1000))'
HALF = f"if v < 32:\n                    {SYNC}"


@pytest.mark.parametrize(
    ("body", "status", "device", "told"),
    [
        (SERIAL + "A[i] * T.float32(2)", R, "cpu", ""),
        (SERIAL + "A[i + 1]", W, "cpu", "the index of A[i + 1] leaves its buffer"),
        (SERIAL + 'T.call_extern("float32", "f", A[i])', N, "", "cannot be judged"),
        (with_threads("S[63 - v]"), C, "simulator", "'tvm_storage_sync' makes threads of a GPU"),
        (with_threads("S[63 - v]", "S[v // 2] = A[v]"), W, "simulator", "race"),
        (with_threads("S[63 - v]", HALF), W, "simulator", "divergent"),
        (with_threads("S[63 - v] + A[v + 1]"), W, "simulator", "out of bounds"),
        (with_threads("S[63 - v] + A[at[v] * 2]"), C, "simulator", ""),
        # Whether A may be so large is not known.
        (with_threads(f"S[63 - v] + A[{FAR}]"), N, "simulator", "with the random data,"),
    ],
)
def test_each_program_has_its_verdict(body: str, status: Status, device: str, told: str) -> None:
    problem = ModuleKernel(tvm.IRModule({"main": from_source(HEAD + body)}), "f").problem()
    runner = get_device("simulator" if "thread_binding" in body else "cpu")
    judged = judge_numbers(problem, problem.module, runner, where="f")
    assert (judged.status, judged.device) == (status, device)
    assert bool(judged.findings) == (status is W)
    assert told in " ".join([judged.reason, *map(str, judged.findings)])


@pytest.mark.parametrize(
    ("statuses", "code", "strict"),
    [
        ([], 0, 0),
        ([R, C], 0, 0),
        ([R, N], 0, 3),
        ([N, N], 3, 3),
        ([C, N, W], 1, 1),
        ([N, W], 1, 1),
    ],
)
def test_exit_codes(statuses: list[Status], code: int, strict: int) -> None:
    assert get_exit_code(statuses) == code
    assert get_exit_code(statuses, strict=True) == strict
