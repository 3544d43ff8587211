"""Stores that stray beside a tensor are seen on the CPU and on a GPU, and do no harm there."""

import numpy as np
import pytest
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import get_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
ON_EACH = pytest.mark.parametrize("device", DEVICES)


def shift(by: int, length: int = 30):
    """One thread for each element; without a GPU the threads are a loop."""

    @I.ir_module
    class Shifted:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((length,), "float32"), B: T.Buffer((length,), "float32")):
            for i in T.thread_binding(length, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi = T.axis.spatial(length, i)
                    B[vi + by] = A[vi]

    return Shifted


def run(module, device: str = "cpu", length: int = 30):
    program = get_device(device).compile(module)
    arrays = program([np.ones(length, "float32"), np.full(length, np.nan, "float32")])
    return arrays, program.findings


@ON_EACH
@pytest.mark.parametrize(("by", "first"), [(1, 30), (-2, -2), (7, 30)])
def test_a_stray_store_is_a_fault(by: int, first: int, device: str) -> None:
    _, (finding,) = run(shift(by), device)
    assert finding.kind == "out of bounds"
    assert finding.message == f"store to B[{first}] (B has 30 elements)"
    assert finding.count == abs(by)
