"""Indices that leave a dimension of their buffer, and not its memory."""

import pytest

from tirstep.lowering_checks.legality.bounds import check_bounds
from tirstep.strategies.drawn_programs import parse_program

HEAD = """# from tvm.script import tirx as T
@T.prim_func(s_tir={is_scheduled})
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
"""
LOOPS = "    for i in range(8):\n        for j in range(8):\n            "
THREADS = """    for i in T.thread_binding(8, thread="blockIdx.x"):
        for j in T.thread_binding(8, thread="threadIdx.x"):
            """
LAUNCHES = """    i = T.launch_thread("blockIdx.x", 8)
    j = T.launch_thread("threadIdx.x", 8)
    """
TIRX = """    T.device_entry()
    i = T.cta_id([8])
    j = T.thread_id([8])
    """
BLOCK = """    for i, j in T.grid(8, 8):
        with T.sblock("shift"):
            i, j = T.axis.remap("SS", [i, j])
            """
FORMS = (LOOPS, THREADS, LAUNCHES, TIRX, BLOCK)
WRONG = {
    "B[i, j] = A[i, j + 1]": "load of 'A'",
    "B[i, j - 1] = A[i, j]": "store to 'B'",
    "B[i, j] = T.if_then_else(j < 8, A[i, j + 1], T.float32(0))": "load of 'A'",
    "B[i, j] = T.max(A[i, j], T.if_then_else(j > 0, A[i, j - 2], T.float32(0)))": "load of 'A'",
    "B[i, j] = A[T.min(i, 6), (j * 2) % 9]": "load of 'A'",
    "B[T.Cast('int32', A[i, j]), j + 1] = A[i, j]": "store to 'B'",
}
RIGHT = (
    "B[i, j] = T.if_then_else(j < 7, A[i, j + 1], T.float32(0))",
    "B[i, j] = T.if_then_else(j + 1 < 8 and A[i, j + 1] > T.float32(0), A[i, j + 1], A[i, j])",
    "B[i, j] = T.if_then_else(j == 7 or A[i, j + 1] > T.float32(0), A[i, j], T.float32(0))",
    "B[i, j] = A[i, (j * 3 + 1) % 8]",
    "B[i, T.max(T.min(T.Cast('int32', A[i, j]), 7), 0)] = A[i, j]",
)


def make(form: str, statement: str) -> list[str]:
    text = HEAD.format(is_scheduled=form == BLOCK) + form + statement
    return [str(it) for it in check_bounds(parse_program(text))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("statement", WRONG)
def test_another_row_is_a_finding(form: str, statement: str):
    (said,) = make(form, statement)
    assert f"out of bounds: {WRONG[statement]}" in said
    assert "outside of its 8 elements along dimension 1" in said


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("statement", RIGHT)
def test_what_stays_in_its_row_is_none(form: str, statement: str):
    assert make(form, statement) == []


GUARDED = (
    "if j < 7:\n{0}B[i, j] = A[i, j + 1]",
    "if A[i, 0] > T.float32(0):\n{0}B[i, j] = A[i, j + 1]",
    "if j == 7:\n{0}T.evaluate(T.thread_return())\n{1}B[i, j] = A[i, j + 1]",
    "k: T.let[T.int32] = T.min(j, 6)\n{1}B[i, j] = A[i, k + 1]",
)


@pytest.mark.parametrize("statement", GUARDED)
def test_guards_lets_and_returns(statement: str):
    """What data decide is left to what runs."""
    assert make(LAUNCHES, statement.format(" " * 8, " " * 4)) == []
    wrong = "k: T.let[T.int32] = T.min(j, 7)\n    B[i, j] = A[i, k + 1]"
    assert len(make(LAUNCHES, wrong)) == 1
