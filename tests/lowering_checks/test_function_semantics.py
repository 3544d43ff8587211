"""Functions whose semantics are registered with the simulator."""

import doctest

import numpy as np
import pytest
import tvm
from kernels import parse_kernel

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.devices.simulator import (
    function_semantics,
    register_semantics,
    simulate,
)

SIMULATOR = get_device("simulator")
VALUES = np.arange(32, dtype="float32") + 1


def call(name: str) -> tvm.IRModule:
    """Eight threads in each of two blocks call a function with their two elements of a tile."""
    return parse_kernel(f"""
        A (32,), B (32,)
        for block in T.thread_binding(2, thread="blockIdx.x"):
            for thread in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("B"):
                    T.reads(A[0:32])
                    T.writes(B[0:32])
                    S = T.sblock_alloc_buffer((16,), "float32", scope="shared")
                    for i in range(2):
                        S[thread * 2 + i] = A[block * 16 + thread * 2 + i]
                    T.evaluate(T.cuda.func_call(
                        "{name}", S.access_ptr("rw", ptr_type="float32", offset=thread * 2), 2,
                        T.Cast("float32", thread), source_code=""))
                    for i in range(2):
                        B[block * 16 + thread * 2 + i] = S[thread * 2 + i]
    """)


def run(module: tvm.IRModule):
    return simulate(module, [VALUES, np.full(32, np.nan, "float32")])


@pytest.fixture
def own(monkeypatch):
    """No semantics but those that a test registers."""
    monkeypatch.setattr(function_semantics, "_REGISTERED", {})


@pytest.fixture
def documented(own):
    """The semantics of the docstring's examples."""
    for test in doctest.DocTestFinder().find(register_semantics):
        for example in test.examples:
            exec(example.source, {"np": np, "register_semantics": register_semantics})


@pytest.mark.usefixtures("documented")
def test_the_documented_semantics_stand_for_a_function() -> None:
    result = run(call("scale_in_place"))
    assert result.findings == []
    expected = VALUES.reshape(2, 8, 2) * np.arange(8)[None, :, None]
    np.testing.assert_array_equal(result.arguments[1], expected.ravel())


def test_a_function_without_semantics_is_refused_in_a_sentence(own) -> None:
    program = SIMULATOR.compile(call("wonder"))
    with pytest.raises(DeviceError) as caught:
        program([VALUES, VALUES])
    assert str(caught.value) == (
        "the simulator does not know the function 'wonder'; define it with "
        "register_semantics('wonder') of tirstep.lowering_checks.devices.simulator, or choose "
        "another device"
    )


def test_a_copy_in_flight_goes_to_shared_memory_alone(own) -> None:
    @register_semantics("fly")
    def fly(threads, target):
        target.begin_store(0, 1)

    program = SIMULATOR.compile(
        parse_kernel("""
            A (32,), B (32,)
            for thread in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("B"):
                    T.reads(A[thread])
                    T.writes(B[thread])
                    R = T.sblock_alloc_buffer((1,), "float32", scope="local")
                    R[0] = A[thread]
                    T.evaluate(T.cuda.func_call("fly", R.data, source_code=""))
                    B[thread] = R[0]
        """)
    )
    with pytest.raises(DeviceError, match="asynchronous copies into shared memory only, and R"):
        program([VALUES, VALUES])
