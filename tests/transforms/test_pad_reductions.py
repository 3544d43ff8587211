"""Reductions over any number of elements: pairs, numbers, masks, planted bugs and refusals."""

import numpy as np
import pytest
from kernels import parse_kernel
from pairs import assert_dead, check_pair, refuses
from reduction_pairs import draw, find_blocks, make_pair, run_pair
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import decode_attention

MASKED = """
    A (5, 24), B (24, 7), n (5,) int32, s (5, 7)
    m = T.sblock_alloc_buffer((5,))
    p = T.sblock_alloc_buffer((5, 24))
    for i, k in T.grid(5, 24):
        with T.sblock("first", "SR", i, k):
            with T.init():
                m[vi] = T.min_value("float32")
            m[vi] = T.max(m[vi], A[vi, vk])
    for i, k in T.grid(5, 24):
        with T.sblock("between", "SS", i, k):
            p[vi, vk] = T.if_then_else(vk < n[vi], T.exp(A[vi, vk] - m[vi]), T.float32(0))
    for i, d, k in T.grid(5, 7, 24):
        with T.sblock("second", "SSR", i, d, k):
            s[vi, vd] += p[vi, vk] * B[vk, vd]
"""
Masked = parse_kernel(MASKED)


def test_pad_reductions_takes_the_end_up_in_a_mask() -> None:
    after = """
        m = T.sblock_alloc_buffer((5,))
        A_pad = T.sblock_alloc_buffer((5, 32))
        p = T.sblock_alloc_buffer((5, 32))
        B_pad = T.sblock_alloc_buffer((32, 7))
        for ax0, ax1 in T.grid(5, 32):
            with T.sblock("A_pad", "SS", ax0, ax1):
                A_pad[vax0, vax1] = T.if_then_else(vax1 < 24, A[vax0, vax1], T.float32(0))
        for ax0, ax1 in T.grid(32, 7):
            with T.sblock("B_pad", "SS", ax0, ax1):
                B_pad[vax0, vax1] = T.if_then_else(vax0 < 24, B[vax0, vax1], T.float32(0))
        for i, k in T.grid(5, 32):
            with T.sblock("first", "SR", i, k):
                with T.init():
                    m[vi] = T.min_value("float32")
                m[vi] = T.max(
                    m[vi], T.if_then_else(vk < 24, A_pad[vi, vk], T.min_value("float32"))
                )
        for i, k in T.grid(5, 32):
            with T.sblock("between", "SS", i, k):
                p[vi, vk] = T.if_then_else(
                    T.And(vk < n[vi], vk < 24), T.exp(A_pad[vi, vk] - m[vi]), T.float32(0)
                )
        for i, d, k in T.grid(5, 7, 32):
            with T.sblock("second", "SSR", i, d, k):
                s[vi, vd] += p[vi, vk] * B_pad[vk, vd]
    """

    def change(sch: Schedule) -> None:
        first, *others = find_blocks(sch, "first", "between", "second")
        loops = [loop for block in (first, *others) for loop in sch.get_loops(block)]
        copies = tr.pad_reductions(sch, first, multiple=16)
        assert [sch.get(copy).name_hint for copy in copies] == ["A_pad", "B_pad"]
        assert tr.pad_reductions(sch, first, multiple=8) == []
        assert_dead(sch, *loops)

    check_pair(Masked, change, after, is_replayable=False)


def test_what_a_mask_hides_is_not_read() -> None:
    """Of keys whose scores nobody uses, and values that are multiplied by zero."""
    problem = decode_attention.problem(2, 4, 30, 8, group=2)
    sch = Schedule(problem.module)
    copies = tr.pad_reductions(sch, sch.get_sblock("max"), multiple=16)
    text = sch.mod.script()
    for name in "KV":
        assert f"T.if_then_else(vax2 < lengths[vax0] and vax2 < 30, {name}[vax0, vax1, " in text
    for copy in copies:
        sch.compute_inline(copy)
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="cpu") == []


