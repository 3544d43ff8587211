"""Devices: which is taken, what it refuses, and what serial threads mean."""

import re
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from golden_runs import run_golden
from kernels import parse_kernel

from tirstep.lowering_checks import DeviceError, devices, get_device, judge_run
from tirstep.lowering_checks.device import Timing
from tirstep.lowering_checks.devices import (
    DEVICES,
    CpuDevice,
    Program,
    cpu,
    is_cuda_available,
    run,
)
from tirstep.lowering_checks.devices.cuda import measure
from tirstep.modules import vector_add
from tirstep.transforms.recipes import RECIPES

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
    return parse_kernel(f"""
        A (8, 4), B (8, 4)
        T.func_attr({{"tirx.noalias": True}})
        S = T.sblock_alloc_buffer((8, 4), "float32", scope="shared")
        for b in T.thread_binding(8, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                with T.sblock("S", "SS", b, t):
                    S[vb, vt] = A[vb, vt]
                with T.sblock("B", "SS", b, t):
                    B[vb, vt] = S[vb, {columns}]
    """)


def test_threads_that_exchange_values_are_nothing_for_a_cpu():
    """They run one after the other there: random transforms 8812, trial 144, was called wrong."""
    module = exchange("3 - vt")
    given, blank = np.arange(32, dtype="float32").reshape(8, 4), np.zeros((8, 4), "float32")
    program = get_device("simulator").compile(module)
    result = program([given, blank])[1]
    assert not program.findings
    np.testing.assert_array_equal(result, given[:, ::-1])
    assert get_device("cpu").find_obstacle(module) == (
        "threads exchange elements of 'S' in shared memory, and on a CPU they run one after the "
        "other"
    )
    assert get_device("cpu").find_obstacle(exchange("vt")) is None


HEAD = """
        A (64,), B (64,), C (64,)
        T.func_attr({"tirx.noalias": True})
"""
THREADS = """
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(64, thread="threadIdx.x"):
                with T.sblock("C"):
                    v = T.axis.spatial(64, t)
"""


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("tvm_storage_sync", 'T.tvm_storage_sync("shared")'),
        ("cuda.warp_sync", "T.cuda.warp_sync()"),
        ("__syncwarp", 'T.call_extern("void", "__syncwarp")'),
        (
            "tvm_warp_shuffle_xor",
            "C[v] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), A[v], 1, 32, 32)",
        ),
        ("atomicAdd", 'T.call_extern("float32", "atomicAdd", T.address_of(C[v]), A[v])'),
        ("cuda.atomic_add", "T.evaluate(T.cuda.atomic_add(T.address_of(C[v]), A[v]))"),
    ],
)
def test_what_threads_exchange_by_a_call_is_nothing_for_a_cpu(name: str, statement: str) -> None:
    """Neither with a barrier behind what each thread does alone."""
    module = parse_kernel(f"{HEAD}{THREADS}{' ' * 20}C[v] = A[v]\n{' ' * 20}{statement}\n")
    assert get_device("cpu").find_obstacle(module) == (
        f"'{name}' makes threads of a GPU wait or exchange values, and on a CPU they run one after "
        "the other"
    )
    with pytest.raises(DeviceError, match='after the other; use the device "simulator" or "cuda"'):
        get_device("cpu").compile(module)


GUARDED = """
                    S = T.sblock_alloc_buffer((64,), "float32", scope="shared")
                    C[v] = T.float32(0)
                    if v < 48:
                        S[v] = A[v]
                        C[v] = S[{}]
"""


def test_an_exchange_in_a_branch_is_nothing_for_a_cpu() -> None:
    obstacles = [
        get_device("cpu").find_obstacle(parse_kernel(HEAD + THREADS + GUARDED.format(column)))
        for column in ("47 - v", "v // 2", "v", "v * 1")
    ]
    assert [bool(it) for it in obstacles] == [True, True, False, False]
    assert obstacles[0].startswith("threads exchange elements of 'S' in shared memory, and on a")


def test_threads_of_a_lowered_kernel_are_nothing_for_a_cpu() -> None:
    module = parse_kernel(
        f"{HEAD}{' ' * 8}t = T.launch_thread('threadIdx.x', 64)\n        C[t] = A[t]"
    )
    assert get_device("cpu").find_obstacle(module) == (
        "its threads are those of T.launch_thread, and on a CPU they run one after the other"
    )
    assert get_device("simulator").find_obstacle(module) is None


IN_SERIAL = "for i in range(64):"
IN_THREADS = 'for i in T.thread_binding(64, thread="threadIdx.x"):'


@pytest.mark.parametrize(
    ("unbound", "body"),
    [
        ([], f"{IN_THREADS}\n C[i] = A[i]"),
        ([], f'with T.sblock("around"):\n {IN_THREADS}\n  C[i] = A[i]'),
        ([], f'with T.sblock("root"):\n {IN_THREADS}\n  with T.sblock("C"):\n   C[i] = A[i]'),
        (["C"], f"{IN_SERIAL}\n C[i] = A[i]"),
        (["C"], f'with T.sblock("root"):\n {IN_SERIAL}\n  C[i] = A[i]'),
        (["serial"], f'with T.sblock("serial"):\n {IN_SERIAL}\n  C[i] = A[i]'),
        (["B"], f'with T.sblock("around"):\n B[0] = A[0]\n {IN_THREADS}\n  C[i] = A[i]'),
        (
            ["after", "B"],
            f'{IN_THREADS}\n C[i] = A[i]\nwith T.sblock("after"):\n B[0] = A[0]\nB[1] = A[1]',
        ),
        (["C"], 'for i in T.thread_binding(2, thread="vthread.x"):\n C[i] = A[i]'),
    ],
)
def test_a_kernel_is_known_by_its_launches(unbound: list[str], body: str) -> None:
    module = parse_kernel(HEAD + textwrap.indent(body, " " * 8))
    assert devices.find_unbound_sblocks(module) == unbound


def test_what_tvm_cannot_analyze_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random transforms 20270202, trial 851: numbers beyond 32 bits, and a raw error of TVM's."""

    def analyze(module: tvm.IRModule) -> None:
        tvm.tirx.IntImm("int32", 2**31)

    monkeypatch.setattr(cpu, "find_exchange", analyze)
    obstacle = get_device("cpu").find_obstacle(exchange("2 - vt"))
    assert obstacle.startswith("TVM cannot analyze the module: ")
    assert re.search(r"2147483648 exceeds (range|maximum) of int32$", obstacle)
