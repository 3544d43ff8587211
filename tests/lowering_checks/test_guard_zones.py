"""Stores that stray beside a tensor are seen on the CPU and on a GPU, and do no harm there."""

import numpy as np
import pytest
from kernels import parse_kernel

from tirstep.lowering_checks import get_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
ON_EACH = pytest.mark.parametrize("device", DEVICES)


def shift(by: int, length: int = 30):
    """One thread for each element; without a GPU the threads are a loop."""
    return parse_kernel(f"""
        A ({length},), B ({length},)
        for i in T.thread_binding({length}, thread="threadIdx.x"):
            with T.sblock("B", "S", i):
                B[vi + {by}] = A[vi]
    """)


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
