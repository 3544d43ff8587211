"""Dependent reductions by ranges: pairs, numbers, what is fused of them, and what has no factor."""

import numpy as np
import pytest
from kernels import parse_kernel
from pairs import assert_dead, check_pair, refuses
from reduction_pairs import Plain, draw, find_blocks, make_pair, run_pair
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import layer_norm, softmax

# ---- Pairs


def test_split_reductions_combines_ranges_by_the_factor() -> None:
    after = """
        m = T.sblock_alloc_buffer((5,))
        m_part = T.sblock_alloc_buffer((5, 4))
        s_part = T.sblock_alloc_buffer((5, 4))
        for i, part, k in T.grid(5, 4, 6):
            with T.sblock("first_part", "SSR", i, part, k):
                with T.init():
                    m_part[vi, vpart] = T.min_value("float32")
                m_part[vi, vpart] = T.max(m_part[vi, vpart], A[vi, vpart * 6 + vk])
        for i, part in T.grid(5, 4):
            with T.sblock("first", "SR", i, part):
                with T.init():
                    m[vi] = T.min_value("float32")
                m[vi] = T.max(m[vi], m_part[vi, vpart])
        for i, part, k in T.grid(5, 4, 6):
            with T.sblock("second_part", "SSR", i, part, k):
                s_part[vi, vpart] += T.exp(
                    A[vi, vpart * 6 + vk] - m_part[vi, vpart]
                )
        for i, part in T.grid(5, 4):
            with T.sblock("second", "SR", i, part):
                s[vi] += s_part[vi, vpart] * T.exp(m_part[vi, vpart] - m[vi])
    """

    def change(sch: Schedule):
        first, second = find_blocks(sch, "first", "second")
        loops = sch.get_loops(first) + sch.get_loops(second)
        parts, elements = tr.split_reductions(sch, first, [second], parts=4)
        assert elements == []
        assert [sch.get(block).name_hint for block in parts] == ["first_part", "second_part"]
        assert [sch.get(block).name_hint for block in (first, second)] == ["first", "second"]
        assert_dead(sch, *loops)

    check_pair(Plain, change, after, is_replayable=False)


# ---- Numbers


def split_pair(module, parts: int, *, fused: bool):
    sch = Schedule(module)
    first, second = find_blocks(sch, "first", "second")
    (one, two), _ = tr.split_reductions(sch, first, [second], parts=parts)
    if fused:  # the ranges, and what combines them
        tr.fuse_reductions(sch, one, two, sch.get_loops(one)[-1])
        tr.fuse_reductions(sch, first, second, sch.get_loops(first)[-1])
    return sch.mod


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("producer", "use", "start"),
    [
        ("max", "s[vi] + T.exp(a - m[vi])", None),
        ("max of -inf", "s[vi] + T.exp(a - m[vi]) * b", None),
        ("max", "s[vi] + T.if_then_else(vk < vi + 3, T.exp(a - m[vi]), T.float64(0))", None),
        ("max", "s[vi] + T.exp(T.if_then_else(vk < 9, a, T.float64('-inf')) - m[vi])", None),
        ("min", "s[vi] + T.exp(m[vi] - a)", None),
        ("squares", "s[vi] + b * T.rsqrt(m[vi] / T.float64(24) + T.float64(1e-5))", None),
    ],
)
def test_ranges_give_what_two_passes_give(producer, use, start) -> None:
    """Rows are masked so that whole ranges of them are nothing but -inf."""
    module = make_pair(producer, use, *([start] if start else []))
    inputs = draw(is_masked=producer.startswith("max"))
    wanted = run_pair(module, inputs)
    assert np.isfinite(wanted).all()
    for parts, fused in ((2, False), (6, True), (12, False)):
        got = run_pair(split_pair(module, parts, fused=fused), inputs)
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_softmax_by_ranges_on_blocks_of_their_own(dtype: str) -> None:
    """Its exponentials are read by others, too, and stay beside those of the ranges."""
    problem = softmax.problem(6, 24, dtype=dtype)
    sch = Schedule(problem.module)
    largest, total, powers, output = find_blocks(sch, "max", "sum", "exp", "B")
    (part, sums), (own,) = tr.split_reductions(sch, largest, [total], parts=4)
    assert sch.get(own).name_hint == "exp_part"
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="cpu") == []
    tr.fuse_reductions(sch, part, sums, tr.split_loop(sch, sch.get_loops(part)[2], inner=2).outer)
    tr.fuse_reductions(sch, largest, total, sch.get_loops(largest)[1])
    sch.compute_inline(powers)
    for loop, axis in zip(sch.get_loops(part)[:2], ("blockIdx.y", "blockIdx.x"), strict=True):
        tr.bind_loop(sch, loop, axis=axis)
    for block in (largest, output):
        tr.bind_loop(sch, sch.get_loops(block)[0], axis="blockIdx.x")
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="simulator") == []


@pytest.mark.parametrize(("n", "multiple", "parts"), [(24, 1, 4), (41, 16, 3), (9, 48, 6)])
def test_squared_differences_from_a_mean_by_ranges(n: int, multiple: int, parts: int) -> None:
    """Of ranges with fewer elements, and of some with none."""
    problem = layer_norm.problem(3, n, dtype="float16")
    sch = Schedule(problem.module)
    mean, variance = find_blocks(sch, "mean", "variance")
    tr.pad_axis(sch, sch.get_loops(mean)[1], multiple=multiple)
    tr.split_reductions(sch, mean, [variance], parts=parts)
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="cpu") == []


