"""Blocks that all threads, or all thread blocks, run, since they stand outside of their loops."""

import textwrap

import numpy as np
import pytest
from kernels import parse_blocks
from tvm.ir import IRModule

from tirstep.lowering_checks import check_ownership, get_device
from tirstep.lowering_checks.legality.reads import find_foreign_reads, find_settled_foreign_reads
from tirstep.lowering_checks.legality.stores import find_unowned

SIMULATOR = get_device("simulator")
X = "T.thread_binding(8, thread='threadIdx.x')"
Y = "T.thread_binding(4, thread='threadIdx.y')"
Z = "T.thread_binding(2, thread='threadIdx.z')"
G = "T.thread_binding(2, thread='blockIdx.y')"


def nest(*lines: str) -> str:
    """Loops, or conditions, around what comes last."""
    *around, last = lines
    for line in reversed(around):
        last = f"{line}:\n{textwrap.indent(last, '    ')}"
    return last + "\n"


def block(body: str, *loops: str, row: str = "0", column: str = "0", where: str = "") -> str:
    """A block of an element `vi`, `vj`; several of one name are numbered by what they store."""
    axes = f"vi = T.axis.spatial(8, {row})\nvj = T.axis.spatial(8, {column})\n"
    guard = f"T.where({where})\n" if where else ""
    return nest(*loops, 'with T.sblock("block")', axes + guard + body)


def total(*loops: str, term: str = "k", length: int = 8, where: str = "", row: str = "0") -> str:
    """A block that sums up a row of A in the first column of B."""
    axes = f"vi = T.axis.spatial(8, {row})\nvk = T.axis.reduce({length}, {term})\n"
    guard = f"T.where({where})\n" if where else ""
    body = "with T.init():\n    B[vi, 0] = 0\nB[vi, 0] = B[vi, 0] + A[vi, vk]"
    return nest(*loops, 'with T.sblock("sum")', axes + guard + body)


IN_PLACE = "B[vi, vj] = B[vi, vj] + A[vi, vj]"
SET = "B[vi, vj] = A[vi, vj]"
ZERO = "B[vi, vj] = 0"
KEEP = "C[vi, vj] = A[vi, vj]"
READ = "B[vi, vj] = C[0, 0]"
SHOW = "C[vi, vj] = B[0, 0] + A[vi, vj]"
ROW, COLUMN = f"for t in {X}", "for j in range(8)"
ALONG_X = block(KEEP, ROW, COLUMN, row="t", column="j")
NEXT = block(KEEP, ROW, row="t", column="1")
ALONG_Y = block(KEEP, f"for y in {Y}", ROW, row="y", column="t")
ALONG_Z = block(KEEP, f"for z in {Z}", ROW, row="z", column="t")
ALONG_G = block(KEEP, f"for g in {G}", COLUMN, row="g", column="j")
TERMS = "for k in range(8)"
REGISTERS = nest(
    TERMS,
    'with T.sblock("registers")',
    "vi = T.axis.spatial(1, 0)\nvk = T.axis.reduce(8, k)\n"
    "with T.init():\n    L[vi] = 0\nL[vi] = L[vi] + A[0, vk]",
)
SOME = REGISTERS.replace(TERMS, ROW).replace("8, k)", "8, t); T.where(t < 6)")
SHARED = nest('with T.sblock("shared")', "vi = T.axis.spatial(1, 0)\nS[vi] = A[0, 0]")
ROUNDS = "for r in range(4)"
EACH = block(SET, ROW, column="t")
HALF = "if vj < 4:\n    C[vi, vj] = A[vi, vj]\nelse:\n    "


def rounds(first: str) -> str:
    """A block, and one on threads behind it, in a loop around both."""
    return nest(ROUNDS, first + block(KEEP, ROW, row="t", column="r"))


