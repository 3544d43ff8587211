"""Addresses that lead nowhere, a missing Ray, and what a search keeps, without a cluster."""

from __future__ import annotations

import importlib.util
import json
import socket
from pathlib import Path

import pytest
from cluster_tools import PLAN, SETTINGS, ClusterMachine
from fake_pool import compile_here, search_here

from tirstep.bench import BenchError
from tirstep.bench.cluster import connected, require_reachable
from tirstep.bench.search import SearchPlan, Trials, describe_search, spell_config
from tirstep.bench.workers import Trial

DEVICE = {"name": "Test GPU"}
CONFIGS = [{"local_y": 2, "pair": (8, 16)}, {"local_y": 4, "pair": (8, 8)}, {"local_y": 8}]


def test_without_ray_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BenchError, match=r"pip install 'tirstep\[cluster\]'$"):
        with connected("auto"):
            pass


@pytest.mark.parametrize(
    "address",
    [
        "here",
        "10.0.0.5",
        "host:",
        ":6379",
        "host:port",
        "host:0",
        "host:99999",
        "",
        "ray://10.0.0.5:10001",
    ],
)
def test_an_address_that_is_none(address: str):
    with pytest.raises(BenchError, match="is not an address; give auto, local, or HOST:PORT"):
        require_reachable(address)


def test_an_address_where_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(BenchError, match=rf"--cluster 127.0.0.1:{port}: nothing answers there"):
        require_reachable(f"127.0.0.1:{port}")


def test_what_is_kept_is_known_again(tmp_path: Path):
    def find_settled(plan: SearchPlan, device: str, version: str) -> dict[str, Trial]:
        about = describe_search(plan, {"name": device}, {"tirstep": version})
        return Trials(tmp_path, about).find_settled()

    kept = Trials(tmp_path, describe_search(PLAN, DEVICE, {"tirstep": "1"}))
    reasons = ["", "wrong", "crashed: the process died"]
    done = [
        Trial(it, (12.5,) if not why else (), why) for it, why in zip(CONFIGS, reasons, strict=True)
    ]
    for one in done:
        kept.add(one)
    # What crashed may have been the machine's fault.
    found = find_settled(PLAN, "Test GPU", "1")
    assert [*found] == [spell_config(config) for config in CONFIGS[:2]]
    assert [(it.seconds, it.reason) for it in found.values()] == [((12.5,), ""), ((), "wrong")]
    other = SearchPlan(PLAN.recipe, PLAN.problem.kernel.problem(m=64, n=32, k=16))
    for about in ((PLAN, "Another", "1"), (PLAN, "Test GPU", "2"), (other, "Test GPU", "1")):
        assert find_settled(*about) == {}


def test_a_search_that_was_cut_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The second search compiles only what the first one did not come to, and finds the same."""
    pools = compile_here(monkeypatch)
    plan = SearchPlan(PLAN.recipe, PLAN.problem, PLAN.fixed, {"local_y": (2, 4)})

    def run() -> object:
        machine = ClusterMachine(make_folder(tmp_path, len(pools)))
        about = describe_search(plan, machine.device, machine.versions)
        return search_here(plan, machine, SETTINGS, kept=Trials(tmp_path, about))

    whole = run()
    (file,) = (tmp_path / "tirstep_trials").iterdir()
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + len(pools[0].jobs)
    assert json.loads(lines[1])["seconds"]
    file.write_text("".join(lines[:-1]) + lines[-1][:9])
    assert run() == whole
    assert run() == whole
    assert [len(pool.jobs) for pool in pools[1:]] == [1, 0]


def make_folder(within: Path, number: int) -> Path:
    """Of a machine that is the first one."""
    folder = within / str(number)
    folder.mkdir(exist_ok=True)
    (folder / "plant").write_text("")
    return folder