@pytest.mark.parametrize(
    ("parts", "run", "tile"), [(2, 4, None), (3, 2, None), (2, 1, 3), (4, 6, None)]
)
def test_ranges_of_runs_by_turns(parts: int, run: int, tile: int | None) -> None:
    """Those of several elements, of one, and of all in one run; fused at their runs."""
    module, inputs = make_pair("max", "s[vi] + T.exp(a - m[vi]) * b"), draw(is_masked=False)
    wanted, sch = run_pair(module, inputs), Schedule(module)
    first, second = find_blocks(sch, "first", "second")
    (one, two), _ = tr.split_reductions(sch, first, [second], parts=parts, run=run)
    assert np.allclose(run_pair(sch.mod, inputs), wanted, rtol=1e-12)
    *_, runs, _ = sch.get_loops(one)
    if tile is not None:
        runs = tr.split_loop(sch, runs, inner=tile).outer
    tr.fuse_reductions(sch, one, two, runs)
    np.testing.assert_allclose(run_pair(sch.mod, inputs), wanted, rtol=1e-12)


# ---- What has no factor, and places that it does not take


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (1, "parts=1 is too few ranges; use 2 or more"),
        (5, "loop 'k' runs 24 times, which parts=5 does not divide; choose a divisor"),
        (24, "parts=24 leaves ranges of one element each"),
    ],
)
def test_split_reductions_refuses_numbers_of_ranges(parts: int, sentence: str) -> None:
    sch = Schedule(Plain)
    first, second = find_blocks(sch, "first", "second")
    with refuses(sch, sentence):
        tr.split_reductions(sch, first, [second], parts=parts)
    with refuses(sch, r"runs 24 times, which parts=4 \* run=5 does not divide"):
        tr.split_reductions(sch, first, [second], parts=4, run=5)


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (
            lambda sch, one, two: tr.split_loop(sch, sch.get_loops(one)[1], inner=6),
            "block 'first' has 2 reduction loops, not one",
        ),
        (
            lambda sch, one, two: tr.split_loop(sch, sch.get_loops(two)[1], inner=6),
            "the loops of block 'second' are not as they were written",
        ),
        (
            lambda sch, one, two: tr.bind_loop(sch, sch.get_loops(one)[0], axis="blockIdx.x"),
            "the loops of block 'first' are not as they were written",
        ),
        (
            lambda sch, one, two: tr.fuse_reductions(sch, one, two, sch.get_loops(one)[1]),
            "block 'first' has been fused already; split the reductions first",
        ),
    ],
)
def test_split_reductions_refuses_what_was_worked_on(prepare, sentence: str) -> None:
    sch = Schedule(Plain)
    first, second = find_blocks(sch, "first", "second")
    prepare(sch, first, second)
    with refuses(sch, f"split_reductions: .*{sentence}"):
        tr.split_reductions(sch, first, [second], parts=4)


def test_elements_of_other_terms_are_refused() -> None:
    for read in ("p[vi, 23 - vk]", "p[vi, vk] * p[vi, 0]"):
        sch = Schedule(parse_kernel(SHIFTED.replace("p[vi, 23 - vk]", read)))
        first, second = find_blocks(sch, "first", "second")
        loop = sch.get_loops(first)[1]
        with refuses(sch, "block 'second' reads 'p' at .*, which may belong to another term"):
            tr.split_reductions(sch, first, [second], parts=4)
        with refuses(
            sch, "block 'second' reads 'p' at .*, which may belong to another|with which on"
        ):
            tr.fuse_reductions(sch, first, second, loop)


SHIFTED = """
A (5, 24), s (5,)
m = T.sblock_alloc_buffer((5,))
p = T.sblock_alloc_buffer((5, 24))
for i, k in T.grid(5, 24):
    with T.sblock("first", "SR", i, k):
        m[vi] += A[vi, vk] * A[vi, vk]
for i, k in T.grid(5, 24):
    with T.sblock("between", "SS", i, k):
        p[vi, vk] = A[vi, vk] * T.rsqrt(m[vi] + T.float32(1))
for i, k in T.grid(5, 24):
    with T.sblock("second", "SR", i, k):
        s[vi] += p[vi, 23 - vk]
"""


@pytest.mark.parametrize(
    ("use", "run"),
    [
        ("s[vi] + (a - m[vi] / T.float64(23)) * (a - m[vi] / T.float64(23))", None),
        ("s[vi] + (b - m[vi] / T.float64(24)) * (b - m[vi] / T.float64(24))", None),
        ("s[vi] + (a - m[vi] / T.float64(24)) * (b - m[vi] / T.float64(24))", None),
        ("s[vi] + (a - m[vi] / T.float64(24)) * (a - m[vi] / T.float64(24))", 2),
        (
            "s[vi] + T.if_then_else(vk < 9, "
            "(a - m[vi] / T.float64(9)) * (a - m[vi] / T.float64(9)), T.float64(0))",
            None,
        ),
    ],
)
def test_differences_that_are_from_no_mean_of_ranges_are_refused(use: str, run: int | None) -> None:
    """Of another number of elements, of others, of some not in a row, of fewer than are summed."""
    sch = Schedule(make_pair("sum", use))
    first, second = find_blocks(sch, "first", "second")
    with refuses(sch, "block 'second' has accumulated cannot be corrected for a new value of 'm'"):
        tr.split_reductions(sch, first, [second], parts=4, run=run)
