"""Reductions of several values at once over threads: those that TVM is told of, and TVM's own."""

import numpy as np
import pytest
from kernels import at_block, parse_kernel
from tvm import tirx
from tvm.error import InternalError

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.devices import DeviceError
from tirstep.lowering_checks.devices.simulator import simulate
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.reduction import register_reducer


@pytest.mark.parametrize("threads", [8, 32, 256])
def test_the_sum_and_the_maximum_of_a_row_are_found_together(threads: int) -> None:
    run = run_recipe(
        RECIPES["softmax_online"], {"m": 3, "n": 512}, config={"threads": threads, "vector": 2}
    )
    module = run.steps[-1].module
    assert not check_numbers(run.problem, module, get_device("simulator"), where="")


# The running maximum of a row, and the sum of exponentials below it, in the unsafe order.
MaximumFirst = parse_kernel("""
    A (4, 64), P (4,), Q (4,)
    for i, k in T.grid(4, 64):
        with T.sblock("S", "SR", i, k):
            with T.init():
                P[vi] = T.min_value("float32")
                Q[vi] = T.float32(0)
            largest: T.let[T.float32] = T.max(P[vi], A[vi, vk])
            total: T.let[T.float32] = Q[vi] * T.exp(P[vi] - T.max(P[vi], A[vi, vk])) + T.exp(
                T.float32(0)
            ) * T.exp(A[vi, vk] - T.max(P[vi], A[vi, vk]))
            P[vi] = largest
            Q[vi] = total
""")


def test_tvm_stores_a_value_before_it_computes_the_next_one() -> None:
    """Why the sum comes first: after the maximum, it would be scaled by the new one."""

    def combine(ours, theirs):
        both = tirx.max(ours[0], theirs[0])
        scaled = ours[1] * tirx.exp(ours[0] - both)
        return [both, scaled + theirs[1] * tirx.exp(theirs[0] - both)]

    def identify(_values):
        return [tirx.min_value("float32"), tirx.const(0, "float32")]

    register_reducer(combine, identify, values=2)
    sch, block, *_ = at_block(MaximumFirst, "S")
    sch.bind(sch.get_loops(block)[0], "blockIdx.x")
    tr.spread_over_threads(sch, block, threads=32)
    a = np.random.default_rng(0).normal(size=(4, 64)).astype("float32")
    blank = np.full(4, np.nan, "float32")
    _, largest, total = simulate(sch.mod, [a, blank, blank]).arguments
    np.testing.assert_array_equal(largest, a.max(1))
    assert (total > 1.1 * np.exp(a - a.max(1, keepdims=True)).sum(1)).any()


# Whether all of a row hold.
AllOf = parse_kernel("""
    A (8, 12) bool, Y (8,) bool
    for i, k in T.grid(8, 12):
        with T.sblock("Y", "SR", i, k):
            with T.init():
                Y[vi] = T.bool(True)
            Y[vi] = Y[vi] and A[vi, vk]
""")


def test_parts_of_booleans_are_refused_with_a_sentence() -> None:
    """TVM looks for their identity, and raises an InternalError."""
    sch, block, *_ = at_block(AllOf, "Y")
    with pytest.raises(tr.TransformError, match="reduces booleans into 'Y', whose identity TVM"):
        tr.rfactor_reduction(sch, block, parts=3)
    assert sch.mod.same_as(AllOf)
    outer, _ = sch.split(sch.get_loops(block)[1], [3, None])
    with pytest.raises(InternalError, match="max_value"):
        sch.rfactor(outer, 0)


# The sums of rows, to which each element is added from the left.
TurnedSum = parse_kernel("""
    A (8, 32), Y (8,)
    for i, k in T.grid(8, 32):
        with T.sblock("Y", "SR", i, k):
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = A[vi, vk] + Y[vi]
""")


def test_a_sum_over_threads_with_its_result_behind_is_refused() -> None:
    """TVM does not lower it, and says so in the first line of a long message."""
    sch, _, i, k = at_block(TurnedSum, "Y")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    with pytest.raises(tr.TransformError, match="with its accumulator as the second operand,"):
        tr.bind_loop(sch, k, axis="threadIdx.x")
    sch.bind(k, "threadIdx.x")
    with pytest.raises(DeviceError, match="No matched reducer for the identity and the combiner"):
        get_device("simulator").compile(sch.mod)
