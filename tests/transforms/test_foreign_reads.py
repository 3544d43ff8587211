"""Reads of elements of global memory that other threads of the same kernel write."""

import textwrap
from collections.abc import Callable

import numpy as np
import pytest
from kernels import parse_blocks, parse_kernel
from pairs import refuses
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import matmul
from tirstep.transforms import (
    bind_loop,
    compute_block_at,
    fuse_loops,
    pad_block,
    reorder_loops,
    reverse_compute_block_at,
    split_loop,
    vectorize_loop,
)
from tirstep.transforms.legality.foreign_reads import find_foreign_reads, find_settled_foreign_reads

SIMULATOR = get_device("simulator")


def make_scaled(place: str, row: str) -> IRModule:
    """Sums of rows in global memory, one a thread, and a block of the same kernel that reads them.

    `place` is "thread", inside of the loop over threads that writes them, or "block", in one of its
    own; `row` is the row that it reads there, of thread `i` or `t`.
    """
    axis = "T.thread_binding(4, thread='threadIdx.x')"
    own = textwrap.dedent(f"""
        for j in range(4):
            with T.sblock("B"):
                vi = T.axis.spatial(8, b * 4 + {row})
                vj = T.axis.spatial(4, j)
                B[vi, vj] = A[vi, vj] * total[vi]
    """)
    if place != "thread":
        own = f"for t in {axis}:\n{textwrap.indent(own, '    ')}"
    return parse_kernel(f"""
A (8, 4) int32, total (8,) int32, B (8, 4) int32
T.func_attr({{"tirx.noalias": True}})
for b in T.thread_binding(2, thread="blockIdx.x"):
    for i in {axis}:
        for k in range(4):
            with T.sblock("total"):
                vi = T.axis.spatial(8, b * 4 + i)
                vk = T.axis.reduce(4, k)
                total[vi] += A[vi, vk]
{textwrap.indent(own, " " * (8 if place == "thread" else 4))}
""")


@pytest.mark.parametrize(
    ("place", "row", "is_own"),
    [
        ("thread", "i", True),
        ("thread", "3 - i", False),
        ("block", "t", True),
        ("block", "3 - t", False),
        ("block", "t // 2 * 2", False),
    ],
)
def test_what_a_thread_reads_of_global_memory_it_wrote_itself(place: str, row: str, is_own: bool):
    module = make_scaled(place, row)
    found = find_foreign_reads(module)
    assert [*found] == ([] if is_own else [("B", "total", "threadIdx.x", True)])
    arguments = [np.ones((8, 4), "int32"), np.zeros(8, "int32"), np.zeros((8, 4), "int32")]
    program = SIMULATOR.compile(module)
    program(arguments)
    raced = any(finding.kind == "race" for finding in program.findings)
    assert raced != is_own


def test_a_block_placed_where_all_threads_would_read_all_sums():
    """The foreign function `rows_divided_by_their_sums` was accepted so, and raced."""
    sch = Schedule(Divided)
    total, divided = sch.get_sblock("total"), sch.get_sblock("B")
    rows = sch.get_loops(total)[0]
    block, thread = split_loop(sch, rows, inner=4)
    bind_loop(sch, block, axis="blockIdx.x")
    bind_loop(sch, thread, axis="threadIdx.x")
    sentence = (
        "block 'B' would read elements of 'total' that others on 'threadIdx.x' write in the same "
        "kernel, and nothing orders what these do to global memory; place it inside of the loops "
        "whose threads write them"
    )
    with refuses(sch, sentence):
        reverse_compute_block_at(sch, divided, block)
    reverse_compute_block_at(sch, divided, thread)
    assert find_foreign_reads(sch.mod) == {}


