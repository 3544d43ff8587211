"""What the README shows of programs and commands: each is run, and its output written below it.

``<!-- begin output-NAME -->`` right below a Python block holds what the program prints, and
``<!-- begin commands -->`` a block of commands after ``$``, each with what it prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tirstep.cli.wrong_use import UseError

_PROGRAM = re.compile(r"^```python\n((?:(?!```).*\n)+)```\n+<!-- begin (output-[\w-]+) -->$", re.M)
_OUTPUT = re.compile(r"^<!-- begin (output-[\w-]+) -->$", re.M)
_COMMANDS = re.compile(r"^<!-- begin commands -->\n(.*?)^<!-- end commands -->$", re.M | re.S)
_COMMAND = re.compile(r"^\$ (.+)$", re.M)
_SLOWEST = 120  # seconds
_WIDTH = 104
_SHELL = ("bash", "-o", "pipefail", "-c")


def find_output_writers(text: str, folder: Path) -> dict[str, Callable[[], str]]:
    """What fills the markers of outputs that a Markdown text has; commands run in the folder."""
    programs = {name: program for program, name in _PROGRAM.findall(text)}
    for name in _OUTPUT.findall(text):
        if name not in programs:
            raise UseError(
                f"the marker of '{name}' has no Python program right above it, whose output it is; "
                "put it below a ```python block"
            )
    writers: dict[str, Callable[[], str]] = {
        name: partial(_write_output, program) for name, program in programs.items()
    }
    if "<!-- begin commands -->\n" in text:
        commands = _COMMAND.findall("".join(_COMMANDS.findall(text)))
        writers["commands"] = partial(_write_commands, commands, folder)
    return writers


def _write_output(program: str) -> str:
    """What a program prints, as a diff if it begins like one; long lines are folded."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.py")  # a file, since TVMScript reads the source of its kernels
        file.write_text(program, encoding="utf-8")
        printed = _run([sys.executable, str(file)], Path(folder), what="a Python program")
    language = "diff" if printed.startswith("--- ") else "text"
    folded = printed if language == "diff" else _fold(printed)
    return f"```{language}\n{folded.rstrip()}\n```"


def _write_commands(commands: Sequence[str], folder: Path) -> str:
    """Each command, and what it prints."""
    parts = [
        f"$ {command}\n{_run([*_SHELL, command], folder, what=command).rstrip()}\n"
        for command in commands
    ]
    return "```console\n" + "".join(parts) + "```"


def _fold(text: str) -> str:
    lines = (
        textwrap.wrap(line, _WIDTH, subsequent_indent="    ", break_on_hyphens=False) or [""]
        for line in text.splitlines()
    )
    return "\n".join(line for folded in lines for line in folded)


def _run(call: Sequence[str], folder: Path, *, what: str) -> str:
    """What a program prints; raises `UseError` if it fails."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join([here, os.environ.get("PATH", "")])
    try:
        done = subprocess.run(
            call,
            cwd=folder,
            capture_output=True,
            check=True,
            encoding="utf-8",
            timeout=_SLOWEST,
            env={**os.environ, "PATH": path, "NO_COLOR": "1", "CUDA_VISIBLE_DEVICES": ""},
        )
    except subprocess.SubprocessError as error:
        lines = (getattr(error, "stderr", "") or "").strip().splitlines()
        reason = lines[-1] if lines else str(error)
        raise UseError(f"{what} fails: {reason}; fix it first") from None
    return str(done.stdout)
