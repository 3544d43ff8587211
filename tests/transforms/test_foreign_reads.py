"""Reads of elements of global memory that other threads of the same kernel write."""

import textwrap

import numpy as np
import pytest
from kernels import parse_blocks, parse_kernel
from pairs import refuses
from tvm.s_tir import Schedule

from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.legality.reads import find_foreign_reads
from tirstep.transforms import bind_loop, reverse_compute_block_at

SIMULATOR = get_device("simulator")


Divided = parse_kernel("""
    A (8, 4) int32, total (8,) int32, B (8, 4) int32
    T.func_attr({"tirx.noalias": True})
    for i, k in T.grid(8, 4):
        with T.sblock("total", "SR", i, k):
            total[vi] += A[vi, vk]
    for i, j in T.grid(8, 4):
        with T.sblock("B", "SS", i, j):
            B[vi, vj] = A[vi, vj] * 100 // T.max(total[vi], 1)
""")


def test_a_sum_over_threads_is_stored_by_the_first_of_them():
    """All threads add up, and all of them read the result, which one stores."""
    sch = Schedule(Divided)
    total, divided = sch.get_sblock("total"), sch.get_sblock("B")
    row, terms = sch.get_loops(total)
    bind_loop(sch, row, axis="blockIdx.x")
    bind_loop(sch, terms, axis="threadIdx.x")
    plain = sch.copy()
    plain.reverse_compute_at(divided, row)
    plain.bind(plain.get_loops(divided)[1], "threadIdx.x")
    program = SIMULATOR.compile(plain.mod)
    program([np.ones((8, 4), "int32"), np.zeros(8, "int32"), np.zeros((8, 4), "int32")])
    assert [finding.kind for finding in program.findings] == ["race"]
    assert [*find_foreign_reads(plain.mod)] == [("B", "total", "threadIdx.x", False)]
    with refuses(sch, "would read elements of 'total' that others on 'threadIdx.x' write"):
        reverse_compute_block_at(sch, divided, row)


THREADS = "T.thread_binding(8, thread='threadIdx.x')"


def rows(store: str, *, threads: str = THREADS, columns: int = 8) -> str:
    """A block of each thread's row, `vi`; its body may be several lines."""
    name = store.strip().splitlines()[-1].split("[")[0].strip()
    return f"""
for t in {threads}:
    for j in range({columns}):
        with T.sblock("{name}"):
            vi, vj = T.axis.remap("SS", [t, j])
{textwrap.indent(textwrap.dedent(store).strip(), " " * 12)}
"""


def own_loop(store: str, read: str) -> str:
    """A block of each thread that has the loop over its row in its body."""
    name = store[0]
    return f"""
for t in {THREADS}:
    with T.sblock("{name}"):
        vi = T.axis.spatial(8, t)
        T.reads({read})
        T.writes({name}[vi, 0:8])
        D = T.match_buffer({name}[vi, 0:8], (8,), "int32", offset_factor=1)
        for j in range(8):
            {store}
"""


COPY = rows("B[vi, vj] = A[vi, vj]")
WARPS = f"""
for y in T.thread_binding(2, thread="threadIdx.y"):
    with T.sblock("B"):
        vi = T.axis.spatial(2, y)
        T.reads(A[vi * 4:vi * 4 + 4, 0:8])
        T.writes(B[vi * 4:vi * 4 + 4, 0:8])
        for t in {THREADS}:
            for j in range(4):
                B[vi * 4 + j, t] = A[vi * 4 + j, t]
for y in T.thread_binding(2, thread="threadIdx.y"):
    for t in {THREADS}:
        for j in range(4):
            with T.sblock("C"):
                vi = T.axis.spatial(8, y * 4 + j)
                vj = T.axis.spatial(8, t)
                C[vi, vj] = B[ROW, 7 - vj]
"""
LANES = f"""
with T.sblock("C"):
    T.reads(B[0:8, 0:8])
    T.writes(C[0:8, 0:8])
    for t in {THREADS}:
        for j in range(8):
            C[t, j] = B[t, j]
"""
SUM = f"""
for t in {THREADS}:
    for j, k in T.grid(8, 8):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [t, j, k])
            with T.init():
                C[vi, vj] = B[ROW, vj]
            C[vi, vj] = C[vi, vj] + A[vi, vk]
"""
HALVES = """
for y in T.thread_binding(4, thread="threadIdx.y"):
    for i in range(8):
        with T.sblock("other"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(8, y + 4)
            B[vi, vj] = A[vi, vj]
""" + rows("B[vi, vj] = A[vi, vj]", columns=4)
TWICE = f"""
for t in {THREADS}:
    for u in {THREADS}:
        for j in range(8):
            with T.sblock("NAME"):
                vi, vj = T.axis.remap("SS", [t, j])
                NAME[vi, vj] = OF[vi, vj]
"""
TWO = TWICE.replace("NAME", "B").replace("OF", "A") + TWICE.replace("NAME", "C").replace("OF", "B")
FIRST = f"""
for t in {THREADS}:
    for i, j in T.grid(8, 8):
        with T.sblock("B", "SS", i, j):
            T.where(t < 1)
            B[vi, vj] = A[vi, vj]
"""
BRANCH = rows("if vi < 4:\n    B[vi, vj] = A[vi, vj]")
BY_DATA = rows("if A[vi, vj] < 100:\n    B[vi, vj] = A[vi, vj]")

