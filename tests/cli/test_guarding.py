"""A process that TVM ends is told in a sentence, by the one that began it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tirstep.cli import guarding, main, pass_crash
from tirstep.cli.guarding import SOCKET, is_guarded
from tirstep.experiments import Corpus, Edit, Experiment
from tirstep.experiments.hunting import HuntState, hunt

BEGUN = """
import time
from tirstep.cli.guarding import begin_guarded, note_tried
begin_guarded()
note_tried("a module\\nof two lines")
time.sleep(60)
"""


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tirstep", *words], capture_output=True, text=True, check=False
    )


CRASHING = """
import ctypes
from tvm.script import tirx as T
from tvm.tirx.transform import prim_func_pass

@prim_func_pass(opt_level=0, name="Crash")
def Crash(function, module, context):
    if "T.Select" in function.script():
        ctypes.string_at(0)
    return function

@T.prim_func
def selects(C: T.Buffer((2,), "int32")):
    for tx in T.thread_binding(2, thread="threadIdx.x"):
        C[tx] = T.Select(tx > 0, 1, 0)

@T.prim_func
def stores(C: T.Buffer((2,), "int32")):
    for tx in T.thread_binding(2, thread="threadIdx.x"):
        C[tx] = tx
"""


def test_what_crashed_is_left_out_and_made_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """As the process does that comes after the one that crashed; there is no time to shrink."""
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(CRASHING)
    monkeypatch.setattr(guarding, "_before", {"crashed": {"selects 00_input": "SIGSEGV"}})
    monkeypatch.setattr(guarding, "begin_guarded", lambda: None)
    monkeypatch.setattr(pass_crash, "SECONDS", 0)
    assert (
        main(
            [
                "pass",
                "own.py:Crash",
                "own.py",
                "--before",
                "tirx.UnrollLoop",
                "--script",
                "small.py",
            ]
        )
        == 1
    )
    out = capfd.readouterr().out
    rows = [line.split()[:3] for line in out.splitlines()[2:4]]
    assert rows == [["selects", "00_input", "crashed"], ["stores", "00_input", "unchanged"]]
    assert "small   4 lines" in out
    assert "the script shows it: TVM ends the process (SIGSEGV)" in out
    assert "T.Select" in Path("small.py").read_text()


def test_a_crash_again_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """One that does not come out of what was left out."""
    told = []

    def run(argv: list[str], before: str) -> tuple[int, str]:
        told.append(json.loads(before)["crashed"])
        return -signal.SIGSEGV, "trial 3"

    monkeypatch.setattr(guarding, "_run_once", run)
    assert guarding.run_guarded(["pass"]) == 1
    assert told == [{}, {"trial 3": "SIGSEGV"}]
    assert capfd.readouterr().err.startswith("tirstep: TVM crashes (SIGSEGV) at trial 3: one of")


def test_trials_that_crashed_are_in_the_table(tmp_path: Path):
    edit, corpus = Edit("drop", "tirx.UnrollLoop"), Corpus(0, ("program",))
    state = HuntState(tmp_path / "state", "drop", corpus)
    with Experiment("drop", [edit]) as experiment:
        found = hunt(experiment, corpus, range(2), state, {0: "it crashed"}.get)
        records = [(each.status, each.reason) for each in found]
    assert records[0] == ("crashed", "it crashed")
    assert records[1][0] != "crashed"
    assert HuntState(tmp_path / "state", "drop", corpus).records[0].is_bad


def test_exit_codes_and_streams_are_those_of_the_command():
    done = call("pass", "--drop", "s_tir.ThreadSnc", "relu_bound")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tirstep: the pipeline has no pass 's_tir.ThreadSnc'")


def test_a_guarded_process_ends_with_its_guard():
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", BEGUN],
                env={**os.environ, SOCKET: str(theirs.fileno())},
                pass_fds=[theirs.fileno()],
            )
        assert ours.makefile().readline() == "a module of two lines\n"
        assert process.poll() is None
        ours.shutdown(socket.SHUT_RDWR)
        assert process.wait(20) == 1


def test_only_what_may_crash_is_guarded_and_once(monkeypatch: pytest.MonkeyPatch):
    assert is_guarded(["pass", "--audit"])
    assert not is_guarded(["check", "relu_bound"])
    assert not is_guarded([])
    monkeypatch.setenv(SOCKET, "3")
    assert not is_guarded(["pass"])


def test_what_takes_long_is_named_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(guarding, "SILENCE", 0.1)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"a module\n")
        threading.Timer(0.5, theirs.close).start()
        assert guarding._read_last(ours) == "a module"
    told = "tirstep: a module has taken 0.1 s so far; a pass may loop for ever, and Ctrl-C ends it"
    assert capfd.readouterr().err.splitlines() == [told]


def test_a_program_that_ends_the_process_is_told_in_a_sentence(tmp_path: Path):
    file = tmp_path / "wild.py"
    file.write_text("import tvm, ctypes\nctypes.string_at(0)\n", "utf-8")
    done = call("check", f"{file}:wild")
    assert done.returncode == 1
    assert done.stderr.startswith("tirstep: the program ends the process (SIGSEGV), as one does")
    assert len(done.stderr.splitlines()) == 1


def test_what_runs_a_program_of_the_user_s_is_guarded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(SOCKET, raising=False)
    assert is_guarded(["check", "mine.py"])
    assert is_guarded(["why", "package.module:NAME", "--seed", "1"])
    assert not is_guarded(["check", "matmul_shared", "--set", "tile_k=8"])
    assert not is_guarded(["report", "matmul_shared", "-o", "report.html"])
    assert not is_guarded(["diff", "mine.py"])
