"""Dependent reductions in one loop: pairs, numbers, planted bugs, and what has no repair."""

import numpy as np
import pytest
from pairs import assert_dead, check_pair, refuses, run_on_cpu
from plain_attention import HEADS, QUERIES, WIDTH, compute_attention, draw_attention, make_attention
from reduction_pairs import LEAST, Plain, draw, find_blocks, fuse_pair, make_pair, run_pair
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.tirx import exp

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import softmax
from tirstep.transforms.fusion import repair
from tirstep.transforms.queries import get_own_loops

SQUARE = "(a - m[vi] / T.float64(24)) * (a - m[vi] / T.float64(24))"
MODES = [(None, "in place"), (5, "in place"), (8, "in place"), (5, "apart")]

# ---- Pairs


def test_fuse_reductions_element_by_element() -> None:
    after = """
        m = T.sblock_alloc_buffer((5,))
        m_previous = T.sblock_alloc_buffer((5,))
        for i, k in T.grid(5, 24):
            with T.sblock("first", "SR", i, k):
                with T.init():
                    m[vi] = T.min_value("float32")
                m_previous[vi] = m[vi]
                m[vi] = T.max(m[vi], A[vi, vk])
            with T.sblock("second", "SR", i, k):
                T.reads(m_previous[vi], m[vi], A[vi, vk])
                T.writes(s[vi])
                with T.init():
                    s[vi] = T.float32(0)
                s[vi] = s[vi] * T.exp(m_previous[vi] - m[vi]) + T.exp(A[vi, vk] - m[vi])
    """

    def change(sch):
        first, second = find_blocks(sch, "first", "second")
        (i, k), own = sch.get_loops(first), sch.get_loops(second)
        found = tr.fuse_reductions(sch, first, second, k)
        assert found.tiles == found.elements == []
        assert_dead(sch, *own)
        return first, second, i, k

    check_pair(Plain, change, after, is_replayable=False)


# ---- Numbers: what a repair is derived for


@pytest.mark.parametrize(
    ("producer", "use", "start", "modes"),
    [
        ("max", "s[vi] + T.exp(a - m[vi])", None, MODES[:1]),
        ("max of -inf", "s[vi] + T.exp(a - m[vi]) * b", None, MODES),
        ("max of -inf", "s[vi] + T.exp2((a - m[vi]) * T.float64(1.44)) * b", None, MODES[2:3]),
        ("max", "s[vi] + T.exp(a / T.float64(2) - m[vi] / T.float64(2))", None, MODES[3:]),
        (
            "max",
            "s[vi] + T.if_then_else(vk < vi + 3, T.exp(a - m[vi]), T.float64(0))",
            None,
            MODES[:1],
        ),
        (
            "max",
            "s[vi] + T.exp(T.if_then_else(vk < 9, a, T.float64('-inf')) - m[vi])",
            None,
            MODES[1:2],
        ),
        ("max", "s[vi] + T.sqrt(T.exp(a - m[vi]) * T.exp(a - m[vi]))", None, MODES[:1]),
        (
            "squares",
            "s[vi] + b * T.rsqrt(m[vi] / T.float64(24) + T.float64(1e-5))",
            None,
            MODES[1:2],
        ),
        ("squares", "s[vi] + b / T.sqrt(m[vi])", None, MODES[2:3]),
        ("squares", "s[vi] + (a / m[vi] - b / m[vi])", None, MODES[3:]),
        ("sum", "s[vi] + b / m[vi]", None, MODES[:1]),
        ("min", "s[vi] + T.exp(m[vi] - a)", None, MODES[1:2]),
    ],
)
def test_rolling_updates_give_what_two_passes_give(producer, use, start, modes) -> None:
    module = make_pair(producer, use, *([start] if start else []))
    inputs = draw(is_masked=producer.startswith("max"), is_positive=producer == "sum")
    wanted = run_pair(module, inputs)
    assert np.isfinite(wanted).all()
    for tile, accumulate in modes:
        fused = fuse_pair(module, tile, accumulate)
        np.testing.assert_allclose(run_pair(fused.mod, inputs), wanted, rtol=1e-12)


