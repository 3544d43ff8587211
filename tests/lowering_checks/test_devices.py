"""Devices: which is taken, what it refuses, and what serial threads mean."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from golden_runs import run_golden
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import DeviceError, devices, get_device, judge_run, run_recipe
from tirstep.lowering_checks.devices import (
    DEVICES,
    CpuDevice,
    Program,
    cpu,
    find_unbound_sblocks,
    is_cuda_available,
    run,
)
from tirstep.lowering_checks.devices.cuda import measure
from tirstep.lowering_checks.devices.device import Timing
from tirstep.modules import get_kernel, matmul, vector_add
from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.recipes import LADDERS, RECIPES

needs_no_gpu = pytest.mark.skipif(is_cuda_available(), reason="this machine has a GPU")


def test_an_unknown_device_names_the_nearest() -> None:
    with pytest.raises(DeviceError, match=r"there is no device 'cpi'; did you mean cpu\?"):
        get_device("cpi")
    assert DEVICES == ("auto", "cpu", "cuda", "simulator")


@needs_no_gpu
def test_auto_is_the_simulator_without_a_gpu_and_says_so() -> None:
    device = get_device("auto")
    assert device.name == "simulator"
    assert device.description == "simulator of a GPU (NumPy)"


@needs_no_gpu
def test_cuda_without_a_gpu_is_one_sentence() -> None:
    with pytest.raises(DeviceError, match=r"this machine has no CUDA device.*choose the device"):
        get_device("cuda")


@pytest.mark.gpu
def test_auto_is_cuda_with_a_gpu_and_says_which() -> None:
    device = get_device("auto")
    assert device.name == "cuda"
    assert "sm_" in device.description


@pytest.mark.gpu
def test_a_step_without_bindings_is_refused_by_the_gpu() -> None:
    with pytest.raises(DeviceError, match="cannot run on a GPU: not bound yet: C; bind its loops"):
        get_device("cuda").compile(vector_add(64))


@pytest.mark.gpu
def test_steps_that_cannot_be_launched_are_checked_on_the_cpu() -> None:
    run = run_golden(RECIPES["vector_add_bound"])
    verdicts = list(judge_run(run, get_device("cuda")))
    assert [verdict.checked_on.split()[0] for verdict in verdicts] == ["cpu", "cpu", "cuda"]
    assert [verdict.timing is None for verdict in verdicts] == [True, True, False]


def test_threads_become_serial_loops_and_nothing_else_changes() -> None:
    module = run_golden(RECIPES["vector_add_bound"]).steps[-1].module
    text = make_threads_serial(module).script()
    assert "thread_binding" not in text
    assert "for i_0, i_1 in T.grid(8, 128):" in text
    assert "thread_binding" in module.script()


def test_the_cpu_has_no_clock() -> None:
    device = get_device("cpu")
    assert not device.has_clock
    with pytest.raises(DeviceError, match="say nothing about a GPU"):
        device.time(vector_add(8), [])


@pytest.mark.parametrize(("seconds", "repeats"), [(1e-5, 20), (0.1, 10), (4.0, 3)])
def test_a_slow_function_is_timed_less_often(seconds: float, repeats: int) -> None:
    class Module:
        """Takes so many seconds for each call, as TVM's evaluator says it."""

        def time_evaluator(self, name, device, *, number, repeat, min_repeat_ms=0):
            return lambda *tensors: SimpleNamespace(results=[seconds] * repeat)

    assert measure(Module(), None, []) == Timing(seconds, seconds, seconds, repeats)


def test_outputs_start_as_nan() -> None:
    problem = vector_add.problem(4)
    seen = run(Program(lambda arrays: (arrays, ())), problem.integer_inputs(0), problem.outputs)
    assert np.isnan(seen[0]).all()


def test_unbound_blocks_are_named() -> None:
    steps = run_golden(RECIPES["matmul_bias_relu_shared_blocking"]).steps
    assert find_unbound_sblocks(steps[0].module) == ["C", "D"]
    assert find_unbound_sblocks(steps[1].module) == ["D"]
    assert find_unbound_sblocks(steps[2].module) == []


