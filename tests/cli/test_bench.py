"""``tirstep bench`` and ``tirstep search``, on a machine that needs no GPU."""

import contextlib
import errno
import importlib.util
import json
import os
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from fake_machine import FakeMachine
from fake_pool import compile_here

from tirstep.bench.results import read_run
from tirstep.bench.workers import LocalWorkers
from tirstep.files import locked
from tirstep.lowering_checks.devices import is_cuda_available

from .conftest import Command


@pytest.fixture
def no_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_here(monkeypatch)


RUN = ("bench", "matmul", "--shape", "64x48x32", "--recipe", "matmul_naive", "--quick")


def test_a_run_is_shown_and_written(command: Command, machine: FakeMachine, tmp_path: Path):
    file = tmp_path / "run.json"
    result = command(*RUN, "--output", file)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "device    Test GPU (sm_90)"
    assert "ceilings  copy 4.00 TB/s, float32 60.0 TFLOP/s" in lines
    assert "matmul 64x48x32 float32  matmul" in lines
    row = next(line for line in lines if line.startswith("PyTorch")).split()
    assert row[1:3] == ["1,000", "1,000–1,000"]
    assert "Triton: missing: triton is not installed" in lines
    assert lines[-1] == f"wrote {file}"
    run = read_run(file)
    assert [outcome.candidate for outcome in run.cases[0].outcomes] == [
        *("matmul_naive", "torch", "triton", "dlight")
    ]
    assert run.method["rounds"] == 5
    assert run.device["name"] == "Test GPU"