# ---- Softmax of the catalogue: the online form is a result


def fuse_softmax(problem, tile: int | None) -> Schedule:
    sch = Schedule(problem.module)
    largest, total = find_blocks(sch, "max", "sum")
    loop = sch.get_loops(largest)[1]
    if tile is not None:
        loop = tr.split_loop(sch, loop, inner=tile, tail="guard").outer
    tr.fuse_reductions(sch, largest, total, loop)
    return sch


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("tile", [None, 5])
def test_online_softmax_is_the_plain_one_fused(dtype: str, tile: int | None) -> None:
    problem = softmax.problem(6, 13, dtype=dtype)
    sch = fuse_softmax(problem, tile)
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="cpu") == []
    largest, copy, output = find_blocks(sch, "max", "exp", "B")
    sch.compute_inline(copy)
    for block in (largest, output):
        tr.bind_loop(sch, sch.get_loops(block)[0], axis="blockIdx.x")
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="simulator") == []


@pytest.mark.parametrize(
    "wrong",
    [
        lambda old, new: exp(new - new),
        lambda old, new: exp(new - old),
        lambda old, new: exp(old - new) * exp(old - new),
    ],
    ids=["left out", "inverted", "twice"],
)
@pytest.mark.parametrize("is_split", [False, True], ids=["fused", "split"])
def test_a_factor_derived_wrongly_is_refused(wrong, is_split: bool, monkeypatch) -> None:
    """The drawn numbers find it, before anything is changed."""
    derived = lambda term, running, _: wrong(running.old, running.new)  # noqa: E731
    monkeypatch.setattr(repair, "derive_change", derived)
    sch = Schedule(Plain)
    first, second = find_blocks(sch, "first", "second")
    loop = sch.get_loops(first)[1]
    with refuses(sch, "changes by the factor .*, with which on .* it would give"):
        if is_split:
            tr.split_reductions(sch, first, [second], parts=4)
        else:
            tr.fuse_reductions(sch, first, second, loop)


# ---- Attention: two consumers, and blocks between

MIN_VALUE = "T.min_value('float32')"


