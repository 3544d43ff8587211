"""Factors taken out of a sum: what comes out of which terms, and which sums have none."""

import numpy as np
import pytest
from kernels import at_block, parse_kernel
from pairs import check_pair, refuses, run_on_cpu
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.transforms.fusion.blocks import read_reduction, uses_any
from tirstep.transforms.fusion.factors import split_factor

SUM = """
X (6, 20), S (6,), W (20,), C (6,)
for i, k in T.grid(6, 20):
    with T.sblock("C", "SR", i, k):
        x = T.meta_var(X[vi, vk])
        s = T.meta_var(S[vi])
        w = T.meta_var(W[vk])
        with T.init():
            C[vi] = T.float32(0)
        C[vi] = C[vi] + x * s
"""


# A product whose left operand is multiplied by a value of its row, and rounded.
Normed = parse_kernel("""
    X (6, 20) float16, S (6,), W (20, 4) float16, C (6, 4)
    for i, j, k in T.grid(6, 4, 20):
        with T.sblock("C", "SSR", i, j, k):
            C[vi, vj] += T.Cast(
                "float32", T.Cast("float16", T.Cast("float32", X[vi, vk]) * T.rsqrt(S[vi]))
            ) * T.Cast("float32", W[vk, vj])
""")


def test_factor_out_of_sum_takes_the_factor_and_the_rounding_it_stood_in():
    after = """
        C_global = T.sblock_alloc_buffer((6, 4))
        for i, j, k in T.grid(6, 4, 20):
            with T.sblock("C", "SSR", i, j, k):
                C_global[vi, vj] += T.Cast("float32", X[vi, vk]) * T.Cast(
                    "float32", W[vk, vj]
                )
        for ax0, ax1 in T.grid(6, 4):
            with T.sblock("C_global"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                C[v0, v1] = C_global[v0, v1] * T.rsqrt(S[v0])
    """

    def change(sch: Schedule):
        block = sch.get_sblock("C")
        loops = sch.get_loops(block)
        return tr.factor_out_of_sum(sch, block), block, loops

    check_pair(Normed, change, after, is_replayable=False)


@pytest.mark.parametrize(
    ("term", "factor", "rest"),
    [
        ("x * s * w", "S[vi]", "X[vi, vk] * W[vk]"),
        ("x / s", "T.float32(1.0) / S[vi]", "X[vi, vk]"),
        ("s / x", "S[vi]", "T.float32(1.0) / X[vi, vk]"),
        ("x / (s * w)", "T.float32(1.0) / S[vi]", "X[vi, vk] / W[vk]"),
        ("(s + T.float32(1)) * x", "S[vi] + T.float32(1.0)", "X[vi, vk]"),
        ("T.float32(2) * T.exp(x)", "T.float32(2.0)", "T.exp(X[vi, vk])"),
        ("s", "S[vi]", "None"),
    ],
)
def test_a_term_is_taken_apart(term: str, factor: str, rest: str) -> None:
    sch = Schedule(parse_kernel(SUM.replace("x * s", term)))
    reduction = read_reduction(sch.get(sch.get_sblock("C")))
    reduced = [item.var for item in reduction.iterators(reduced=True)]
    parts = split_factor(reduction.term, lambda it: uses_any(it, reduced))
    assert tuple(map(str, parts)) == (factor, rest)


DEPENDS = "each factor of the term .* of block 'C' depends on 'vk', over which"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("x * s", "x * w", DEPENDS),
        ("x * s", "(x + s)", DEPENDS),
        ("x * s", "T.exp(x * s)", DEPENDS),
        ("C[vi] + x * s", "T.max(C[vi], x * s)", "block 'C' is a maximum of float32 that starts"),
        ("C[vi] + x * s", "C[vi] * (x * s)", "block 'C' is a product of float32 that"),
        ("T.float32(0)", "T.float32(1)", "from T.float32.1.0.; it must be a sum of floats that"),
    ],
)
def test_factor_out_of_sum_refuses_sums_without_a_factor(old: str, new: str, sentence: str):
    sch, block, *_ = at_block(parse_kernel(SUM.replace(old, new)), "C")
    with refuses(sch, f"factor_out_of_sum: .*{sentence}"):
        tr.factor_out_of_sum(sch, block)


# The value of a row is computed by a block of its own, and the sum is used by another one.
Rescaled = parse_kernel("""
    X (6, 20), R (6,), Y (6,)
    S = T.sblock_alloc_buffer((6,))
    C = T.sblock_alloc_buffer((6,))
    for i in range(6):
        with T.sblock("S", "S", i):
            S[vi] = R[vi] + T.float32(1)
    for i, k in T.grid(6, 20):
        with T.sblock("C", "SR", i, k):
            C[vi] += X[vi, vk] * S[vi]
    for i in range(6):
        with T.sblock("Y", "S", i):
            Y[vi] = C[vi] + T.float32(1)
""")


def test_a_block_in_the_sum_s_loops_is_refused():
    """It could change the factor, or use the sum, before the factor is applied."""
    sch, block, *_ = at_block(Rescaled, "C")
    tr.compute_block_at(sch, sch.get_sblock("S"), sch.get_loops(block)[0])
    with refuses(sch, "blocks 'C' and 'S' are in one loop, and the sums would be complete only"):
        tr.factor_out_of_sum(sch, block)


def test_bound_loops_are_refused():
    sch, block, *_ = at_block(Rescaled, "C")
    tr.bind_loop(sch, sch.get_loops(block)[0], axis="threadIdx.x")
    with refuses(sch, "factor_out_of_sum: loop 'i' is already bound to 'threadIdx.x'"):
        tr.factor_out_of_sum(sch, block)


@pytest.mark.parametrize("inner", [4, 7])
def test_a_guarded_sum_is_multiplied_where_it_is_computed(inner: int):
    sch, block, *_ = at_block(Normed, "C")
    rows = tr.fuse_loops(sch, sch.get_loops(block)[:2])
    tr.split_loop(sch, rows, inner=inner, tail="guard")
    tr.split_loop(sch, sch.get_loops(block)[-1], inner=3, tail="guard")
    tr.factor_out_of_sum(sch, block)
    x, w = np.ones((6, 20), "float16"), np.ones((20, 4), "float16")
    s = (4.0 ** np.arange(6)).astype("float32")
    got = run_on_cpu(sch.mod, x, s, w, output=(6, 4), dtype="float32")
    np.testing.assert_allclose(got, np.repeat(20 / 2.0 ** np.arange(6)[:, None], 4, axis=1))


# Sums of rows of which the kernel computes every other one.
Some = parse_kernel("""
    X (6, 20), S (6,), C (6,)
    for i, k in T.grid(6, 20):
        with T.sblock("C"):
            T.where(i % 2 == 0)
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] += X[vi, vk] * S[vi]
""")


def test_sums_of_which_some_are_left_out_are_refused():
    """The others would be overwritten, by what no block has computed."""
    sch, block, *_ = at_block(Some, "C")
    with refuses(sch, r"'C_global' would read C_global\[1\], which block 'C' has not written"):
        tr.factor_out_of_sum(sch, block)
