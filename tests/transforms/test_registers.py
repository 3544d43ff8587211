"""Registers: what one thread may read, and what it may not. No legal schedule is refused."""

from kernels import parse_kernel
from pairs import refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.pytest_plugin import Check


def make_shift(shift):
    """L in registers, and C reads it `shift` elements further on, round and round."""
    return parse_kernel(f"""
        A (8, 32), C (8, 32)
        L = T.sblock_alloc_buffer((8, 32), scope="local")
        for i in range(8):
            for j in range(32):
                with T.sblock("L", "SS", i, j):
                    L[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(32):
                with T.sblock("C", "SS", i, j):
                    C[vi, vj] = L[vi, (vj + {shift}) % 32]
    """)


def test_a_thread_may_not_read_a_bit_more_than_its_own():
    Pairs = parse_kernel("""
        A (32,), C (31,)
        L = T.sblock_alloc_buffer((32,), scope="local")
        for i in range(32):
            with T.sblock("L", "S", i):
                L[vi] = A[vi] * T.float32(2)
        for i in range(31):
            with T.sblock("C", "S", i):
                C[vi] = L[vi] + L[vi + 1]
    """)

    sch = Schedule(Pairs, debug_mask="all")
    (write,), (read,) = (sch.get_loops(sch.get_sblock(name)) for name in "LC")
    tr.bind_loop(sch, tr.split_loop(sch, read, inner=8, tail="guard").outer, axis="threadIdx.x")
    outer = tr.split_loop(sch, write, inner=8).outer
    with refuses(sch, "block 'C' would read what other threads wrote"):
        tr.bind_loop(sch, outer, axis="threadIdx.x")


def test_what_is_not_a_range_may_be_read_in_the_loop_that_wrote_it(tir_check: Check):
    Strided = parse_kernel("""
        A (32,), C (32,)
        L = T.sblock_alloc_buffer((64,), scope="local")
        for i in range(4):
            for j in range(8):
                with T.sblock("L"):
                    vi = T.axis.spatial(32, i * 8 + j)
                    L[vi * 2] = A[vi] * T.float32(2)
            for j in range(8):
                with T.sblock("C"):
                    vi = T.axis.spatial(32, i * 8 + j)
                    C[vi] = L[vi * 2]
    """)

    sch = Schedule(Strided, debug_mask="all")
    tr.bind_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], axis="threadIdx.x")
    assert tir_check(sch.mod, Strided, devices=["simulator"]) == ["simulator"]


def test_a_loop_of_one_thread_shares_with_all(tir_check: Check):
    sch = Schedule(make_shift(1), debug_mask="all")
    rows, write = sch.get_loops(sch.get_sblock("L"))
    tr.bind_loop(sch, rows, axis="blockIdx.x")
    tr.bind_loop(sch, tr.split_loop(sch, write, inner=32).outer, axis="threadIdx.x")
    assert tir_check(sch.mod, make_shift(1), devices=["simulator"]) == ["simulator"]


def test_a_thread_whose_initialization_is_another_thread_s_where_the_last_threads_do_nothing():
    """Of so many threads one row is looked at: the last one that there is, of which none is let in,
    or else the first."""
    Sums = parse_kernel("""
        A (3, 4, 2), B (3, 4)
        P = T.sblock_alloc_buffer((3, 4), scope="local")
        for y in T.thread_binding(16, thread="threadIdx.y"):
            for x in T.thread_binding(16, thread="threadIdx.x"):
                for i, j in T.grid(4, 4):
                    with T.sblock("zero"):
                        vi = T.axis.spatial(3, y * 4 + i)
                        vj = T.axis.spatial(4, x * 4 + j)
                        T.where(y * 4 + i < 3 and x * 4 + j < 4)
                        P[vi, vj] = T.float32(0)
                for k, i, j in T.grid(8, 4, 4):
                    with T.sblock("add"):
                        vi = T.axis.spatial(3, y * 4 + i)
                        vj = T.axis.spatial(4, x * 4 + j)
                        vk = T.axis.reduce(2, k)
                        T.where(y * 4 + i < 3 and x * 4 + j < 4 and k < 2)
                        P[vi, vj] = P[vi, vj] + A[vi, vj, vk]
                for i, j in T.grid(4, 4):
                    with T.sblock("B"):
                        vi = T.axis.spatial(3, y * 4 + i)
                        vj = T.axis.spatial(4, x * 4 + j)
                        T.where(y * 4 + i < 3 and x * 4 + j < 4)
                        B[vi, vj] = P[vi, vj]
    """)
    sch = Schedule(Sums)
    zero, stored = (sch.get_loops(sch.get_sblock(name))[-1] for name in ("zero", "B"))
    tr.bind_loop(sch, stored, axis="threadIdx.z")
    note = "'threadIdx.z' write the register buffer 'P' in block 'zero', and block 'add' would"
    with refuses(sch, note):
        tr.bind_loop(sch, zero, axis="threadIdx.z")
