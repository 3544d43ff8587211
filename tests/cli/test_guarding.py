"""A process that TVM ends is told in a sentence, by the one that began it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tirstep.cli.guarding import SOCKET, is_guarded

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


CRASHES = """
import ctypes

def crash(module):
    ctypes.string_at(0)
"""


def test_a_crash_in_a_pass_is_told_in_a_sentence(tmp_path: Path):
    (tmp_path / "own.py").write_text(CRASHES)
    done = call("pass", f"{tmp_path}/own.py:crash", "relu_bound", "--before", "tirx.UnrollLoop")
    assert (done.returncode, done.stdout) == (1, "")
    told = "tirstep: TVM crashes (SIGSEGV) at relu_bound 00_input: one of its passes crashes on"
    assert done.stderr.splitlines()[-1].startswith(told)  # behind TVM's own stack


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
    assert is_guarded(["pass", "--drop", "tirx.UnrollLoop"])
    assert not is_guarded(["check", "relu_bound"])
    assert not is_guarded([])
    monkeypatch.setenv(SOCKET, "3")
    assert not is_guarded(["pass"])


@pytest.mark.share(2)
def test_a_program_that_ends_the_process_is_told_in_a_sentence(tmp_path: Path):
    file = tmp_path / "wild.py"
    file.write_text("import tvm, ctypes\nctypes.string_at(0)\n", "utf-8")
    done = call("check", f"{file}:wild")
    assert done.returncode == 1
    assert done.stderr.startswith("tirstep: the program ends the process (SIGSEGV), as a store far")
    assert len(done.stderr.splitlines()) == 1


def test_what_runs_a_program_of_the_user_s_is_guarded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(SOCKET, raising=False)
    assert is_guarded(["check", "mine.py"])
    assert is_guarded(["why", "package.module:NAME", "--seed", "1"])
    assert not is_guarded(["check", "matmul_shared", "--set", "tile_k=8"])
    assert not is_guarded(["report", "matmul_shared", "-o", "report.html"])
    assert not is_guarded(["diff", "mine.py"])