def test_the_cpu_refuses_float8_of_every_kernel() -> None:
    for recipe in (ladder[0] for ladder in LADDERS.values()):
        dtypes = recipe.dtypes or get_kernel(recipe.kernel).dtypes
        if "float8_e5m2" not in dtypes:
            continue
        example = recipe.golden
        options = {**example.options, "dtype": "float8_e5m2"}
        if recipe.name == "matmul_wgmma":  # which keeps no more bits
            options["acc"] = "fp22"
        run = run_recipe(recipe, example.shape, options=options, config=example.config)
        last = run.steps[0 if recipe.arch else -1]  # no CPU has the instructions of some
        obstacle = get_device("cpu").find_obstacle(last.module)
        assert obstacle == "TVM's LLVM code reads zeros and small numbers of float8_e5m2 wrongly"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_the_cpu_says_that_it_cannot_do_float8(dtype: str) -> None:
    """TVM 0.27 converts the zero of float8 to another number; its exponent alone is looked at."""
    with pytest.raises(DeviceError, match=r"wrongly; use the device .simulator. or .cuda."):
        get_device("cpu").compile(matmul(8, 8, 8, dtype=dtype))

    @I.ir_module
    class Widen:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((1,), dtype), B: T.Buffer((1,), "float32")):
            with T.sblock("B"):
                B[0] = T.Cast("float32", A[0])

    zero = np.zeros(1, "uint8").view(dtype)
    assert zero.astype("float32") == 0
    widened = tvm.runtime.tensor(np.full(1, np.nan, "float32"))
    tvm.compile(Widen, target="llvm")["main"](tvm.runtime.tensor(zero), widened)
    assert widened.numpy()[0] != 0, "TVM is mended: let the cpu device run float8"


def test_a_device_of_ones_own_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(CpuDevice):
        name = "mine"

    monkeypatch.setattr(devices, "_MAKERS", {**devices._MAKERS})
    with pytest.raises(DeviceError, match="there is no device 'mine'"):
        get_device("mine")
    devices.register_device("mine", Mine)
    assert isinstance(get_device("mine"), Mine)
    with pytest.raises(DeviceError, match="did you mean mine"):
        get_device("mien")


@pytest.mark.parametrize("name", ["cpu", "auto", "", "rpc://mine"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    with pytest.raises(DeviceError, match=f"a device cannot be called '{name}'; choose another"):
        devices.register_device(name, CpuDevice)


def exchange(columns: str) -> tvm.IRModule:
    """Threads that each store an element of a shared row, and load one at `columns`."""
    return from_source(
        f"""
@I.ir_module
class Exchanged:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        T.func_attr({{"tirx.noalias": True}})
        S = T.sblock_alloc_buffer((8, 4), "float32", scope="shared")
        for b in T.thread_binding(8, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                with T.sblock("S"):
                    vi, vj = T.axis.remap("SS", [b, t])
                    S[vi, vj] = A[vi, vj]
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [b, t])
                    B[vi, vj] = S[vi, {columns}]
"""
    )


def test_threads_that_exchange_values_are_nothing_for_a_cpu():
    """They run one after the other there: random transforms 8812, trial 144, was called wrong."""
    module = exchange("3 - vj")
    given, blank = np.arange(32, dtype="float32").reshape(8, 4), np.zeros((8, 4), "float32")
    program = get_device("simulator").compile(module)
    result = program([given, blank])[1]
    assert not program.findings
    np.testing.assert_array_equal(result, given[:, ::-1])
    assert get_device("cpu").find_obstacle(module) == (
        "threads exchange elements of 'S' in shared memory, and on a CPU they run one after the "
        "other"
    )
    assert get_device("cpu").find_obstacle(exchange("vj")) is None


def test_what_tvm_cannot_analyze_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random transforms 20270202, trial 851: numbers beyond 32 bits, and a raw error of TVM's."""

    def analyze(module: tvm.IRModule) -> None:
        tvm.tirx.IntImm("int32", 2**31)

    monkeypatch.setattr(cpu, "find_lost_reads", analyze)
    obstacle = get_device("cpu").find_obstacle(exchange("2 - vj"))
    assert obstacle is not None
    assert obstacle.startswith("TVM cannot analyze the module: ")
    assert re.search(r"2147483648 exceeds (range|maximum) of int32$", obstacle)