Divided = parse_kernel("""
    A (8, 4) int32, total (8,) int32, B (8, 4) int32
    T.func_attr({"tirx.noalias": True})
    for i, k in T.grid(8, 4):
        with T.sblock("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            total[vi] += A[vi, vk]
    for i, j in T.grid(8, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
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


Rounds = parse_kernel("""
    A (4, 8) int32, B (5, 8) int32
    T.func_attr({"tirx.noalias": True})
    for r in range(4):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("B"):
                vr, vt = T.axis.remap("SS", [r, t])
                B[vr + 1, vt] = B[vr, 7 - vt] + A[vr, vt]
""")


def test_launches_are_in_order():
    """A loop on the host launches its kernel anew: what other threads wrote before is there."""
    assert find_foreign_reads(Rounds) == {}
    text = Rounds.script().replace("B[vr, 7 - vt]", "B[vr + 1, 7 - vt]")
    assert [*find_foreign_reads(from_source(text))] == [("B", "B", "threadIdx.x", True)]


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
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
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


def test_what_several_threads_may_write_where_data_say_so():
    """Whose an element is depends on data: a permutation of rows is read from other threads."""
    module = parse_blocks(rows("B[A[vi, vj], vj] = vi") + rows("C[vi, vj] = B[vi, vj]"))
    assert [*find_foreign_reads(module)] == [("C", "B", "threadIdx.x", True)]


class Padded:
    """A product whose rows are GPU blocks' and columns threads', and the padding of its operand."""

    def __init__(self, axis: str = "threadIdx.x", *, binds_columns: bool = True) -> None:
        self.problem = matmul.problem(6, 6, 8)
        self.sch = Schedule(self.problem.module)
        self.axis, self.block = axis, self.sch.get_sblock("C")
        pad_block(self.sch, self.block, multiples=(4, 4, 4))
        self.row, self.column, _ = self.sch.get_loops(self.block)
        bind_loop(self.sch, self.row, axis="blockIdx.x")
        if binds_columns:
            bind_loop(self.sch, self.column, axis=axis)
        self.padding = self.sch.get_sblock("B_pad")

    def place(self) -> list:
        """Place the padding in the kernel; its loops, over terms and over columns."""
        compute_block_at(self.sch, self.padding, self.row)
        return self.sch.get_loops(self.padding)[1:]

    def bind(self, loop: object) -> None:
        bind_loop(self.sch, loop, axis=self.axis)

    def find_wrong(self) -> list[str]:
        for name in ("A_pad", "C_pad"):
            loop = self.sch.get_loops(self.sch.get_sblock(name))[0]
            self.sch.bind(loop, "blockIdx.x")
        found = check_numbers(self.problem, self.sch.mod, SIMULATOR, where="padded")
        return [finding.message for finding in found]


def bind_terms(padded: Padded) -> object:
    return padded.place()[0]


def split_terms(padded: Padded) -> object:
    return split_loop(padded.sch, padded.place()[0], inner=1).outer


def fuse_terms(padded: Padded) -> object:
    return split_loop(padded.sch, fuse_loops(padded.sch, padded.place()), inner=8).outer


def reorder_terms(padded: Padded) -> object:
    terms, columns = padded.place()
    reorder_loops(padded.sch, [columns, terms])
    return terms


def vectorize_columns(padded: Padded) -> object:
    terms, columns = padded.place()
    vectorize_loop(padded.sch, split_loop(padded.sch, columns, inner=2).inner)
    return terms


@pytest.mark.parametrize(
    "choose", [bind_terms, split_terms, fuse_terms, reorder_terms, vectorize_columns]
)
@pytest.mark.parametrize("axis", ["threadIdx.x", "blockIdx.y"])
def test_a_padding_in_a_kernel_whose_loop_is_bound_afterwards(
    choose: Callable[[Padded], object], axis: str
):
    """Each thread pads some terms of all columns, and reads all terms of its own column."""
    padded = Padded(axis)
    loop = choose(padded)
    sentence = f"bind_loop: block 'C' would read elements of 'B_pad' that others on '{axis}' write"
    with refuses(padded.sch, sentence):
        padded.bind(loop)
    padded.sch.bind(loop, axis)
    assert "race: " in padded.find_wrong()[0]


def test_a_reader_whose_loop_is_bound_last():
    padded = Padded(binds_columns=False)
    padded.bind(padded.place()[0])
    with refuses(
        padded.sch, "block 'C' would read elements of 'B_pad' that others on 'threadIdx.x'"
    ):
        padded.bind(padded.column)


@pytest.mark.parametrize("is_placed_first", [True, False])
def test_a_padding_whose_columns_are_its_readers(is_placed_first: bool):
    padded = Padded(binds_columns=not is_placed_first)
    _, columns = padded.place()
    padded.bind(columns)
    if is_placed_first:
        padded.bind(padded.column)
    assert padded.find_wrong() == []


def test_a_reader_that_is_yet_to_be_bound_is_not_accused():
    """All threads read what one writes each, until the reader's loop is bound, too."""
    padded = Padded(binds_columns=False)
    _, columns = padded.place()
    padded.bind(columns)
    assert [*find_foreign_reads(padded.sch.mod)] == [("C", "B_pad", "threadIdx.x", False)]
    assert find_settled_foreign_reads(padded.sch.mod) == {}


def test_a_loop_that_launches_kernels_comes_into_a_kernel():
    sch = Schedule(Rounds)
    rounds, threads = sch.get_loops(sch.get_sblock("B"))
    with refuses(sch, "block 'B' would read elements of 'B' that others on 'threadIdx.x' write"):
        reorder_loops(sch, [threads, rounds])


WIDE = """
@I.ir_module
class Wide:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128,), "int32"), B: T.Buffer((128,), "int32"),
             C: T.Buffer((512,), "int32")):
        T.func_attr({"tirx.noalias": True})
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(512, thread="threadIdx.x"):
                for j in range(128):
                    with T.sblock("B"):
                        vt, vj = T.axis.remap("SS", [t, j])
                        B[vj] = A[vj]
                with T.sblock("C"):
                    vt = T.axis.spatial(512, t)
                    C[vt] = B[0]
"""


def test_what_all_of_many_threads_set_alike_each_has_set_itself():
    """Too many to try them all: of a thread that is not among the writers tried one is asked."""
    assert find_foreign_reads(from_source(WIDE)) == {}
    first = WIDE.replace("B[vj] = A", "T.where(t < 1)\n" + " " * 24 + "B[vj] = A")
    assert [read.axis for read in find_foreign_reads(from_source(first))] == ["threadIdx.x"]
