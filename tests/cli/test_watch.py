"""``tirstep check --watch``: a verdict for each change of a file, of one process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from .conftest import Command

DOUBLE = """from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def double(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = A[i] * 2.0
"""
CHECK = ("check", "double.py", "--runs", "0", "--format", "github", "--watch")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], list[str]]]]:
    """The watched file, and what waits for the lines of the next verdict."""
    file = tmp_path / "double.py"
    file.write_text(DOUBLE)
    with subprocess.Popen(
        [sys.executable, "-m", "tirstep", *CHECK],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TVM_NUM_THREADS": "1"},
    ) as process:
        output = process.stdout
        assert output is not None
        yield file, lambda: read_verdict(output)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "Traceback" not in output.read()


def read_verdict(output: IO[str]) -> list[str]:
    lines: list[str] = []
    while not lines or not lines[-1].startswith("tirstep"):
        line = output.readline()
        assert line, lines
        lines.append(line.rstrip())
    return lines


def test_each_change_has_a_verdict(watched: tuple[Path, Callable[[], list[str]]]):
    file, read = watched
    assert read() == ["tirstep check: 1 right"]
    file.write_text(DOUBLE.replace("A[i]", "A[i + 1]"))
    *_, finding, verdict = read()
    assert verdict == "tirstep check: 1 wrong"
    assert finding.startswith("::error file=double.py,line=6,")
    file.write_text(DOUBLE.replace("for i", "for for i"))
    assert "double.py" in read()[-1]  # a sentence on what Python says of it
    file.write_text(DOUBLE + "import os\nos.kill(os.getpid(), 11)\n")
    assert "SIGSEGV" in read()[-1]
    (file.parent / "factor.py").write_text("FACTOR = 3.0\n")
    read()
    file.write_text(
        DOUBLE.replace("2.0", "FACTOR").replace("\n\n", "\nfrom factor import FACTOR\n\n")
    )
    assert read()[-1] == "tirstep check: 1 right"


def test_what_is_no_file_is_not_watched(command: Command):
    result = command("check", "relu_bound", "--watch")
    assert result.code == 2
    assert "--watch takes files, on a system that can fork; name FILE.py" in result.err