def test_a_folder_gets_a_file_named_after_the_gpu(
    command: Command, machine: FakeMachine, tmp_path: Path
):
    assert command(*RUN, "--save", tmp_path / "out").code == 0
    stem = "bench-test-gpu-matmul-64x48x32-matmul_naive-quick"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"{stem}.json"]


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours of it: nobody gets there who cannot write afterwards."""

    def fail(*arguments: object, **named: object) -> None:
        pytest.fail("it measured before it looked whether it can write")

    monkeypatch.setattr("tirstep.bench.session.run_bench", fail)
    monkeypatch.setattr("tirstep.bench.search.search", fail)


SEARCH = ("search", "matmul_shared_blocking", "--shape", "16x16x8", "--limit", "1")


@pytest.mark.usefixtures("no_work")
def test_what_cannot_be_written_is_told_before_the_work(
    command: Command, machine: FakeMachine, tmp_path: Path
):
    (tmp_path / "thesis").write_text("years")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for said, name in {
        "thesis is not ": "thesis",
        "folder: Is a directory": "folder",
        "loop: Too many levels of symbolic links": "loop",
        "thesis: File exists": "thesis/file",
    }.items():
        result = command(*RUN, "--output", tmp_path / name)
        assert (result.code, said in result.err) == (2, True), result
        assert len(result.err.splitlines()) == 1
    assert (tmp_path / "thesis").read_text() == "years"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "loop", "thesis"]


@pytest.mark.usefixtures("no_work")
def test_of_two_runs_into_one_file_the_second_is_refused(
    command: Command, machine: FakeMachine, tmp_path: Path
):
    file = tmp_path / "run.json"
    with locked(file):
        result = command(*RUN, "--output", file)
    assert (result.code, result.out) == (2, "")
    said = "another process has been writing it; wait until it has ended, or end it"
    assert result.err == f"tirstep: {file}: {said}\n"


def test_a_run_that_is_ended_keeps_its_cases(
    command: Command, machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The disk gets full, or somebody presses Ctrl-C, while the second case is written."""
    call = ("bench", "matmul", "--recipe", "matmul_naive", "--dtype", "float32")
    call = (*call, "--shape", "64x48x32", "--shape", "32x48x32", "--output", tmp_path / "run.json")
    written, replace = 0, os.replace

    def fail(*paths: object) -> None:
        nonlocal written
        written += str(paths[1]).endswith("run.json")
        if written == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(*paths)

    monkeypatch.setattr(os, "replace", fail)
    result = command(*call)
    assert (result.code, result.err) == (
        2,
        f"tirstep: {tmp_path / 'run.json'}: No space left on device\n",
    )
    assert [case.shape_text for case in read_run(tmp_path / "run.json").cases] == ["64x48x32"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json"]


def test_a_wrong_recipe_is_exit_code_1(
    command: Command, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(machine, "compile", lambda module, arguments: lambda: None)
    result = command(*RUN)
    assert result.code == 1
    assert "matmul 64x48x32 float32: matmul_naive: C[0, 0] is nan, and float64 has" in result.out
    assert "PyTorch" in result.out


@pytest.mark.skipif(is_cuda_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("argv", [("bench",), ("search", "matmul_shared_blocking")])
def test_without_a_gpu(command: Command, argv: tuple[str, ...]):
    result = command(*argv)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"tirstep: {argv[0]} needs a GPU, and this machine has no CUDA device that TVM can use; "
        "run it on one that has\n"
    )


def test_without_pytorch(command: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.lowering_checks.devices.is_cuda_available", lambda: True)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else find(name)
    )
    result = command("bench", "matmul")
    assert (result.code, result.out) == (2, "")
    assert "PyTorch, which is not installed; install the extra bench" in result.err


def test_two_runs_are_compared(command: Command, machine: FakeMachine, tmp_path: Path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    command(*RUN, "--output", old)
    document = json.loads(old.read_text().replace("1000.0", "500.0"))
    document["versions"]["torch"] = "9"
    new.write_text(json.dumps(document))
    result = command("bench", "--compare", old, new)
    assert result.code == 0
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0] == ["torch", "was", "none", "and", "is", "9"]
    torch = next(line for line in lines if "PyTorch" in line)
    assert torch[-4:] == ["1,000.0", "500.0", "2.00", "faster"]
    assert lines[-1] == ["2", "faster,", "0", "slower,", "0", "same"]


@pytest.mark.usefixtures("no_farm")
def test_a_search_is_shown(command: Command, machine: FakeMachine):
    fixed = [f"{name}=4" for name in ("local_x", "block_y", "block_x", "tile_k", "local_y")]
    sets = [word for size in fixed for word in ("--set", size)]
    machine.seconds = [3e-3, 1e-3, 2e-3, 1.5e-3]
    argv = ("search", "matmul_shared_blocking", "--shape", "16x16x8", *sets)
    result = command(*argv)
    assert (result.code, result.err) == (0, "")
    assert "matmul_shared_blocking at 16x16x8, float32\ntried 3 candidates of 3\n" in result.out
    assert "best     1,000.0 us  1,000.0 to 1,000.0\nas it is 3,000.0 us" in result.out
    assert "ratio    1.500 times as fast as torch\nknobs    --set vector=1" in result.out
    took = r"^took {5}\d+\.\d s for the candidates, \d+\.\d s for the finalists$"
    assert re.search(took, result.out, re.MULTILINE)


@pytest.mark.usefixtures("no_farm")
def test_a_search_takes_a_pair_and_several_pairs(command: Command, machine: FakeMachine):
    sets = ["thread_tile=4,4", "threads=4x4,2x8,4x4", "tile_k=8"]
    machine.seconds = [3e-3, 1e-3, 2e-3]
    options = [word for text in sets for word in ("--set", text)]
    argv = ("search", "matmul_strips", "--shape", "64x64x64", *options)
    result = command(*argv)
    assert (result.code, result.err) == (0, "")
    assert "tried 2 candidates of 2\n" in result.out
    assert "--set threads=2,8" in result.out
    assert "--set thread_tile=4,4" in result.out


@pytest.mark.usefixtures("no_farm")
def test_a_search_without_a_winner_is_exit_code_1(
    command: Command, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(machine, "compile", lambda module, arguments: lambda: None)
    result = command("search", "matmul_shared_blocking", "--shape", "64x64x64", "--limit", "2")
    assert result.code == 1
    assert "no candidate ran with exact results" in result.out
    assert "wrong" in result.out


def test_a_search_that_every_candidate_refuses_says_which_tail_would_help(
    command: Command, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    reason = (
        "refused: tile_block: loop 'i' runs 30 times, which threads=16 does not divide; choose a "
        'divisor, pass tail="guard", or pad the block first with pad_block [recipe x, 1]'
    )
    compile_here(monkeypatch, lambda job: reason)
    argv = ("search", "matmul_shared_blocking", "--shape", "30x30x30", "--limit", "4")
    result = command(*argv)
    assert result.code == 1
    assert "no candidate ran with exact results" in result.out
    last = result.out.splitlines()[-1]
    assert last.startswith(
        "none of these sizes divides 30x30x30: pass --set tail=guard or --set tail=pad; "
    )
    assert "; 5 of 5, such as tile_block: loop 'i' runs 30 times, which" in last
    told = command(*argv, "--set", "tail=guard").out.splitlines()[-1]
    assert "none of these sizes" not in told
    assert "tile_block: loop 'i' runs 30 times" in told


def test_a_search_over_a_cluster_is_shown_and_kept(
    command: Command, machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Another engine behind the same command; a second call runs nothing that is known."""
    screened: list[int] = []

    class ClusterWorkers(LocalWorkers):
        def __init__(self, plan: Any, settings: Any, tell: Any, warn: Any) -> None:
            super().__init__(plan, machine, settings, tell)
            warn("left out worker measure 2: it does not start")
            self.device, self.versions = machine.device, machine.versions

        def submit(self, configs: Any) -> None:
            screened.append(len(configs))
            super().submit(configs)

        def describe(self) -> str:
            return "2 x Test GPU"

        def stop(self) -> None:
            ended.append("stopped")

    @contextlib.contextmanager
    def connected(address: str) -> Any:
        yield ended.append(address)
        ended.append("left")

    ended: list[str] = []
    fixed = [f"{name}=4" for name in ("local_x", "block_y", "block_x", "tile_k", "local_y")]
    sets = [word for size in fixed for word in ("--set", size)]
    found = types.SimpleNamespace(RayWorkers=ClusterWorkers)
    monkeypatch.setitem(sys.modules, "tirstep.bench.ray_workers", found)
    monkeypatch.setattr("tirstep.bench.cluster.connected", connected)
    compile_here(monkeypatch)
    argv = (*SEARCH, *sets, "--cluster", "auto", "--trials", tmp_path / "kept")
    result = command(*argv)
    assert result.code == 0, result.err
    assert "left out worker measure 2: it does not start" in result.out
    assert re.search(r"device  2 x Test GPU of a cluster  there after \d+\.\d s\n", result.out)
    assert ended == ["auto", "stopped", "left"]
    again = command(*argv)
    assert again.code == 0, again.err
    assert f"{screened[0]} candidates known from" in again.out
    assert len(screened) == 1


def test_a_cluster_that_is_not_there_is_one_sentence(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    result = command(*SEARCH, "--cluster", "here")
    assert (result.code, result.out) == (2, "")
    assert "--cluster here is not an address; give auto, local, or HOST:PORT" in result.err
