"""The pass that drops a question whose answer another one gives, too."""

import pytest
from kernels import parse_kernel
from tvm.ir import assert_structural_equal
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.transforms.passes.before_flattening import DropImpliedConditions


def make_choice(outer, inner, other=0.0):
    """A copy of what is inside, by threads of four elements each; otherwise a constant."""

    @I.ir_module
    class Choice:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((32,), "float32"), B: T.Buffer((40,), "float32")):
            thread = T.launch_thread("threadIdx.x", 10)
            for r in range(4):
                B[thread * 4 + r] = T.if_then_else(
                    outer(thread, r),
                    T.float32(other),
                    T.if_then_else(inner(thread, r), A[thread * 4 + r - 4], T.float32(0)),
                )

    return Choice


def inside(thread, r):
    return T.And(thread >= 1, thread < 9)


@pytest.mark.parametrize(
    "outer",
    [
        lambda t, r: t == 1,
        lambda t, r: r < 1,
        lambda t, r: T.Or(T.And(t == 0, r < 1), T.And(t == 8, r == 3)),
        lambda t, r: t < 2,
    ],
)
def test_a_condition_that_the_inner_one_may_meet_is_kept(outer):
    module = make_choice(outer, inside)
    assert_structural_equal(DropImpliedConditions(module), module)


def test_a_condition_of_another_value_is_kept():
    module = make_choice(lambda t, r: t == 0, inside, other=1.0)
    assert_structural_equal(DropImpliedConditions(module), module)


def test_a_condition_that_keeps_the_inner_one_from_a_load_stays():
    """The inner one asks of A[t] itself, and A has 32 elements only."""

    Module = parse_kernel("""
        A (32,), B (40,)
        t = T.launch_thread("threadIdx.x", 40)
        B[t] = T.if_then_else(
            t >= 32,
            T.float32(0),
            T.if_then_else(A[t] > T.float32(0) and t < 32, A[t], T.float32(0)),
        )
    """)

    assert_structural_equal(DropImpliedConditions(Module), Module)
