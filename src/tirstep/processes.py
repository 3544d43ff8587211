"""Processes: how many to start at once, one with this one's packages alone, and a silent one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

STDERR = 2


def count_cores() -> int:
    """The cores that this process may use, where the system says it; else all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_alone(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script that imports what this process can, wherever that lies, but from this folder.

    Settings of Python's in the environment do not count, as with ``python -I``; PYTHONPATH, by
    which this process may have found TVM, counts as it did here.
    """
    here = Path.cwd()
    folders = [str(Path(it).resolve()) for it in sys.path if it and Path(it).resolve() != here]
    found = f"import sys\nsys.path += [it for it in {folders!r} if it not in sys.path]\n"
    return subprocess.run(
        [sys.executable, "-I", "-c", found + script, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@contextlib.contextmanager
def silenced_stderr() -> Iterator[None]:
    """While this lasts, what libraries write to standard error past Python is lost."""
    try:
        sys.stderr.flush()
        kept = os.dup(STDERR)
    except (OSError, ValueError):  # there is none
        yield
        return
    try:
        with open(os.devnull, "ab") as nothing:
            os.dup2(nothing.fileno(), STDERR)
            yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)
