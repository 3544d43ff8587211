"""Processes: how many to start at once, and one with this one's packages alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def count_cores() -> int:
    """The cores that this process may use, where the system says it; else all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_alone(script: str, *arguments: str) -> str:
    """Run a script that imports what this process can, wherever that lies, but from this folder;
    the last line of why it fails, "" where it does not.

    Settings of Python's in the environment do not count, as with ``python -I``; PYTHONPATH, by
    which this process may have found TVM, counts as it did here.
    """
    here = Path.cwd()
    folders = [str(Path(it).resolve()) for it in sys.path if it and Path(it).resolve() != here]
    found = f"import sys\nsys.path += [it for it in {folders!r} if it not in sys.path]\n"
    command = [sys.executable, "-I", "-c", found + script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines() or ["no reason given"]
    return lines[-1] if done.returncode else ""
