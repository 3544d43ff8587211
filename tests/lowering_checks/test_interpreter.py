"""Which iterations the interpreter runs at once where a schedule has few threads or none."""

import re

import numpy as np
import pytest
import tvm
from kernels import parse_kernel

from tirstep.lowering_checks import DeviceError
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter


@pytest.mark.parametrize("scope", ["shared", "local", "global"])
def test_what_lasts_for_a_kernel_is_not_used_behind_it(scope: str):
    module = parse_kernel(f"""
        A (8,), B (8,)
        X = T.alloc_buffer((8,), scope="{scope}")
        for i in T.thread_binding(8, thread="threadIdx.x"):
            X[i] = A[i]
        for i in range(8):
            B[i] = X[i]
""")
    array = np.arange(8, dtype="float32")
    program = Interpreter().compile(module)
    if scope == "global":
        np.testing.assert_array_equal(program([array, np.zeros(8, "float32")])[1], array)
        return
    sentence = f"X is not defined where it is used: what lies in '{scope}' lasts for one kernel"
    with pytest.raises(DeviceError, match=sentence):
        program([array, np.zeros(8, "float32")])


def test_a_variable_that_a_pass_took_away_is_named():
    n = tvm.tirx.Var("n", "int32")
    function = parse_kernel("B (8,)\nfor i in range(8):\n    B[i] = T.float32(1)")["main"]
    body = tvm.tirx.BufferStore(function.params[0], tvm.tirx.Cast("float32", n), [0])
    program = Interpreter().compile(tvm.IRModule({"main": function.with_body(body)}))
    with pytest.raises(DeviceError, match="the variable n is not defined where it is used"):
        program([np.zeros(8, "float32")])


def test_threads_that_are_in_order_are_so_around_atomic_operations():
    """What a schedule means: TVM is yet to put its barriers between these stores and loads."""
    module = parse_kernel("""
        A (64,), B (64,), C (64,) int32
        S = T.sblock_alloc_buffer((64,), "float32", scope="shared")
        for i in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, i)
                T.reads(A[v], S[0:64])
                T.writes(B[v], C[v], S[0:64])
                S[v] = A[v]
                C[v] = v
                C[v] = T.cuda.atomic_add(T.address_of(C[v]), 1)
                B[v] = S[63 - v]
""")
    array = np.arange(64, dtype="float32")
    program = Interpreter().compile(module)
    arrays = program([array, np.zeros(64, "float32"), np.zeros(64, "int32")])
    assert program.findings == []
    np.testing.assert_array_equal(arrays[1], array[::-1])
    np.testing.assert_array_equal(arrays[2], np.arange(64))


def test_a_loop_of_the_host_waits_for_no_thread():
    """It loads what it changes, as a loop of threads that spins does."""
    module = parse_kernel("""
        A (4,), B (1,) int32
        B[0] = 0
        for i in range(4):
            A[i] = T.float32(1)
        while B[0] < 5:
            A[B[0] % 4] = A[B[0] % 4] * T.float32(2)
            B[0] = B[0] + 1
        while B[0] > 5:
            A[0] = T.float32(0)
    """)
    program = Interpreter().compile(module)
    arrays = program([np.zeros(4, "float32"), np.zeros(1, "int32")])
    assert (program.findings, arrays[0].tolist(), arrays[1][0]) == ([], [4, 2, 2, 2], 5)


@pytest.mark.parametrize(
    ("leaves", "wanted"), [("break", [2, 2, 0, 0]), ("continue", [2, 2, 0, 2])]
)
def test_the_host_leaves_a_loop_or_an_iteration(leaves: str, wanted: list[float]):
    module = parse_kernel(f"""
        A (4,)
        for i in range(4):
            if i == 2:
                {leaves}
            A[i] = T.float32(2)
    """)
    program = Interpreter().compile(module)
    assert (program([np.zeros(4, "float32")])[0].tolist(), program.findings) == (wanted, [])


@pytest.mark.parametrize(
    ("loop", "stores", "told"),
    [
        ("T.parallel(1, 8)", "B[i] = B[i - 1] + A[i]", r"load of B\["),
        ("T.parallel(1, 8)", "t[0] = A[i]; B[i] = t[0]", r"store to t\[0\]"),
        ("T.parallel(1, 8)", "u[i] = A[i]; B[i] = u[i]", ""),
        ("range(1, 8)", "B[i] = B[i - 1] + A[i]", ""),
    ],
)
def test_iterations_of_a_parallel_loop_wait_for_no_other(loop: str, stores: str, told: str):
    first, _, second = stores.partition("; ")
    module = parse_kernel(f"""
        A (8,), B (8,)
        t = T.alloc_buffer((1,), "float32", scope="local")
        u = T.alloc_buffer((8,), "float32", scope="local")
        B[0] = T.float32(1)
        for i in {loop}:
            {first}
            {second or first}
    """)
    program = Interpreter().compile(module)
    program([np.arange(8, dtype="float32"), np.zeros(8, "float32")])
    races = [str(it) for it in program.findings if str(it).startswith("race: ")]
    assert any(re.search(told, it) for it in races) if told else program.findings == []


@pytest.mark.parametrize("asked", ["N[0] < B[0]", "N[0] < 4 and B[N[0]] > 1"])
def test_a_loop_that_goes_on_by_itself_keeps_threads_in_order(asked: str):
    """It asks for what no thread changes, and waits for nobody."""
    module = parse_kernel(f"""
        A (64,), B (4,) int32
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            S = T.alloc_buffer((64,), "float32", scope="shared")
            N = T.alloc_buffer((1,), "int32", scope="local")
            S[(tx + 1) % 64] = T.float32(1)
            A[tx] = S[0]
            N[0] = 0
            while {asked}:
                N[0] = N[0] + 1
    """)
    program = Interpreter().compile(module)
    program([np.zeros(64, "float32"), np.zeros(4, "int32")])
    assert program.findings == []


@pytest.mark.parametrize("loop", ["range(2)", "T.parallel(2)"])
def test_a_cpu_promotes_no_bytes(loop: str):
    """LLVM's difference of bytes wraps around; C++'s, of threads compiled next, is an int."""
    text = f"""
        U (2,) uint8, O (2,) int32
        for r in {loop}:
            O[r] = T.if_then_else(U[r] - T.uint8(3) < T.uint8(10), 0, 1)
"""
    interpreter, threads = Interpreter(), 'T.thread_binding(2, thread="threadIdx.x")'
    program = interpreter.compile(parse_kernel(text))
    interpreter.compile(parse_kernel(text.replace(loop, threads)))
    given = [np.array([1, 5], "uint8"), np.zeros(2, "int32")]
    np.testing.assert_array_equal(program(given)[1], [1, 0])