RIGHT = {
    "its own": COPY + rows("C[vi, vj] = B[vi, vj]"),
    "bits": COPY + rows("C[vi, vj] = B[T.bitwise_and(vi, 7), vj]"),
    "shifted bits": COPY + rows("C[vi, vj] = B[T.shift_right(T.shift_left(vi, 1), 1), vj]"),
    "chosen": COPY + rows("C[vi, vj] = T.if_then_else(vi < 4, B[vi, vj], 0)"),
    "never chosen": COPY + rows("C[vi, vj] = T.if_then_else(vj > 8, B[7 - vi, vj], 0)"),
    "column by data": COPY + rows("C[vi, vj] = B[vi, A[vi, vj]]"),
    "written by data": rows("B[vi, A[vi, vj]] = 1") + rows("C[vi, vj] = B[vi, vj]"),
    "first value": COPY + SUM.replace("ROW", "vi"),
    "in place": rows("C[vi, vj] = A[vi, vj] + C[vi, vj]"),
    "not written here": BRANCH + rows("C[vi, vj] = T.if_then_else(vi < 4, B[vi + 4, vj], 0)"),
    "written by data, its own": BY_DATA + rows("C[vi, vj] = B[vi, vj]"),
    "in no branch": COPY + rows("if vi < 0:\n    C[vi, vj] = B[vi + 4, vj]"),
    "loop of the writer": own_loop("B[vi, j] = A[vi, j]", "A[vi, 0:8]")
    + rows("C[vi, vj] = B[vi, vj]"),
    "loop of the reader": COPY + own_loop("C[vi, j] = B[vi, j]", "B[vi, 0:8]"),
    "its warp's": WARPS.replace("ROW", "vi").replace("7 - vj", "vj"),
    "lanes": COPY + LANES,
    "two writers": HALVES + rows("C[vi, vj] = B[vi, vj]", columns=4),
    "nested on one axis": TWO,
    "all compute all": rows("B[vi, vj] = A[vi, vj]", threads="range(8)")
    + rows("C[vi, vj] = B[7 - vi, vj]"),
}
WRONG = {
    "another's": COPY + rows("C[vi, vj] = B[7 - vi, vj]"),
    "bits": COPY + rows("C[vi, vj] = B[T.bitwise_xor(vi, 1), vj]"),
    "more bits": COPY + rows("C[vi, vj] = B[T.bitwise_or(vi, 1), vj]"),
    "shifted bits": COPY + rows("C[vi, vj] = B[T.shift_right(vi, 1), vj]"),
    "chosen": COPY + rows("C[vi, vj] = T.if_then_else(vi < 4, B[vi + 1, vj], 0)"),
    "chosen by data": COPY + rows("C[vi, vj] = T.Select(A[vi, vj] > 0, B[7 - vi, vj], 0)"),
    "row by data": COPY + rows("C[vi, vj] = B[A[vi, vj], vj]"),
    "first value": COPY + SUM.replace("ROW", "7 - vi"),
    "in place": rows("C[vi, vj] = A[vi, vj] + C[7 - vi, vj]"),
    "behind a branch": BRANCH + rows("C[vi, vj] = T.if_then_else(vi < 4, B[3 - vi, vj], 0)"),
    "written by data": BY_DATA + rows("C[vi, vj] = B[7 - vi, vj]"),
    "in a branch": COPY + rows("if vi < 4:\n    C[vi, vj] = B[vi + 4, vj]"),
    "loop of the writer": own_loop("B[vi, j] = A[vi, j]", "A[vi, 0:8]")
    + rows("C[vi, vj] = B[7 - vi, vj]"),
    "loop of the reader": COPY + own_loop("C[vi, j] = B[j, vi]", "B[0:8, vi]"),
    "another warp's": WARPS.replace("ROW", "7 - vi").replace("7 - vj", "vj"),
    "two writers": HALVES + rows("C[vi, vj] = B[vi, vj + 4]", columns=4),
    "the first computes": FIRST + rows("C[vi, vj] = B[vi, vj]"),
}


@pytest.mark.parametrize(
    ("is_wrong", "name"), [*((False, name) for name in RIGHT), *((True, name) for name in WRONG)]
)
def test_programs_whose_status_was_reasoned_first(is_wrong: bool, name: str):
    """Kernels that compute B of A and C of B; the simulator agrees with what was reasoned."""
    module = parse_blocks((WRONG if is_wrong else RIGHT)[name])
    assert bool(find_foreign_reads(module)) == is_wrong
    program = SIMULATOR.compile(module)
    data = np.add.outer(np.arange(8, dtype="int32"), np.arange(8, dtype="int32")) % 8
    program([data, np.zeros((8, 8), "int32"), np.zeros((8, 8), "int32")])
    assert ("race" in [finding.kind for finding in program.findings]) == is_wrong
