"""The peers: found by name, missing in words, and dlight's schedules."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from tirstep.bench import BenchError, PeerMissing, peers
from tirstep.bench.ceilings import THREADS, count_fma_operations, make_fma_kernel
from tirstep.bench.peers import PEERS, Peer, get_plain_target, schedule_by_default, wrap_function
from tirstep.lowering_checks.devices import CpuDevice, find_unbound_sblocks
from tirstep.modules import conv1d, matmul


def test_a_peer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PeerMissing, match=r"^Triton is not installed$"):
        PEERS["triton"].get_function("matmul")


def test_the_modules_of_the_peers_are_there():
    folder = Path(peers.__file__).parent
    modules = {peer.functions for peer in PEERS.values() if isinstance(peer.functions, str)}
    assert modules
    for module in modules:
        assert "\nFUNCTIONS" in (folder / f"{module}.py").read_text()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "needs functions or a schedule, one of them"),
        ({"functions": len, "schedule": len}, "needs functions or a schedule, one of them"),
    ],
)
def test_a_peer_that_could_not_run(settings: Any, words: str):
    with pytest.raises(BenchError, match=f"^the peer 'mine' {words}$"):
        Peer("mine", "mine", **settings)


def test_one_function_takes_the_inputs_in_order():
    prepare = Peer("mine", "mine", functions=wrap_function(lambda a, b: a - b)).get_function("any")
    assert prepare([5, 3], None, conv1d.problem(4, 2))() == 2


def test_a_kernel_that_a_peer_does_not_have():
    pytest.importorskip("torch")
    with pytest.raises(PeerMissing, match=r"^the benchmark has no PyTorch function for no_such$"):
        PEERS["torch"].get_function("no_such")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100f"])
def test_dlight_gets_an_architecture_that_it_knows(arch: str):
    attributes = dict(tvm.target.Target("nvidia/nvidia-h100").attrs)
    target = tvm.target.Target({"kind": "cuda", **attributes, "arch": arch})
    plain = get_plain_target(target)
    assert str(plain.attrs["arch"]) == arch.rstrip("af")
    assert plain.attrs["max_threads_per_block"] == target.attrs["max_threads_per_block"]


def test_dlight_binds_what_it_schedules_and_leaves_the_kernel_as_it_is():
    target = tvm.target.Target("nvidia/nvidia-h100")
    for module in (conv1d(100, 7), matmul(64, 64, 64)):
        before = module.script()
        assert find_unbound_sblocks(schedule_by_default(module, target)) == []
        assert module.script() == before


def test_the_kernel_of_the_peak_computes_all_its_chains():
    """By its result: c = c / 2 + 1 comes to 2 in each of the 8 chains of a thread."""
    x, y = np.array([0.5, 1], "float32"), np.full(2 * THREADS, np.nan, "float32")
    out = CpuDevice().compile(make_fma_kernel(blocks=2, steps=128))([x, y])[1]
    np.testing.assert_array_equal(out, np.full(2 * THREADS, 16, "float32"))
    assert count_fma_operations(blocks=2, steps=128) == 2 * 2 * THREADS * 8 * 128


def test_the_peak_s_source_multiplies_and_adds_in_registers():
    target = tvm.target.Target("nvidia/nvidia-h100")
    source = tvm.compile(make_fma_kernel(8, 128), target=target).mod.imports[0].inspect_source()
    body = source.partition("for (int ")[2].partition("}")[0]
    assert body.count("sums_ptr[0] = ((sums_ptr[0] * X_ptr[0]) + X_ptr[1]);") == 64
    assert "Y_ptr" not in body
