"""Exponentials as powers of two: the pair, what is refused, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kernels import at_block, parse_kernel
from pairs import check_pair, refuses, run_on_cpu
from tvm.s_tir import Schedule

from tirstep.transforms import fuse_exponents, use_powers_of_two

LOG2_E = 1.4426950408889634
TERM = "T.exp((A[vi, vk] - m[vi]) * T.float32(0.5))"
ALLOWED = 'T.sblock_attr({"tirstep_exponents": "fused"})'


def make(term: str = TERM, note: str = "") -> tvm.IRModule:
    """P of a term of A and m, in a block that may have a note."""
    return parse_kernel(f"""
        A (8, 24), m (8,), P (8, 24)
        for i, k in T.grid(8, 24):
            with T.sblock("P", "SS", i, k):
                {note or "pass"}
                P[vi, vk] = {term}
    """)


def get_block(sch: Schedule) -> object:
    return sch.get_sblock("P")


def test_use_powers_of_two_with_one_factor() -> None:
    check_pair(
        make(),
        lambda sch: use_powers_of_two(sch, get_block(sch)),
        make(f"T.exp2((A[vi, vk] - m[vi]) * T.float32({0.5 * LOG2_E}))"),
        is_replayable=False,
    )


@pytest.mark.parametrize(
    ("term", "sentence"),
    [
        ("A[vi, vk] - m[vi]", "block 'P' computes no exponential; pass the block that has"),
        ("T.exp2(A[vi, vk])", "block 'P' computes no exponential"),
        (
            'T.Cast("float32", T.exp(T.Cast("float16", A[vi, vk])))',
            "computes an exponential in float16; leave it as it is",
        ),
        (
            'T.exp(A[vi, vk]) + T.Cast("float32", T.exp(T.Cast("float64", m[vi])))',
            "computes an exponential in float64",
        ),
        ("T.exp(A[vi, vk] * T.float32(3e38))", "factor 3e\\+38 of an exponent of block 'P'"),
    ],
)
def test_use_powers_of_two_refuses(term: str, sentence: str) -> None:
    sch = Schedule(make(term))
    block = get_block(sch)
    with refuses(sch, sentence):
        use_powers_of_two(sch, block)


def test_use_powers_of_two_refuses_the_root_block() -> None:
    sch, root, *_ = at_block(make(), "root")
    with refuses(sch, "use_powers_of_two: the root block is in no other one; pass a block inside"):
        use_powers_of_two(sch, root)


@pytest.mark.parametrize(
    "term",
    [
        "T.exp(T.exp(A[vi, vk]) * T.float32(0.25))",
        "T.exp(A[vi, vk]) + T.exp(m[vi] * T.float32(-0.5))",
        "T.if_then_else(vk <= vi, T.exp(T.float32(0.5) * A[vi, vk]), T.float32(0))",
        "T.exp((A[vi, vk] - m[vi]) * T.float32(1e-45))",
    ],
)
def test_all_exponentials_of_a_block_become_powers(term: str) -> None:
    """One within another one stayed as it was."""
    before = make(term)
    sch = Schedule(before)
    use_powers_of_two(sch, get_block(sch))
    assert "T.exp(" not in sch.mod.script()
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-3, 3, shape).astype(np.float32) for shape in ((8, 24), (8,))]
    want, got = (
        run_on_cpu(module, *inputs, output=(8, 24), dtype="float32") for module in (before, sch.mod)
    )
    np.testing.assert_allclose(got, want, rtol=1e-5)


FACTOR = f"T.float32({0.5 * LOG2_E})"


def fuse(sch: Schedule) -> None:
    use_powers_of_two(sch, get_block(sch))
    fuse_exponents(sch, get_block(sch))


def test_fuse_exponents_multiplies_before_it_subtracts() -> None:
    after = make(f"T.exp2(A[vi, vk] * {FACTOR} - m[vi] * {FACTOR})", ALLOWED)
    check_pair(make(note=ALLOWED), fuse, after, is_replayable=False)


@pytest.mark.parametrize(
    ("term", "note", "sentence"),
    [
        (TERM, "", "block 'P' does not allow exponents whose last bits depend on the maximum; ask"),
        *(
            (
                term,
                ALLOWED,
                "must have powers of two, and each exponent must be a difference times a number",
            )
            for term in (
                TERM,
                "T.exp2(A[vi, vk] * T.float32(0.5))",
                "T.exp2((A[vi, vk] - m[vi]) * m[vi])",
            )
        ),
    ],
)
def test_fuse_exponents_refuses(term: str, note: str, sentence: str) -> None:
    sch = Schedule(make(term, note))
    block = get_block(sch)
    with refuses(sch, sentence):
        fuse_exponents(sch, block)
