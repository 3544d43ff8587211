"""Copies that would go beyond the end of a buffer, where TVM forgets a guard of its writer."""

import pytest
from kernels import parse_kernel
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.legality.accesses import find_outside
from tirstep.modules import Problem, matmul_bias_relu
from tirstep.transforms import bind_loop, cache_read_at, fuse_loops, split_loop, stage_operand_at

SENTENCE = (
    "block 'C_shared' would read elements of 'C' outside of its 4 along dimension 0; "
    "do this before the loops of the block that writes it are split with a guard, or choose "
    "sizes that divide"
)


def tile(sch: Schedule, block: SBlockRV, threads: int) -> None:
    """The rows and columns of a block as one loop, spread over threads with a guard."""
    fused = fuse_loops(sch, sch.get_loops(block)[:2])
    outer, inner = split_loop(sch, fused, inner=threads, tail="guard")
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")


def start(threads: int, names: tuple[str, ...] = ("C", "D")) -> tuple[Problem, Schedule]:
    """C and its epilogue, of 4 rows of 5: 32 threads are 7 of these, and 16 are 4."""
    problem = matmul_bias_relu.problem(4, 5, 3)
    sch = Schedule(problem.module)
    for name in names:
        tile(sch, sch.get_sblock(name), threads)
    return problem, sch


def test_a_fetch_of_what_a_guarded_block_writes():
    _, sch = start(32)
    block = sch.get_sblock("D")
    loop = sch.get_loops(block)[0]
    with refuses(sch, SENTENCE):
        stage_operand_at(sch, block, loop, operand=0, threads=32, tail="guard")


@pytest.mark.parametrize(
    ("threads", "names", "place"),
    [(16, ("C", "D"), 0), (16, ("C", "D"), 1), (32, ("C",), 0), (32, ("D",), 0), (20, ("C",), 1)],
)
def test_copies_that_stay_inside(threads: int, names: tuple[str, ...], place: int):
    """A copy for which TVM sets up 7 rows goes over those alone that its reader has."""
    problem, sch = start(threads, names)
    block = sch.get_sblock("D")
    cache_read_at(sch, block, sch.get_loops(block)[place], operand=0, scope="local")
    for name in ("cpu", "simulator"):
        device = get_device(name)
        if device.find_obstacle(sch.mod) is None:
            assert check_numbers(problem, sch.mod, device, where="here") == []


def test_what_is_outside_is_told_with_its_dimension():
    Shifted = parse_kernel("""
        A (4, 8), B (4, 8)
        for i, j, k in T.grid(4, 8, 2):
            with T.sblock("B", "SSS", i, j, k):
                T.where(i * 8 + j < 31)
                B[vi, vj + vk] = T.if_then_else(vj > 0, A[vi, vj - 1], T.float32(0)) + A[vi, vj]
    """)

    assert list(find_outside(Shifted).values()) == [("B", "write", "B", 1, 8)]


def test_rows_that_a_guard_keeps_inside_and_data_that_nobody_knows():
    @I.ir_module
    class Inside:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((8,), "float32"), P: T.Buffer((8,), "int32"), n: T.int32):
            for i, j in T.grid(3, n):
                with T.sblock("A"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.where(i * 3 + j < 8 and j < 3)
                    A[vi * 3 + vj] = A[P[vi * 3 + vj]]

    assert find_outside(Inside) == {}
