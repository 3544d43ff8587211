"""What a loop begins with, stored in front of it: the pair, numbers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import get_device
from tirstep.transforms import begin_before_loop, split_loop

HEAD = """
@I.ir_module
class Repaired:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((8, 24), "{dtype}"),
        C: T.Buffer((8,), "{dtype}"),
        D: T.Buffer((8, 24), "{dtype}"),
    ):
"""
LOOPS = """
        for k, i in T.grid(24, 8):
            with T.sblock("C"):
                vi, vk = T.axis.remap("SS", [i, k])
                {store}
"""
BEFORE = """
        for k in range(24):
            for i in range(8):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    C[vi] = T.if_then_else(vk == 0, T.float32(0), C[vi] * A[vi, vk])
            for i in range(8):
                with T.sblock("D"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    D[vi, vk] = C[vi]
"""
AFTER = """
        for i in range(8):
            with T.sblock("C_first"):
                vi = T.axis.spatial(8, i)
                T.reads()
                T.writes(C[vi])
                C[vi] = T.float32(0)
        for k in range(24):
            for i in range(8):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    T.reads(C[vi], A[vi, vk])
                    T.writes(C[vi])
                    C[vi] = C[vi] * A[vi, vk]
            for i in range(8):
                with T.sblock("D"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    D[vi, vk] = C[vi]
"""
STORE = "C[vi] = T.if_then_else(vk == 0, T.float32(0), C[vi] * A[vi, vk])"


def make(body: str, dtype: str = "float32") -> tvm.IRModule:
    return from_source(HEAD.format(dtype=dtype) + body)


def begin(sch: Schedule, at: int = 0) -> object:
    block = sch.get_sblock("C")
    return begin_before_loop(sch, block, sch.get_loops(block)[at])


def run(module: tvm.IRModule, dtype: str = "float32") -> list[np.ndarray]:
    values = np.random.default_rng(0).integers(-2, 3, (8, 24)).astype(dtype)
    outputs = [np.full(shape, 7, dtype) for shape in ((8,), (8, 24))]
    return get_device("cpu").compile(module)([values, *outputs])[-2:]


def check_same(before: tvm.IRModule, after: tvm.IRModule, dtype: str = "float32") -> None:
    for want, got in zip(run(before, dtype), run(after, dtype), strict=True):
        np.testing.assert_array_equal(got, want)


def test_begin_before_loop_stores_zeros_in_front() -> None:
    check_pair(make(BEFORE), begin, make(AFTER), is_replayable=False)


@pytest.mark.parametrize(
    ("later", "dtype"),
    [
        ("C[vi] * T.exp(A[vi, vk])", "float32"),
        ("C[vi] * A[vi, vk] - C[7 - vi]", "float32"),
        ("C[vi] * T.if_then_else(vi < vk, A[vi, vk], T.float32(2))", "float32"),
        ("C[vi] * A[vi, vk]", "float16"),
        ("C[vi] * A[vi, vk]", "float64"),
        ("C[vi] * A[vi, vk]", "int32"),
    ],
)
def test_what_zeros_stay_zeros_in(later: str, dtype: str) -> None:
    store = f"C[vi] = T.if_then_else(vk == 0, T.{dtype}(0), {later})"
    before = make(LOOPS.format(store=store), dtype)
    sch = Schedule(before)
    begin(sch)
    assert "if_then_else(vk" not in sch.mod.script()
    check_same(before, sch.mod, dtype)


def test_guards_and_outer_loops_stay_around_what_comes_in_front() -> None:
    before = make(
        LOOPS.replace("k, i in T.grid(24", "o, k, i in T.grid(2, 24")
        .replace(
            'vi, vk = T.axis.remap("SS", [i, k])', 'vi, vk, vo = T.axis.remap("SSS", [i, k, o])'
        )
        .format(store=STORE)
    )
    sch = Schedule(before)
    split_loop(sch, sch.get_loops(sch.get_sblock("C"))[2], inner=5, tail="guard")
    begin(sch, at=1)
    assert sch.mod.script().count("T.where(") == 2
    check_same(before, sch.mod)


@pytest.mark.parametrize(
    "store",
    [
        "C[vi] = T.if_then_else(vk != 0, C[vi] * A[vi, vk], T.float32(0))",
        "C[vi] = T.if_then_else(vk == 1, T.float32(0), C[vi] * A[vi, vk])",
        "C[vi] = T.if_then_else(vi == 0, T.float32(0), C[vi] * A[vi, vk])",
        "C[vi] = C[vi] * A[vi, vk]",
    ],
)
def test_begin_before_loop_refuses_what_begins_otherwise(store: str) -> None:
    sch = Schedule(make(LOOPS.format(store=store)))
    block = sch.get_sblock("C")
    loop, inner = sch.get_loops(block)
    with refuses(sch, "block 'C' does not begin anew in the first iteration of loop 'k'; pass the"):
        begin_before_loop(sch, block, loop)
    sch = Schedule(make(LOOPS.format(store=STORE)))
    block = sch.get_sblock("C")
    loop, inner = sch.get_loops(block)
    with refuses(sch, "does not begin anew in the first iteration of loop 'i'"):
        begin_before_loop(sch, block, inner)
    sch.unroll(loop)
    with refuses(sch, "loop 'k' is already unrolled"):
        begin_before_loop(sch, block, loop)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("T.float32(0)", "C[vi] + A[vi, vk]"),
        ("T.float32(0)", "C[vi] / A[vi, vk]"),  # by 0
        ("T.float32(-9)", "T.max(C[vi], A[vi, vk])"),
        ("A[vi, 0]", "C[vi] * A[vi, vk]"),
        ('T.Cast("float32", vi)', "C[vi]"),
        ("T.float32(0)", "T.asinh(C[vi])"),
    ],
)
def test_begin_before_loop_refuses_what_would_become_something_else(first: str, later: str) -> None:
    store = f"C[vi] = T.if_then_else(vk == 0, {first}, {later})"
    sch = Schedule(make(LOOPS.format(store=store)))
    block = sch.get_sblock("C")
    loop = sch.get_loops(block)[0]
    with refuses(sch, "of which its first iteration would make something else; leave the loop"):
        begin_before_loop(sch, block, loop)


ELEMENT = 'vi, vk = T.axis.remap("SS", [i, k])'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (STORE, STORE.replace("C[vi]", "D[vi, vk]")),
        (ELEMENT, ELEMENT + "\n                T.where(k < 23)"),
        (ELEMENT, ELEMENT + "\n                T.where(i <= k)"),
    ],
)
def test_begin_before_loop_refuses_elements_that_change_with_the_loop(old: str, new: str) -> None:
    sch = Schedule(make(LOOPS.format(store=STORE).replace(old, new)))
    block = sch.get_sblock("C")
    loop = sch.get_loops(block)[0]
    with refuses(sch, "does not store the same elements in each iteration of loop 'k'"):
        begin_before_loop(sch, block, loop)


READER = """
            with T.sblock("D"):
                vi, vk = T.axis.remap("SS", [i, k])
                D[vi, vk] = C[vi]"""


@pytest.mark.parametrize("is_first", [False, True])
def test_begin_before_loop_refuses_others_that_would_find_it(is_first: bool) -> None:
    """In front of the block, or in its own loop, which they may go through again."""
    loops, own = LOOPS.format(store=STORE).split("8):", 1)
    parts = READER + own if is_first else own.rstrip() + READER
    sch = Schedule(make(loops + "8):" + parts))
    block = sch.get_sblock("C")
    loop = sch.get_loops(block)[0]
    with refuses(sch, "block 'D' uses 'C', too, in front of block 'C' or in a loop around both"):
        begin_before_loop(sch, block, loop)


MAXIMA = """
        m = T.sblock_alloc_buffer((8,), "float32")
        p = T.sblock_alloc_buffer((8,), "float32")
        for k in range(24):
            for i in range(8):
                with T.sblock("m"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        m[vi] = T.float32("{least}")
                    p[vi] = m[vi]
                    m[vi] = T.max(m[vi], T.if_then_else(vk > vi, A[vi, vk], T.float32("{least}")))
            for i in range(8):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    C[vi] = T.if_then_else(vk == 0, T.float32(0), C[vi] * T.exp(p[vi] - m[vi]))
        for k, i in T.grid(24, 8):
            with T.sblock("D"):
                vi, vk = T.axis.remap("SS", [i, k])
                D[vi, vk] = C[vi]
"""


def test_a_maximum_of_hidden_elements_makes_no_number_of_zeros() -> None:
    """Where a mask hides all of the first iteration, the factor is exp(-inf - -inf)."""
    sch = Schedule(make(MAXIMA.format(least="-inf")))
    block = sch.get_sblock("C")
    loop = sch.get_loops(block)[0]
    with refuses(sch, "its first iteration would make something else"):
        begin_before_loop(sch, block, loop)
    before = make(MAXIMA.format(least="-1e30"))
    sch = Schedule(before)
    begin(sch)
    check_same(before, sch.mod)
