"""Devices of other machines: modules compiled here run on a server of TVM's RPC, on loopback."""

import time
from collections.abc import Iterator

import numpy as np
import pytest
import tvm
from golden_runs import run_golden
from kernels import parse_kernel
from rpc_servers import find_port, serve
from tvm.script import tirx as T

from tirstep.lowering_checks import DeviceError, check_numbers, get_device
from tirstep.lowering_checks.devices import rpc
from tirstep.lowering_checks.devices.rpc import RpcDevice
from tirstep.transforms.recipes import RECIPES

pytestmark = pytest.mark.xdist_group("rpc")  # whose server starts once


Wild = parse_kernel("""
    A (16,), B (16,)
    for i in T.serial(16):
        with T.sblock("B"):
            v = T.axis.spatial(16, i)
            B[v * 30000000] = A[v]
""")


Endless = parse_kernel("""
    A (16,), B (16,)
    for i in T.serial(16):
        with T.sblock("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v]
            while B[v] >= T.float32(0.0):
                B[v] = B[v] * T.float32(0.5)
""")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    port = find_port()
    with serve(port, "--key", "tirstep"):
        yield port


@pytest.fixture
def device(port: int) -> RpcDevice:
    made = get_device(f"rpc://127.0.0.1:{port}/tirstep?seconds=20")
    assert isinstance(made, RpcDevice)
    return made


@pytest.mark.parametrize("name", ["relu_bound", "matmul_shared"])
def test_a_recipe_is_right_there(name: str, device: RpcDevice) -> None:
    run = run_golden(RECIPES[name])
    assert check_numbers(run.problem, run.steps[-1].module, device, where=name) == []
    assert "CPU of rpc://127.0.0.1:" in device.description


def test_wrong_numbers_are_found_there(device: RpcDevice) -> None:
    run = run_golden(RECIPES["vector_add_bound"])
    text = run.steps[-1].module.script()
    changed = tvm.script.from_source(text.replace("] + B[", "] - B["))
    (finding, *_) = check_numbers(run.problem, changed, device, where="here")
    assert "and NumPy has" in str(finding)


def test_a_number_is_a_parameter(device: RpcDevice) -> None:
    @T.prim_func(s_tir=True)
    def main(n: T.int32, A: T.Buffer((16,), "int32")):
        for i in T.serial(16):
            with T.sblock("A"):
                v = T.axis.spatial(16, i)
                A[v] = v * n

    program = device.compile(tvm.IRModule({"main": main}))
    _, result = program([np.array(3, "int32"), np.zeros(16, "int32")])
    np.testing.assert_array_equal(result, 3 * np.arange(16))


def test_a_cpu_has_no_clock(device: RpcDevice) -> None:
    run = run_golden(RECIPES["relu_bound"])
    with pytest.raises(DeviceError, match="say nothing about a GPU"):
        device.time(run.steps[-1].module, run.problem.integer_inputs(0))


ONES = [np.ones(16, "float32"), np.zeros(16, "float32")]
DEAD = r"^rpc://127.0.0.1:\d+/tirstep does not run the kernel"


def test_what_hangs_costs_one_run(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "ANSWER_SECONDS", 30)
    device = get_device(f"rpc://127.0.0.1:{port}/tirstep?seconds=3")
    with pytest.raises(DeviceError, match=DEAD):
        device.compile(Endless)(ONES)
    run = run_golden(RECIPES["relu_bound"])
    assert check_numbers(run.problem, run.steps[-1].module, device, where="here") == []


def test_what_ends_its_process_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    port = find_port()
    with serve(port, "--key", "tirstep"):
        device = get_device(f"rpc://127.0.0.1:{port}/tirstep")
        with pytest.raises(DeviceError, match=DEAD):
            device.compile(Wild)(ONES)
        monkeypatch.setattr(rpc, "ANSWER_SECONDS", 0.3)
        with pytest.raises(DeviceError, match=r"or a kernel ended it; wait, or start another"):
            device.compile(Endless)(ONES)


def test_a_key_that_is_not_there(port: int) -> None:
    with pytest.raises(DeviceError, match="is its key 'mine'"):
        get_device(f"rpc://127.0.0.1:{port}/mine")


def test_a_server_without_a_gpu(port: int) -> None:
    with pytest.raises(DeviceError, match="has no CUDA device; use"):
        get_device(f"rpc://127.0.0.1:{port}/tirstep?kind=cuda")


def test_nothing_listens() -> None:
    with pytest.raises(DeviceError, match=r"nothing is listening at .* start a server there:"):
        get_device(f"rpc://127.0.0.1:{find_port()}/tirstep")


def test_a_busy_server_is_not_waited_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "ANSWER_SECONDS", 0.3)
    session = tvm.rpc.connect("127.0.0.1", port, "tirstep", session_timeout=20)
    with pytest.raises(
        DeviceError, match=r"does not answer within 0.3 s: unreachable, another session"
    ):
        RpcDevice(f"rpc://127.0.0.1:{port}/tirstep")
    del session


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rpc://", "give it as rpc://HOST:PORT/KEY"),
        ("rpc://machine:99999/key", "give it as rpc://HOST:PORT/KEY"),
        ("rpc://machine:9090/key?kind=tpu", "kind=tpu is unknown; use cuda or cpu"),
        ("rpc://machine:9090/key?seconds=0", "seconds=0 must be an integer >= 1"),
    ],
)
def test_what_is_no_address(text: str, sentence: str) -> None:
    with pytest.raises(DeviceError) as caught:
        RpcDevice(text)
    assert sentence in str(caught.value)


@pytest.mark.share(4)
def test_a_tracker_hands_servers_out() -> None:
    tracker, port = find_port(), find_port()
    at = f"127.0.0.1:{tracker}"
    with serve(tracker, module="tvm.exec.rpc_tracker"):
        with pytest.raises(DeviceError, match=r"no server of the key 'mine' \(it has none\)"):
            get_device(f"rpc://{at}/mine")
        with serve(port, "--key", "board", "--tracker", at, "--custom-addr", "127.0.0.1"):
            with pytest.raises(DeviceError, match=r"'mine' \(it has board\)"):
                retry(lambda: get_device(f"rpc://{at}/mine"), "it has none")
            device = retry(lambda: get_device(f"rpc://{at}/board"), "no free server")
            run = run_golden(RECIPES["relu_bound"])
            assert check_numbers(run.problem, run.steps[-1].module, device, where="") == []


def retry(ask, passing: str):
    """What `ask` gives, or raises, once it does not raise of what passes."""
    end = time.monotonic() + 60
    while True:
        try:
            return ask()
        except DeviceError as error:
            if passing not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.1)