def fuse_attention(module, *, tile: int):
    """Rows in tiles of 4 and keys in tiles; blocks by name."""
    sch = Schedule(module)
    names = ("scores", "max", "exp", "sum", "weighted", "out")
    blocks = dict(zip(names, find_blocks(sch, *names), strict=True))
    h, i, j = sch.get_loops(blocks["max"])
    rows, row = tr.split_loop(sch, i, inner=4)
    keys, key = tr.split_loop(sch, j, inner=tile, tail="guard")
    tr.reorder_loops(sch, [h, rows, keys, row, key])
    first = tr.fuse_reductions(sch, blocks["max"], blocks["sum"], keys)
    second = tr.fuse_reductions(sch, blocks["max"], blocks["weighted"], keys)
    assert sch.get(first.elements[0]).same_as(sch.get(second.elements[0]))
    assert_dead(sch, blocks["exp"])
    blocks["exp"], blocks["max_tile"] = second.elements[0], first.tiles[0]
    tr.compute_block_at(sch, blocks["scores"], keys)
    tr.reverse_compute_block_at(sch, blocks["out"], rows)
    return sch, blocks, (h, rows, keys)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("tile", "causal", "least"),
    [(4, False, MIN_VALUE), (5, True, MIN_VALUE), (5, True, "T.float32('-inf')")],
)
def test_attention_becomes_one_kernel(tile: int, causal: bool, least: str) -> None:
    module = make_attention(causal=causal, least=least)
    sch, blocks, (h, rows, _) = fuse_attention(module, tile=tile)
    inputs, shape = draw_attention(), (HEADS, QUERIES, WIDTH)
    wanted = compute_attention(inputs, causal=causal)
    got = run_on_cpu(sch.mod, *inputs, output=shape, dtype="float32")
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    tr.bind_loop(sch, h, axis="blockIdx.y")
    tr.bind_loop(sch, rows, axis="blockIdx.x")
    for name in ("scores", "max", "max_tile", "exp", "sum", "weighted"):
        tr.keep_in_registers(sch, blocks[name])
    own = get_own_loops(sch, blocks["weighted"])
    init = tr.decompose_reduction_at(sch, blocks["weighted"], own[-1])
    assert sch.get(init).name_hint == "weighted_init"
    got = run_on_cpu(sch.mod, *inputs, output=shape, dtype="float32")
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_fuse_reductions_refuses_what_does_not_fit():
    module = make_attention(causal=False, least=MIN_VALUE, divides_first=True)
    sch = Schedule(module)
    largest, total, weighted = find_blocks(sch, "max", "sum", "weighted")
    keys = sch.get_loops(largest)[-1]
    sentence = "block 'sum' between the two reduces, too; divide by its result"
    with refuses(sch, f"fuse_reductions: {sentence}"):
        tr.fuse_reductions(sch, largest, weighted, keys)
    tr.fuse_reductions(sch, largest, total, keys)
    with refuses(sch, "fuse_reductions: block 'sum' between the two reduces, too"):
        tr.fuse_reductions(sch, largest, weighted, keys)
    sch = Schedule(make_pair("max", "s[vi] + b * m[vi]", dtype="int32"))
    first, second = find_blocks(sch, "first", "second")
    loop = sch.get_loops(first)[1]
    with refuses(sch, "changes by a factor, which int32 sums do not hold"):
        tr.fuse_reductions(sch, first, second, loop)
    sch = Schedule(Plain)
    first, second = find_blocks(sch, "first", "second")
    loop = sch.get_loops(first)[1]
    with refuses(sch, "loop 'k' has one term in each iteration, and no sum of its own"):
        tr.fuse_reductions(sch, first, second, loop, accumulate="apart")


# ---- What has no repair


@pytest.mark.parametrize(
    ("producer", "use", "start", "sentence"),
    [
        ("sum", f"s[vi] + {SQUARE}", None, "has parts that change by different factors"),
        ("squares", "s[vi] + b * m[vi]", None, "with which on zeros it would give 12, and in two"),
        ("max", "s[vi] + b * m[vi]", None, "factor new / old, with which on .* it would give nan"),
        ("sum", "s[vi] + T.abs(a - m[vi])", None, "mixes both so that no factor comes out of it"),
        ("max", "s[vi] + T.Select(a == m[vi], T.float64(1), T.float64(0))", None, "is a condition"),
        ("max", "s[vi] + T.if_then_else(a < m[vi], a, b)", None, "is a condition, which may"),
        ("max", "s[vi] + T.log(a - m[vi])", None, r"T.log\(A\[vi, vk\] - m\) mixes both"),
        ("max", "s[vi] + T.tanh(a - m[vi])", None, r"T.tanh\(A\[vi, vk\] - m\) mixes both"),
        ("max", "s[vi] + T.exp(a * m[vi])", None, "multiplies or divides what changes by a part"),
        ("max", "s[vi] + (T.exp(a - m[vi]) + T.float64(1))", None, "change by different factors"),
        ("max", "s[vi] + (T.exp(a - m[vi]) + T.exp(a - m[vi] / T.float64(2)))", None, "by diff"),
        ("max", "s[vi] + T.max(a - m[vi], T.float64(-3))", None, "change by different factors"),
        ("max", "s[vi] + T.exp(T.max(a - m[vi], b))", None, "change by different summands"),
        ("max", "T.max(s[vi], a - m[vi])", LEAST, "change a maximum, and only sums are rescaled"),
        ("max", "T.min(s[vi], a - m[vi])", LEAST, "change a minimum, and only sums are rescaled"),
        ("max", "s[vi] * T.exp(a - m[vi])", "T.float64(1)", "a product by as many factors as it"),
        ("max", "s[vi] + T.exp(a - m[vi])", "T.float64(1)", "is its initial value, which would be"),
        ("sum", "s[vi] + b / T.sqrt(m[vi])", None, "with which on .* it would give nan"),
        ("max", "s[vi] + b / m[vi]", None, "factor old / new, with which on .* it would give nan"),
        ("max", "s[vi] + T.exp(b - m[vi])", None, "with which with -inf first it would give"),
        ("max", "s[vi] + T.exp(a - m[vi]) * T.floor(b)", None, "'floor', which is not evaluated"),
        ("max", "s[vi] + a * b", None, "block 'second' does not use what block 'first' computes"),
    ],
)
def test_fuse_reductions_refuses_what_has_no_repair(producer, use, start, sentence) -> None:
    sch = Schedule(make_pair(producer, use, *([start] if start else [])))
    first, second = find_blocks(sch, "first", "second")
    loop = sch.get_loops(first)[1]
    with refuses(sch, f"fuse_reductions: .*{sentence}"):
        tr.fuse_reductions(sch, first, second, loop)


