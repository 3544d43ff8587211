"""Functions that bring their own meaning to the simulator."""

import doctest

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from tirstep.lowering_checks import DeviceError, find_device
from tirstep.lowering_checks.devices.simulator import meanings, register_meaning, simulate

SIMULATOR = find_device("simulator")
VALUES = np.arange(32, dtype="float32") + 1


def call(first: str, second: str = "", *, has_guard: bool = False) -> tvm.IRModule:
    """Eight threads in each of two blocks call functions with their two elements of a tile."""
    has_second = bool(second)
    some = 5 if has_guard else 8

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for block in T.thread_binding(2, thread="blockIdx.x"):
            for thread in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("B"):
                    T.reads(A[0:32])
                    T.writes(B[0:32])
                    S = T.sblock_alloc_buffer((16,), "float32", scope="shared")
                    for i in range(2):
                        S[thread * 2 + i] = A[block * 16 + thread * 2 + i]
                    if thread < some:
                        T.evaluate(
                            T.cuda.func_call(
                                first,
                                S.access_ptr("rw", offset=thread * 2, ptr_type="float32"),
                                2,
                                T.Cast("float32", thread),
                                source_code="",
                            )
                        )
                    if has_second:
                        T.evaluate(T.cuda.func_call(second, source_code=""))
                    for i in range(2):
                        B[block * 16 + thread * 2 + i] = S[thread * 2 + i]

    return tvm.IRModule({"main": main})


def run(module: tvm.IRModule):
    return simulate(module, [VALUES, np.full(32, np.nan, "float32")])


@pytest.fixture
def own(monkeypatch):
    """No meanings but those that a test registers."""
    monkeypatch.setattr(meanings, "_REGISTERED", {})


@pytest.fixture
def documented(own):
    """The meanings of the docstring's examples."""
    for test in doctest.DocTestFinder().find(register_meaning):
        for example in test.examples:
            exec(example.source, {"np": np, "register_meaning": register_meaning})


@pytest.mark.usefixtures("documented")
def test_the_documented_meaning_stands_for_a_function() -> None:
    result = run(call("scale_in_place"))
    assert result.faults == []
    expected = VALUES.reshape(2, 8, 2) * np.arange(8)[None, :, None]
    np.testing.assert_array_equal(result.arguments[1], expected.ravel())


def test_a_function_without_a_meaning_is_refused_in_a_sentence(own) -> None:
    program = SIMULATOR.compile(call("wonder"))
    with pytest.raises(DeviceError) as caught:
        program([VALUES, VALUES])
    assert str(caught.value) == (
        "the simulator does not know the function 'wonder'; bring its meaning with "
        "register_meaning('wonder') of tirstep.lowering_checks.devices.simulator, or choose "
        "another device"
    )


@pytest.mark.usefixtures("documented")
def test_a_deferred_meaning_comes_to_pass_at_the_wait() -> None:
    """Threads 0 to 4 begin; the others wait for nothing."""
    waited = run(call("begin_scaling", "wait_for_scaling", has_guard=True))
    assert waited.faults == []
    factors = np.where(np.arange(8) < 5, np.arange(8), 1)
    expected = VALUES.reshape(2, 8, 2) * factors[None, :, None]
    np.testing.assert_array_equal(waited.arguments[1], expected.ravel())
    forgotten = run(call("begin_scaling", has_guard=True))
    np.testing.assert_array_equal(forgotten.arguments[1], VALUES)


def test_a_meaning_that_writes_out_of_bounds_is_found(own) -> None:
    @register_meaning("reach")
    def reach(threads, target, count, factor):
        target.store(9, factor)

    fault = run(call("reach")).faults[0]
    assert (fault.kind, fault.count) == ("out of bounds", 2 * 4)
    assert "thread (4, 0, 0) of block (0, 0, 0) writes S[17], which has 16 elements" in fault.text


def test_a_meaning_that_writes_what_a_neighbour_reads_races(own) -> None:
    @register_meaning("hand_on")
    def hand_on(threads, target, count, factor):
        value = target.load(0)
        target.store(2, value, threads.numbers < 7)

    (fault,) = run(call("hand_on")).faults
    assert fault.kind == "race"
    assert "thread (0, 0, 0) of block (0, 0, 0) writes S[2], which thread (1, 0, 0)" in fault.text


@pytest.mark.parametrize(("size", "has_guard"), [(8, True), (16, False)])
def test_a_meaning_that_needs_all_threads_of_a_group_says_so(own, size, has_guard) -> None:
    @register_meaning("together")
    def together(threads, target, count, factor):
        assert threads.groups(size).shape == (0, size)

    (fault,) = run(call("together", has_guard=has_guard)).faults
    assert fault.kind == "divergent warp instruction"
    assert fault.text == (
        "thread (0, 0, 0) of block (0, 0, 0) comes to together with "
        f"{5 if has_guard else 8} threads of its group, and all {size} must"
    )


def test_a_meaning_may_sum_over_a_group(own) -> None:
    @register_meaning("sum_up")
    def sum_up(threads, target, count, factor):
        groups = threads.groups(4)
        sums = target.load(np.arange(count))[groups].sum(axis=1, keepdims=True)
        target.store(np.arange(count), threads.spread(groups, np.repeat(sums, 4, axis=1)))

    result = run(call("sum_up"))
    assert result.faults == []
    expected = VALUES.reshape(4, 4, 2).sum(axis=1, keepdims=True).repeat(4, axis=1)
    np.testing.assert_array_equal(result.arguments[1], expected.ravel())


def test_a_meaning_may_return_a_value(own) -> None:
    @register_meaning("twice")
    def twice(threads, value):
        return value * 2

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for thread in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("B"):
                T.reads(A[thread])
                T.writes(B[thread])
                B[thread] = (
                    T.cuda.func_call("twice", A[thread], source_code="", return_type="float32") + 1
                )

    result = run(tvm.IRModule({"main": main}))
    assert result.faults == []
    np.testing.assert_array_equal(result.arguments[1], VALUES * 2 + 1)


def test_a_copy_beside_the_threads_goes_to_shared_memory_alone(own) -> None:
    @register_meaning("fly")
    def fly(threads, target):
        target.begin_store(0, 1)

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for thread in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("B"):
                T.reads(A[thread])
                T.writes(B[thread])
                R = T.sblock_alloc_buffer((1,), "float32", scope="local")
                R[0] = A[thread]
                T.evaluate(T.cuda.func_call("fly", R.data, source_code=""))
                B[thread] = R[0]

    program = SIMULATOR.compile(tvm.IRModule({"main": main}))
    with pytest.raises(DeviceError, match="asynchronous copies into shared memory alone, and R"):
        program([VALUES, VALUES])
