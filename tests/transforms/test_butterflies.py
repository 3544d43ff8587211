"""Reductions over lanes by pairs: what becomes of TVM's shuffles, and which ones stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kernels import at_block, parse_kernel
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import get_device
from tirstep.transforms import set_pipeline

SIMULATOR = get_device("simulator")
COMBINED = """
A ({rows}, {lanes}) {dtype}, B ({rows},) {dtype}
for i, k in T.grid({rows}, {lanes}):
    with T.sblock("B", "SR", i, k):
        with T.init():
            B[vi] = {start}
        B[vi] = {term}
"""
SUM = "B[vi] + A[vi, vk]"
MAX = "T.max(B[vi], A[vi, vk])"
MIN = "T.min(B[vi], A[vi, vk])"
PRODUCT = "B[vi] * A[vi, vk]"


def reduce_over(
    lanes: int, rows: int, term: str, dtype: str = "float32", *, start: float = 0
) -> Schedule:
    """Rows of a thread block on threadIdx.y, the lanes of one on threadIdx.x."""
    text = COMBINED.format(
        rows=rows, lanes=lanes, dtype=dtype, term=term, start=f"T.{dtype}({start})"
    )
    sch, _, row, lane = at_block(parse_kernel(text), "B")
    sch.bind(lane, "threadIdx.x")
    sch.bind(row, "threadIdx.y")
    return sch


def compile_in(sch: Schedule, pipeline: str, target: str = "nvidia/nvidia-h100") -> str:
    module = tvm.compile(sch.mod, target=target, tir_pipeline=pipeline)
    source = module.mod.imports[0].inspect_source()
    return str(source[source.index("__global__") :]) if "__global__" in source else str(source)


def run(sch: Schedule, *arguments: np.ndarray) -> np.ndarray:
    program = SIMULATOR.compile(sch.mod)
    output = program(arguments)[-1]
    assert not program.findings
    return output


@pytest.mark.parametrize(
    ("term", "start", "dtype"),
    [
        (SUM, 0, "float32"),
        (PRODUCT, 1, "float32"),
        (MAX, -3.4028234663852886e38, "float32"),
        (MIN, 3.4028234663852886e38, "float32"),
        (SUM, 0, "int32"),
    ],
)
def test_all_bits_are_the_same(term: str, start: float, dtype: str) -> None:
    """Sums of floats too: operands change places, and are added in no other order."""
    rng = np.random.default_rng(7)
    values = rng.uniform(-3, 3, (6, 4)) * 10.0 ** rng.integers(-6, 6, (6, 4))
    found = []
    for pipeline in ("default", "tirstep"):
        sch = reduce_over(4, 6, term, dtype, start=start)
        if pipeline == "tirstep":
            set_pipeline(sch)
        found.append(run(sch, values.astype(dtype), np.full(6, -1, dtype)))
    assert found[0].tobytes() == found[1].tobytes()
    assert "__shfl_xor_sync(" in compile_in(sch, "tirstep")


COMBINE = "r[0] = r[0] + t[0]\n                    r[0] ="
SHUFFLES = """
@I.ir_module
class Shuffles:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for y in T.thread_binding(16, thread="threadIdx.y"):
            for x in T.thread_binding(4, thread="threadIdx.x"):
                with T.sblock(""):
                    T.reads(A[0:64])
                    T.writes(B[0:64])
                    r = T.sblock_alloc_buffer((1,), scope="local")
                    t = T.sblock_alloc_buffer((1,), scope="local")
                    r[0] = A[y * 4 + x]
                    t[0] = T.tvm_warp_shuffle_down(T.uint32(4294967295), r[0], 2, 32, 32)
                    r[0] = r[0] + t[0]
                    t[0] = T.tvm_warp_shuffle_down(T.uint32(4294967295), r[0], 1, 32, 32)
                    r[0] = r[0] + t[0]
                    r[0] = T.tvm_warp_shuffle(T.uint32(4294967295), r[0], y * 4, 32, 32)
                    B[y * 4 + x] = r[0]
"""


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("", "", True),
        ("y * 4, 32, 32", "0, 32, 32", False),  # another group's first lane
        ("y * 4, 32, 32", "y * 4 + 1, 32, 32", False),
        ("r[0], 2, 32", "r[0], 3, 32", False),
        ("r[0], 1, 32, 32", "r[0], 1, 8, 32", False),
        (COMBINE, COMBINE.replace("+", "-"), False),
        (COMBINE, COMBINE.replace("r[0] + t", "t[0] + t"), False),
        (COMBINE, COMBINE.replace("r[0] = r[0] +", "t[0] = r[0] +"), False),
        ("B[y * 4 + x] = r[0]", "B[y * 4 + x] = r[0] + t[0]", False),  # of the lane above
    ],
)
def test_only_all_lanes_of_an_own_group_exchange(old: str, new: str, changes: bool) -> None:
    """Shuffles that are written by hand give what they gave, whichever they are."""
    text = SHUFFLES.replace(old, new) if old else SHUFFLES
    module = from_source(text)
    ours = compile_in(Schedule(module), "tirstep")
    assert ("__shfl_xor_sync(" in ours) == changes
    values = np.random.default_rng(3).uniform(-1, 1, 64).astype("float32")
    found = []
    for asks in (False, True):
        sch = Schedule(module)
        if asks:
            set_pipeline(sch)
        found.append(run(sch, values, np.zeros(64, "float32")))
    assert found[0].tobytes() == found[1].tobytes()
