"""Runs a command in a process of its own, so that one that TVM ends is told in a sentence.

A pass of the user's may make what no later pass of TVM survives. Where that ends the process, the
one that began it says so, and what was being tried, and begins another one, which leaves that out
and goes on. A program of the user's may store far beyond its buffers, which is said as well. The
two are joined by a socket: one way go the names of what is tried, and where it closes, the other
side has ended.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tirstep.programs.naming import is_program

from .streams import print_error

PASS = "pass"
"""The command that runs so, and again behind what crashed."""
JUDGES = ("check", "diff", "report", "why")
"""The commands that run so where a program of the user's is named, which they execute; of these
diff with --numbers alone."""
SOCKET = "TIRSTEP_GUARD"
"""The variable that has the number of the socket."""
BEFORE = "TIRSTEP_GUARDED_BEFORE"
"""The variable that has what the processes before this one left, as JSON."""
SILENCE = 60.0
"""Seconds of one module after which it is said what is tried."""
SMALLER = "a smaller module than it was given"
"""What is tried where a counterexample is made small: many modules, for a minute and a half."""
WAITS_OF_SMALLER = 3
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
MOST = 12
"""So many crashes, and no process more."""
_guard: socket.socket | None = None
_before: dict[str, Any] = {}


def is_guarded(argv: Sequence[str]) -> bool:
    """Whether a command line is to run in a process of its own, and this is not that one yet."""
    if not argv or SOCKET in os.environ:
        return False
    if argv[0] == "diff" and "--numbers" not in argv:
        return False
    # Behind an option there is its value, the file of a report, say.
    pairs = itertools.pairwise(argv)
    named = [word for before, word in pairs if before == "--against" or before[:1] != "-"]
    return argv[0] == PASS or (argv[0] in JUDGES and any(map(is_program, named)))


def run_guarded(argv: Sequence[str]) -> int:
    """Run a command line in processes of its own; its exit code, or 1 where it cannot go on.

    Each begins with what was tried when those before it crashed, and with the trials they made.
    """
    crashed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="tirstep-") as folder:
        while True:
            told = json.dumps({"crashed": crashed, "trials": str(Path(folder, "trials"))})
            code, tried = _run_once(argv, told)
            if code >= 0:
                return code
            number = signal.Signals(-code)
            is_judge = argv[0] in JUDGES
            is_new = bool(tried) and tried not in crashed and len(crashed) < MOST
            if is_judge or number not in CRASHES or not is_new:
                print_error(_explain(number, tried, is_judge=is_judge))
                return 1
            crashed[tried] = number.name


def _run_once(argv: Sequence[str], told: str) -> tuple[int, str]:
    """The exit code, or the signal below 0, and what was tried last."""
    ours, theirs = socket.socketpair()
    with ours:
        environment = {**os.environ, SOCKET: str(theirs.fileno()), BEFORE: told}
        words = [sys.executable, "-m", "tirstep", *argv]
        with theirs:
            process = subprocess.Popen(words, env=environment, pass_fds=[theirs.fileno()])
        tried = _read_last(ours)
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                return process.wait(), tried


def _read_last(ours: socket.socket) -> str:
    """What was tried last, when the process has ended; Ctrl-C is for that process alone."""
    text, waits = b"", 0
    ours.settimeout(SILENCE)
    while True:
        last = text.decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2]
        try:
            more = ours.recv(4096)
        except TimeoutError:
            waits += 1
            if last and waits == (WAITS_OF_SMALLER if last == SMALLER else 1):
                print_error(
                    f"{last} has taken {waits * SILENCE:g} s so far; a pass may loop for ever, and "
                    "Ctrl-C ends it"
                )
            continue
        except KeyboardInterrupt:
            continue
        if not more:
            return last
        waits = 0
        text = b"\n".join((text + more).rsplit(b"\n", 2)[-2:])  # the last line, and what follows


def _explain(number: signal.Signals, tried: str, *, is_judge: bool) -> str:
    where = f" at {tried}" if tried and not is_judge else ""
    if number not in CRASHES:
        return f"the process was ended by {number.name}{where}; nothing was judged from there on"
    if is_judge:
        return (
            f"the program ends the process ({number.name}), as one does that stores far beyond a "
            "buffer on the device cpu, where steps run that are not bound to threads; look at its "
            "indices, or bind its loops and use --device simulator, which names the store"
        )
    return (
        f"TVM crashes ({number.name}){where}: one of its passes does not survive what the change "
        "makes; fix that, or leave the module out (of a corpus with --from, the trial after it)"
    )


def begin_guarded() -> None:
    """In a process that is guarded: take the socket, and end when it closes."""
    global _guard, _before
    number = os.environ.pop(SOCKET, None)
    _before = json.loads(os.environ.pop(BEFORE, "{}"))
    if number is not None:
        _guard = socket.socket(fileno=int(number))
        threading.Thread(target=_end_with, args=(_guard,), daemon=True).start()


def quiet_crashes() -> None:
    """In a process that is guarded, once TVM is loaded: no stack of C++ where it crashes."""
    if _guard is not None:
        for number in CRASHES:
            signal.signal(number, signal.SIG_DFL)


def _end_with(guard: socket.socket) -> None:
    with contextlib.suppress(OSError):
        if not guard.recv(1):
            os._exit(1)


def note_tried(text: str) -> None:
    """Tell the process that guards this one what is tried next."""
    if _guard is not None:
        with contextlib.suppress(OSError):
            _guard.sendall(text.replace("\n", " ").encode() + b"\n")


def find_crash(text: str) -> str | None:
    """What TVM did when this was tried before, ``it ends the process (SIGSEGV)``; mostly None."""
    signal_name = _before.get("crashed", {}).get(text.replace("\n", " "))
    return None if signal_name is None else f"TVM ends the process ({signal_name})"


def get_trials_file() -> Path | None:
    """Where a guarded process keeps its trials for the one that would come after it."""
    return Path(_before["trials"]) if "trials" in _before else None
