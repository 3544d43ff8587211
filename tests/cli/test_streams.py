"""In a terminal colours and progress, elsewhere plain text; a closed pipe is no error."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

import pytest

from tirstep.cli.screen import Screen

WARM = pytest.mark.usefixtures("warm_commands")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run_in_terminal(
    *arguments: str, columns: int = 80, code: int | None = 0, **environment: str
) -> str:
    """What ``tirstep ARGUMENTS`` writes to a terminal, on both streams."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    hidden = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI")
    inherited = {name: value for name, value in os.environ.items() if name not in hidden}
    process = subprocess.Popen(
        [sys.executable, "-m", "tirstep", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=inner,
        stderr=inner,
        env={**inherited, "TERM": "xterm-256color", **environment},
    )
    os.close(inner)
    chunks = []
    try:
        while chunk := os.read(outer, 65536):
            chunks.append(chunk)
    except OSError:  # Linux's word for the end
        pass
    os.close(outer)
    assert process.wait() == code or code is None
    return b"".join(chunks).decode().replace("\r\n", "\n")


def test_diff_is_coloured_and_long_lines_are_not_wrapped():
    text = run_in_terminal("diff", "vector_add_bound", "0", "1", columns=120)
    assert "\x1b[31m-        for i in range(1024):\x1b[0m\n" in text
    assert "\x1b[32m+        for i_0, i_1 in T.grid(8, 128):\x1b[0m\n" in text
    assert "# vector_add_bound/00_input → vector_add_bound/01_split" in text
    assert max(len(line) for line in ESCAPE.sub("", text).splitlines()) > 100


@pytest.mark.share(2)
@WARM
def test_a_ladder_shows_progress_in_a_terminal_and_all_of_its_table_in_a_narrow_one():
    row = re.compile(r"^vector_add_bound +2 +(ok)? +right on cpu +\+7 −6", re.MULTILINE)
    call = ("ladder", "vector_add", "--device", "cpu")
    text = ESCAPE.sub("", run_in_terminal(*call, columns=40))
    assert "vector_add_bound 0" in text  # the step that is worked on
    # The table comes in parts, each with the recipe.
    parts = re.findall(r"^recipe  .*\n(?:.+\n)+", text, re.MULTILINE)
    rows = [re.search(r"^vector_add_bound +(.*?) *$", it, re.MULTILINE)[1] for it in parts]
    assert len(rows) > 1
    assert row.search(f"vector_add_bound {'  '.join(rows)}")
    piped = subprocess.run(
        [sys.executable, "-m", "tirstep", *call],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "40"},
    )
    assert (piped.returncode, piped.stderr) == (0, "")
    assert "\x1b" not in piped.stdout
    assert row.search(piped.stdout)


@pytest.mark.share(2)
@WARM
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "call",
    [
        ("list", "matmul_shared"),
        ("check", "matmul_shared", "--runs", "1"),
        ("ladder", "gemm-tutorial", "--no-such"),
        ("ladder", "window_sum"),
        ("facts", "window_sum_shared", "--counts"),
        ("lower", "vector_add_bound"),
        ("choose", "matmul"),
        ("why", "matmul_shared", "--timeout", "1"),
        ("search", "matmul"),
    ],
    ids=" ".join,
)
def test_lines_keep_to_the_terminal_s_width(columns: int, call: tuple[str, ...]):
    text = ESCAPE.sub("", run_in_terminal(*call, columns=columns, code=None))
    lines = [line.rpartition("\r")[2].rstrip() for line in text.splitlines()]
    assert [line for line in lines if len(line) > columns] == []
    assert any(len(line) > 30 for line in lines)


def test_a_terminal_without_utf8_gets_what_it_can_show():
    done = subprocess.run(
        [sys.executable, "-m", "tirstep", "list", "window_sum_bound"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"input ? split ? bound" in done.stdout


def test_what_takes_long_is_told_without_a_terminal_too(capfd, monkeypatch):
    monkeypatch.setattr("tirstep.cli.screen.PATIENCE", 0.05)
    screen = Screen()
    with screen.working():
        screen.doing("a step", 0.5)
        time.sleep(0.3)
    told = capfd.readouterr().err.splitlines()
    assert told[0] == "tirstep: a step, about 0 s"
    assert told[1].startswith("tirstep: a step, about 0 s: 0 s so far")
    assert len(told) > 2


def test_many_short_things_without_a_line_are_told_too(capfd, monkeypatch):
    monkeypatch.setattr("tirstep.cli.screen.PATIENCE", 0.1)
    screen = Screen()
    with screen.working():
        for number in range(30):
            screen.doing(f"trial {number}")
            time.sleep(0.02)
    assert capfd.readouterr().err.startswith("tirstep: trial ")