# ---- Places that it does not take


def bind_both(sch: Schedule, block) -> None:
    for loop, axis in zip(sch.get_loops(block), ("blockIdx.x", "threadIdx.x"), strict=True):
        tr.bind_loop(sch, loop, axis=axis)


@pytest.mark.parametrize(
    ("prepare", "place", "sentence"),
    [
        (lambda sch, one, two: None, 0, "loop 'i' is not a reduction loop of block 'first'"),
        (
            lambda sch, one, two: bind_both(sch, one),
            1,
            "reduction loop 'k' of block 'first' is thr",
        ),
        (
            lambda sch, one, two: bind_both(sch, two),
            1,
            "the loops of block 'second' are bound or guarded, or do not",
        ),
        (
            lambda sch, one, two: tr.split_loop(sch, sch.get_loops(two)[1], inner=7, tail="guard"),
            1,
            "the loops of block 'second' are bound or guarded, or do not",
        ),
        (
            lambda sch, one, two: tr.decompose_reduction_at(sch, two, sch.get_loops(two)[1]),
            1,
            "is not a reduction with its initialization",
        ),
        (
            lambda sch, one, two: sch.fuse(*sch.get_loops(one)),
            0,
            "loop 'i_k_fused' goes over both rows and terms of block 'first'",
        ),
    ],
)
def test_fuse_reductions_refuses_places(prepare, place: int, sentence: str) -> None:
    sch = Schedule(Plain)
    first, second = find_blocks(sch, "first", "second")
    prepare(sch, first, second)
    loop = sch.get_loops(first)[place]
    with refuses(sch, f"fuse_reductions: .*{sentence}"):
        tr.fuse_reductions(sch, first, second, loop)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("- m[vi])", "- m[vk])", "block 'second' reads 'm' at vk, which is not one row of its own"),
        ("- m[vi])", "- m[0])", "block 'second' reads 'm' at 0, which is not one row of its own"),
        ("- m[vi])", "- m[vi] - m[0])", "block 'second' reads 'm' at several places for one term"),
        ("T.max(m[vi], A[vi, vk])", "m[vi] - A[vi, vk]", "which is not a sum, product, maximum"),
    ],
)
def test_fuse_reductions_refuses_other_rows(old: str, new: str, sentence: str) -> None:
    sch = Schedule(from_source(Plain.script().replace(old, new)))
    first, second = find_blocks(sch, "first", "second")
    loop = sch.get_loops(first)[1]
    with refuses(sch, f"fuse_reductions: .*{sentence}"):
        tr.fuse_reductions(sch, first, second, loop)
