"""A process that TVM ends is told in a sentence, by the one that began it."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tirstep.cli import guarding
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


def test_a_crash_of_tvm_is_told_with_the_module(tmp_path: Path):
    done = call("pass", "--drop", "s_tir.LowerOpaqueBlock", "vector_add_vectors")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("tirstep: TVM crashes (SIGSEGV) at vector_add_vectors 0"), last


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
    monkeypatch.setattr(guarding, "PATIENCE", 0.1)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"a module\n")
        threading.Timer(0.5, theirs.close).start()
        assert guarding._read_last(ours) == "a module"
    told = "tirstep: a module has taken 0.1 s so far; a pass may loop for ever, and Ctrl-C ends it"
    assert capfd.readouterr().err.splitlines() == [told]
