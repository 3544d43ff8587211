"""The pass that drops a question whose answer another one gives, too."""

import pytest
import tvm
from kernels import parse_kernel
from tvm.ir import assert_structural_equal

from tirstep.transforms.passes.before_flattening import DropImpliedConditions


def make_choice(outer: str, inner: str, other: float = 0.0) -> tvm.IRModule:
    """A copy of what is inside, by threads of four elements each; otherwise a constant."""
    return parse_kernel(f"""
        A (32,), B (40,)
        t = T.launch_thread("threadIdx.x", 10)
        for r in range(4):
            B[t * 4 + r] = T.if_then_else(
                {outer},
                T.float32({other}),
                T.if_then_else({inner}, A[t * 4 + r - 4], T.float32(0)),
            )
    """)


INSIDE = "T.And(t >= 1, t < 9)"


@pytest.mark.parametrize(
    "outer", ["t == 1", "r < 1", "T.Or(T.And(t == 0, r < 1), T.And(t == 8, r == 3))", "t < 2"]
)
def test_a_condition_that_the_inner_one_may_meet_is_kept(outer):
    module = make_choice(outer, INSIDE)
    assert_structural_equal(DropImpliedConditions(module), module)


def test_a_condition_of_another_value_is_kept():
    module = make_choice("t == 0", INSIDE, other=1.0)
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
