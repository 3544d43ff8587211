"""Factors taken out of a sum: what comes out of which terms, and which sums have none."""

import numpy as np
import pytest
from kernels import parse_kernel
from pairs import check_pair, refuses, run_on_cpu
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import const

from tirstep.transforms import (
    bind_loop,
    compute_block_at,
    factor_out_of_sum,
    fuse_loops,
    split_loop,
)
from tirstep.transforms.fusion.factoring import split_factor
from tirstep.transforms.fusion.reductions import read_reduction, uses_any


def make_sum(write_term, *, dtype: str = "float32", begin=0.0, combine=None):
    """A sum of terms of a row's element, a value of the row, and a weight, all of one type."""
    combine = combine or (lambda a, b: a + b)
    identity = const(begin, dtype)

    @I.ir_module
    class Sum:
        @T.prim_func(s_tir=True)
        def main(
            X: T.Buffer((6, 20), dtype),
            S: T.Buffer((6,), dtype),
            W: T.Buffer((20,), dtype),
            C: T.Buffer((6,), dtype),
        ):
            for i, k in T.grid(6, 20):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = identity
                    C[vi] = combine(C[vi], write_term(X[vi, vk], S[vi], W[vk]))

    return Sum


# A product whose left operand is multiplied by a value of its row, and rounded.
Normed = parse_kernel("""
    X (6, 20) float16, S (6,), W (20, 4) float16, C (6, 4)
    for i, j, k in T.grid(6, 4, 20):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] += T.Cast(
                "float32", T.Cast("float16", T.Cast("float32", X[vi, vk]) * T.rsqrt(S[vi]))
            ) * T.Cast("float32", W[vk, vj])
""")


def test_factor_out_of_sum_takes_the_factor_and_the_rounding_it_stood_in():
    after = """
        C_global = T.sblock_alloc_buffer((6, 4))
        for i, j, k in T.grid(6, 4, 20):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
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
        return factor_out_of_sum(sch, block), block, loops

    check_pair(Normed, change, after, is_replayable=False)


TERMS = {
    "X * S * W": (lambda x, s, w: x * s * w, "S[vi]", "X[vi, vk] * W[vk]"),
    "X / S": (lambda x, s, w: x / s, "T.float32(1.0) / S[vi]", "X[vi, vk]"),
    "S / X": (lambda x, s, w: s / x, "S[vi]", "T.float32(1.0) / X[vi, vk]"),
    "X / (S * W)": (
        lambda x, s, w: x / (s * w),
        "T.float32(1.0) / S[vi]",
        "X[vi, vk] / W[vk]",
    ),
    "(S + 1) * X": (lambda x, s, w: (s + 1.0) * x, "S[vi] + T.float32(1.0)", "X[vi, vk]"),
    "2 * exp(X)": (lambda x, s, w: T.float32(2) * T.exp(x), "T.float32(2.0)", "T.exp(X[vi, vk])"),
    "S": (lambda x, s, w: s, "S[vi]", "None"),
}


@pytest.mark.parametrize("name", TERMS)
def test_a_term_is_taken_apart(name: str):
    write, factor, rest = TERMS[name]
    sch = Schedule(make_sum(write))
    reduction = read_reduction(sch.get(sch.get_sblock("C")))
    reduced = [item.var for item in reduction.iterators(reduced=True)]
    parts = split_factor(reduction.term, lambda it: uses_any(it, reduced))
    assert (str(parts.factor), str(parts.rest)) == (factor, rest)


REFUSED = {
    "each factor depends on the reduction": (
        make_sum(lambda x, s, w: x * w),
        r"each factor of the term X\[vi, vk\] \* W\[vk\] of block 'C' depends on 'vk', over which",
    ),
    "a summand is no factor": (
        make_sum(lambda x, s, w: x + s),
        r"each factor of the term X\[vi, vk\] \+ S\[vi\] of block 'C' depends on 'vk'",
    ),
    "a factor within a function": (
        make_sum(lambda x, s, w: T.exp(x * s)),
        r"each factor of the term T.exp\(X\[vi, vk\] \* S\[vi\]\) of block 'C' depends on 'vk'",
    ),
    "a maximum": (
        make_sum(lambda x, s, w: x * s, combine=T.max),
        "block 'C' is a maximum of float32, out of which a factor comes only if its sign is known",
    ),
    "a product": (
        make_sum(lambda x, s, w: x * s, begin=1.0, combine=lambda a, b: a * b),
        "block 'C' is a product of float32",
    ),
    "integers, which wrap around": (
        make_sum(lambda x, s, w: x * s, dtype="int32"),
        "block 'C' is a sum of int32",
    ),
    "a sum that does not begin with 0": (
        make_sum(lambda x, s, w: x * s, begin=1.0),
        "block 'C' begins with .*, which the factor would change, too; let the sum begin with 0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_factor_out_of_sum_refuses_sums_without_a_factor(name: str):
    module, sentence = REFUSED[name]
    sch = Schedule(module)
    block = sch.get_sblock("C")
    with refuses(sch, f"factor_out_of_sum: {sentence}"):
        factor_out_of_sum(sch, block)


# The value of a row is computed by a block of its own, and the sum is used by another one.
Rescaled = parse_kernel("""
    X (6, 20), R (6,), Y (6,)
    S = T.sblock_alloc_buffer((6,))
    C = T.sblock_alloc_buffer((6,))
    for i in range(6):
        with T.sblock("S"):
            vi = T.axis.spatial(6, i)
            S[vi] = R[vi] + T.float32(1)
    for i, k in T.grid(6, 20):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] += X[vi, vk] * S[vi]
    for i in range(6):
        with T.sblock("Y"):
            vi = T.axis.spatial(6, i)
            Y[vi] = C[vi] + T.float32(1)
""")


def test_a_block_in_the_sum_s_loops_is_refused():
    """It could change the factor, or use the sum, before the factor is applied."""
    sch = Schedule(Rescaled)
    block = sch.get_sblock("C")
    compute_block_at(sch, sch.get_sblock("S"), sch.get_loops(block)[0])
    with refuses(sch, "blocks 'C' and 'S' stand in one loop, behind which the factor would be"):
        factor_out_of_sum(sch, block)


def test_bound_loops_are_refused():
    sch = Schedule(Rescaled)
    block = sch.get_sblock("C")
    bind_loop(sch, sch.get_loops(block)[0], axis="threadIdx.x")
    with refuses(sch, "factor_out_of_sum: loop 'i' is already bound to 'threadIdx.x'"):
        factor_out_of_sum(sch, block)


@pytest.mark.parametrize("inner", [4, 7])
def test_a_guarded_sum_is_multiplied_where_it_is_computed(inner: int):
    sch = Schedule(Normed)
    block = sch.get_sblock("C")
    rows = fuse_loops(sch, sch.get_loops(block)[:2])
    split_loop(sch, rows, inner=inner, tail="guard")
    split_loop(sch, sch.get_loops(block)[-1], inner=3, tail="guard")
    factor_out_of_sum(sch, block)
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
    sch = Schedule(Some)
    block = sch.get_sblock("C")
    with refuses(sch, r"'C_global' would read C_global\[1\], which block 'C' has not written"):
        factor_out_of_sum(sch, block)
