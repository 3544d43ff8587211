"""Processes: how many to start at once, workers for this one, and one by itself."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
REPLAYED = """
import sys

sys.path.insert(0, sys.argv[1])
import replay
import tvm
from tvm_ffi import structural_equal

expected = tvm.ir.load_json(sys.stdin.read())
if any(name.partition(".")[0] == "tirstep" for name in sys.modules):
    sys.exit("it loads tirstep")
if not structural_equal(replay.replay().mod, expected):
    sys.exit("it makes a different module")
"""
"""A script: whether a folder's replay.py makes the module whose JSON it is given, with only TVM."""
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


def count_cores() -> int:
    """The cores that this process may use, where the system says it; else all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_alone(script: str, *arguments: str, given: str = "") -> str:
    """Run a script that imports what this process can, wherever that lies, but from this folder,
    and reads what is given; the last line of why it fails, "" where it does not.

    Settings of Python's in the environment do not count, as with ``python -I``; PYTHONPATH, by
    which this process may have found TVM, counts as it did here.
    """
    here = Path.cwd()
    folders = [str(Path(it).resolve()) for it in sys.path if it and Path(it).resolve() != here]
    found = f"import sys\nsys.path += [it for it in {folders!r} if it not in sys.path]\n"
    command = [sys.executable, "-I", "-c", found + script, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, encoding="utf-8", check=False)
    lines = done.stderr.strip().splitlines() or ["no reason given"]
    return lines[-1] if done.returncode else ""


def end_silently() -> None:
    """Let this process print no stack of C++ where it crashes; call it once TVM is loaded."""
    for number in CRASHES:
        signal.signal(number, signal.SIG_DFL)


class WorkerProcesses:
    """Processes that may crash or hang without harm to this one; they start with the first work.

    Parameters
    ----------
    number : of processes
    limit : seconds that one call may take; 0 for any time
    begin : what each process does first, if anything, with its arguments
    """

    def __init__(
        self, number: int, limit: float, begin: Callable[..., None] | None = None, *given: object
    ) -> None:
        self.number, self.limit, self._begin = number, limit, (begin, given)
        self._pool: Any = None

    def submit(self, function: Callable[..., Result], *arguments: object) -> Future[Result]:
        """Call a function of a module in a process when its turn comes."""
        if self._pool is None:
            import pebble

            resource_tracker.ensure_running()  # which else lets signals through again, below
            begin, given = self._begin
            self._pool = pebble.ProcessPool(
                max_workers=self.number,
                initializer=begin,
                initargs=given,
                context=multiprocessing.get_context("spawn"),  # TVM's threads survive no fork
            )
        # The threads that start processes, and these, leave Ctrl-C to who called: each process
        # would tell where it was.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            future: Future[Result]
            future = self._pool.schedule(function, arguments, timeout=self.limit or None)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return future

    def close(self) -> None:
        """End all processes, whatever they do."""
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
            self._pool = None