RIGHT = {
    "one value": block(SET) + ALONG_X,
    "one value that each reads": block(SET) + block(SHOW, ROW, COLUMN, row="t", column="j"),
    "one value for each element": block(SET, "for i in range(8)", COLUMN, row="i", column="j")
    + ALONG_X,
    "one value in each round": rounds(block(SET, row="r")),
    "the first thread": block(IN_PLACE, ROW, where="t < 1") + ALONG_X,
    "the first thread of all": block(IN_PLACE, f"for y in {Y}", ROW, where="y < 1 and t < 1")
    + ALONG_Y,
    "the first thread sums": total(ROW, TERMS, where="t < 1") + ALONG_X,
    "its own behind a condition": block(f"if A[vi, vj] > 0:\n    {IN_PLACE}", ROW, row="t")
    + ALONG_X,
    "the first thread by a condition": block(f"if vi < 1:\n    {IN_PLACE}", ROW, row="t") + ALONG_X,
    "one value behind a condition": block(f"if A[vi, vj] > 0:\n    {SET}") + ALONG_X,
    "its own": block(IN_PLACE, ROW, row="t") + ALONG_X,
    "a sum in registers": REGISTERS + block("B[vi, vj] = L[0]") + ALONG_X,
    "a sum over some threads in registers": SOME + block("C[vi, vj] = L[0]", ROW, row="t"),
    "a sum over threads": total(ROW, term="t") + ALONG_X,
    "a sum over threads beside others": total(ROW, term="t") + ALONG_Y,
    "its thread block's": block(IN_PLACE, f"for g in {G}", row="g") + ALONG_G,
    "one thread": block(IN_PLACE) + ALONG_X.replace("8, thread=", "1, thread="),
    "shared by all threads": SHARED + block("C[vi, vj] = S[0]", ROW, COLUMN, row="t", column="j"),
    "shared in each thread block": SHARED
    + SHARED.replace("A[0, 0]", "S[vi] + A[0, 1]")
    + block("C[vi, vj] = S[0]", f"for g in {G}", COLUMN, row="g", column="j"),
    "zeros twice": block(ZERO) + block(ZERO, ROW, COLUMN, row="t", column="j"),
    "each its own twice": block(ZERO, ROW, row="t") + block(SET, ROW, row="t"),
    "each sums behind its zero": block(ZERO, ROW, row="t")
    + total(ROW, TERMS, row="t").replace("with T.init():\n            B[vi, 0] = 0", "pass"),
    "read before each sets its own": block("B[vi, vj] = C[vi, vj]", ROW, row="t")
    + block("C[vi, vj] = 5", ROW, row="t"),
    "read behind what all set": block("C[vi, vj] = 5") + block(READ, ROW, row="t"),
    "its own behind another condition": EACH
    + block(f"{HALF}C[vi, vj] = B[0, T.max(vj, 4)]", ROW, column="t"),
    "nested loops of one axis": EACH
    + block("C[vi, vj] = B[vi, vj]", ROW, f"for u in {X}", column="t"),
    "another element": block(IN_PLACE, ROW, row="t", column="1") + block(SET) + ALONG_X,
}
WRONG = {
    "in place": block(IN_PLACE) + ALONG_X,
    "in place behind the threads": ALONG_X + block(IN_PLACE),
    "in place along y": block(IN_PLACE, f"for y in {Y}", row="y") + ALONG_Y,
    "in place along x": block(IN_PLACE, ROW, row="t") + ALONG_Y,
    "in place along x, beside z": block(IN_PLACE, ROW, row="t") + ALONG_Z,
    "in place in thread blocks": block(IN_PLACE) + ALONG_G,
    "in place along x in thread blocks": block(IN_PLACE, ROW, row="t")
    + block(KEEP, f"for g in {G}", ROW, row="g", column="t"),
    "in place along blockIdx.z": block(IN_PLACE) + ALONG_G.replace("blockIdx.y", "blockIdx.z"),
    "in place in shared memory": SHARED
    + SHARED.replace("A[0, 0]", "S[vi] + 1")
    + block("C[vi, vj] = S[0]", ROW, COLUMN, row="t", column="j"),
    "a sum of one term": total(term="0", length=1) + ALONG_X,
    "a value over an initial one": total(term="0", length=1).replace("B[vi, 0] + A", "A")
    + block(SHOW, ROW, COLUMN, row="t", column="j"),
    "five, and five over a zero": block("B[vi, vj] = 5")
    + total(ROW, TERMS, where="t < 1").replace("B[vi, 0] + A[vi, vk]", "5")
    + block(SHOW, ROW, COLUMN, row="t", column="j"),
    "in vectors": block(IN_PLACE, "for j in T.vectorized(4)", column="j") + ALONG_X,
    "unrolled": block(IN_PLACE, "for j in T.unroll(4)", column="j") + ALONG_X,
    "in place behind a condition": block(f"if A[vi, vj] > 0:\n    {IN_PLACE}") + ALONG_X,
    "in place in a loop of its own": nest(
        'with T.sblock("block")',
        "vi = T.axis.spatial(8, 0)\nT.reads(A[vi, 0:4], B[vi, 0:4])\nT.writes(B[vi, 0:4])\n"
        "for vj in range(4):\n    " + IN_PLACE,
    )
    + ALONG_X,
    "a guard on y": block(IN_PLACE, f"for y in {Y}", where="y < 1") + ALONG_Y,
    "a sum of the first along y": total(f"for y in {Y}", where="y < 1", term="0", length=1)
    + ALONG_Y,
    "zero, and the first sets it": block(ZERO) + block(SET, ROW, where="t < 1") + ALONG_X,
    "the first sets it, and zero": block(SET, ROW, where="t < 1") + block(ZERO) + ALONG_X,
    "zeros along y": block(ZERO, f"for y in {Y}", row="y")
    + block(SET, f"for y in {Y}", ROW, row="y", where="t < 1"),
    "zero, and a row": block(ZERO) + block(SET, ROW, column="t"),
    "zero in all thread blocks": block(ZERO) + block(SET, f"for g in {G}", COLUMN, column="j"),
    "zero, and a value behind a condition": block(ZERO)
    + block(f"if A[vi, vj] > 0:\n    {SET}")
    + block(SHOW, ROW, COLUMN, row="t", column="j"),
    "two values that each reads": block(ZERO)
    + block(SET)
    + block(SHOW, ROW, COLUMN, row="t", column="j"),
}
LATE = {
    "a sum through another block": block("B[vi, vj] = C[vi, vj]")
    + block("C[vi, vj] = B[vi, vj] + 1")
    + NEXT,
    "read before all set it": block(READ, ROW, row="t") + block("C[vi, vj] = 5") + NEXT,
    "read before each sets all": block(READ, ROW, row="t")
    + block("C[vi, vj] = 5", ROW, COLUMN, row="j"),
    "read before all thread blocks set it": block(READ, f"for g in {G}", row="g")
    + block("C[vi, vj] = 5"),
    "read where a condition keeps it from setting it": block(SET, ROW, column="t")
    + block("if vi > 6:\n    B[vi, vj] = 3\nC[vi, vj] = B[vi, vj]", ROW, column="7 - t"),
    "another's behind another condition": EACH
    + block(f"{HALF}C[vi, vj] = B[0, 7 - vj]", ROW, column="t"),
    "another's in a condition": EACH
    + block("if B[0, 7 - vj] > 0:\n    C[vi, vj] = A[vi, vj]", ROW, column="t"),
    "another's in an index": EACH + block("C[vi, B[0, 7 - vj] % 8] = 1", ROW, column="t"),
    "another's where data say": block(SET, ROW, column="t", where="t > 3")
    + block("C[vi, vj] = B[vi, A[vi, 7 - vj] % 8]", ROW, column="t"),
    "data tell which it sets": block(
        "B[vi, A[vi, vj] % 8] = B[vi, A[vi, 7 - vj] % 8] + 1", ROW, column="t"
    ),
    "read before the first sets it": block(READ, ROW, row="t")
    + block("C[vi, vj] = 5", ROW, where="t < 1"),
}
"""An element that is read before other threads set it, the reader's own among them."""
UNFINISHED = {
    "a sum": total(TERMS) + ALONG_X,
    "a sum in thread blocks": total(TERMS) + ALONG_G,
    "rows in place": block(IN_PLACE, "for i in range(8)", row="i") + ALONG_X,
    "in place in each round": rounds(block(IN_PLACE)),
    "a sum over rounds": rounds(total(term="r", length=4)),
    "zeros, and a number in a row": block("B[vi, vj] = 3", COLUMN)
    + block(ZERO, f"for y in {Y}", ROW, row="t"),
    "a loop of one": block(IN_PLACE, "for i in range(1)", row="i") + ALONG_X,
    "zeros, and a row": block(ZERO, COLUMN, column="j") + total(ROW, TERMS, row="t"),
}


def races(module: IRModule) -> bool:
    """Whether the simulator sees a race."""
    program = SIMULATOR.compile(module)
    data = 1 + np.arange(64, dtype="int32").reshape(8, 8)
    program([data, np.zeros((8, 8), "int32"), np.zeros((8, 8), "int32")])
    return "race" in [finding.kind for finding in program.findings]


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_whose_status_was_reasoned_first(name: str):
    module = parse_blocks(RIGHT[name])
    assert not races(module)
    assert find_unowned(module) == {}
    assert find_foreign_reads(module) == {}
    assert check_ownership(module) == []


@pytest.mark.parametrize("name", [*WRONG, *LATE, *UNFINISHED])
def test_wrong_programs_whose_status_was_reasoned_first(name: str):
    """Those with a loop that may yet be bound are told at the end alone."""
    module = parse_blocks({**WRONG, **LATE, **UNFINISHED}[name])
    assert races(module)
    assert bool(find_unowned(module)) == (name in WRONG)
    assert name not in LATE or find_settled_foreign_reads(module)
    assert check_ownership(module)