@pytest.mark.parametrize(
    "read",
    [
        "s[vi, vd] += T.max(p[vi, vk], B[vk, vd])",  # which counts where p is zero
        "s[vi, vd] += T.cos(p[vi, vk]) * B[vk, vd]",  # zero makes it one
        "s[vi, vd] += p[vi, vk] * B[vk, vd] * B[vk, 0]",  # read twice
    ],
)
def test_a_mask_that_does_not_hide_an_operand_does_not_guard_it(read: str) -> None:
    module = parse_kernel(PER_ELEMENT.replace("s[vi, vd] += p[vi, vk] * B[vk, vd]", read))
    sch = Schedule(module)
    tr.pad_reductions(sch, sch.get_sblock("second"), multiple=16)
    assert "B_pad[vax0, vax1] = T.if_then_else(vax0 < 24, B[vax0, vax1]" in sch.mod.script()
    inputs = [np.random.default_rng(1).standard_normal(shape) for shape in ((24,), (24, 7))]
    arrays = [np.float32(it) for it in inputs]
    wanted, got = (
        get_device("cpu").compile(it)([*arrays, np.int32([9]), np.zeros((5, 7), "float32")])[-1]
        for it in (module, sch.mod)
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


PER_ELEMENT = """
    A (24,), B (24, 7), n (1,) int32, s (5, 7)
    p = T.sblock_alloc_buffer((5, 24))
    for i, k in T.grid(5, 24):
        with T.sblock("between", "SS", i, k):
            p[vi, vk] = T.if_then_else(vk < n[0], A[vk], T.float32(0))
    for i, d, k in T.grid(5, 7, 24):
        with T.sblock("second", "SSR", i, d, k):
            s[vi, vd] += p[vi, vk] * B[vk, vd]
"""


@pytest.mark.parametrize(
    ("producer", "use", "start"),
    [
        ("max", "s[vi] + T.exp(a - m[vi])", None),
        ("max of -inf", "s[vi] + T.exp(a - m[vi]) * b", None),
        ("min", "T.max(s[vi], m[vi] - a)", "T.min_value('float64')"),
        ("product", "s[vi] * (a + m[vi])", "T.float64(1)"),
        ("squares", "s[vi] + b * T.rsqrt(m[vi] / T.float64(24) + T.float64(1e-5))", None),
    ],
)
@pytest.mark.parametrize("multiple", [5, 23, 25, 100])
def test_more_elements_count_for_nothing(producer, use, start, multiple: int) -> None:
    module = make_pair(producer, use, *([start] if start else []))
    inputs, sch = draw(is_masked=False), Schedule(module)
    tr.pad_reductions(sch, sch.get_sblock("first"), multiple=multiple)
    wanted, got = run_pair(module, inputs), run_pair(sch.mod, inputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("vk < 24, A_pad[vi, vk]", "vk < 25, A_pad[vi, vk]"),
        ("vk < n[vi] and vk < 24", "vk < n[vi] + 1 and vk < 24"),
        ("vk < n[vi] and vk < 24", "vk < n[vi] - 1 and vk < 24"),
        ("vk < n[vi] and vk < 24", "vk < 25"),
    ],
)
def test_an_end_off_by_one_is_another_result(right: str, wrong: str) -> None:
    """All elements are below zero, which stands beyond the end."""
    sch = Schedule(Masked)
    tr.pad_reductions(sch, sch.get_sblock("first"), multiple=16)
    text = sch.mod.script()
    assert right in text
    generator = np.random.default_rng(2)
    tensors = [-1 - generator.random((5, 24)), generator.random((24, 7))]
    inputs = [*map(np.float32, tensors), np.int32([1, 5, 12, 23, 24])]
    planted = from_source(text.replace(right, wrong))
    wanted, same, other = (
        get_device("cpu").compile(it)([*inputs, np.zeros((5, 7), "float32")])[-1]
        for it in (Masked, sch.mod, planted)
    )
    np.testing.assert_allclose(same, wanted, rtol=1e-6)
    assert abs(other - wanted).max() > 1e-3


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("B[vk, vd]", "B[23 - vk, vd]", "block 'second' uses 'B' at .*23 - vk"),
        ("p[vi, vk] * B", "p[vi, 3] * B", "block 'second' uses 'p' without going over it"),
        ("A[vi, vk])\n    for", "A[vi, (vk + 1) % 24])\n    for", "block 'first' uses 'A' at"),
        ("p[vi, vk] = ", "q[vi, vk] = ", "block 'between' writes 'q' of the function"),
    ],
)
def test_pad_reductions_refuses_elements_at_other_places(old: str, new: str, sentence: str) -> None:
    text = MASKED.replace("s (5, 7)\n", "s (5, 7), q (5, 24)\n").replace(old, new)
    sch = Schedule(parse_kernel(text))
    (first,) = find_blocks(sch, "first")
    with refuses(sch, f"pad_reductions: {sentence}.*; pad reductions as they were written"):
        tr.pad_reductions(sch, first, multiple=16)


def test_pad_reductions_refuses_what_was_worked_on() -> None:
    for name, sentence in (
        ("second", "block 'second' has other loops than as it was written"),
        ("first", "block 'first' has 2 reduction loops, and multiple=16; pad a block with one"),
    ):
        sch = Schedule(Masked)
        first, block = find_blocks(sch, "first", name)
        tr.split_loop(sch, sch.get_loops(block)[-1], inner=6)
        with refuses(sch, f"pad_reductions: {sentence}"):
            tr.pad_reductions(sch, first, multiple=16)
