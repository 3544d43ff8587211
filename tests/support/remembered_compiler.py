"""A C++ compiler that makes each file once, for tests of what is kept of its work.

Where a cache is cut short, damaged or gone, the same sources are compiled again, and are what they
were: the compiler's seconds say nothing of the cache.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tirstep.lowering_checks.devices.host import cxx_compiler

_Key = tuple[str, ...]
_made: dict[_Key, tuple[subprocess.CompletedProcess[bytes], bytes, int]] = {}


def remember(patch: pytest.MonkeyPatch) -> list[str]:
    """Give out again what a call has written before; the names of the files that are asked for."""
    run, asked = cxx_compiler._run_compiler, list[str]()

    def call(
        command: Sequence[str], seconds: float, text: str = ""
    ) -> subprocess.CompletedProcess[bytes]:
        output = Path(command[list(command).index("-o") + 1]) if "-o" in command else None
        if output is None or output.name == "-":
            return run(command, seconds, text)
        asked.append(output.name)
        key = (*(_describe(word, output) for word in command), text)
        if key not in _made:
            done = run(command, seconds, text)
            if done.returncode or not output.is_file():
                return done
            _made[key] = done, output.read_bytes(), output.stat().st_mode
        done, content, mode = _made[key]
        output.write_bytes(content)
        output.chmod(mode)
        return done

    patch.setattr(cxx_compiler, "_run_compiler", call)
    return asked


def _describe(word: str, output: Path) -> str:
    """A word of a command: of a file that is read, what it holds."""
    path = Path(word)
    if path == output:
        return "output"
    is_read = path.is_absolute() and path.is_file()
    return hashlib.sha256(path.read_bytes()).hexdigest() if is_read else word
