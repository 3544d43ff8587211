"""Runs a command in a process of its own, so that one that TVM ends is told in a sentence.

A pass of the user's may make what no later pass of TVM survives. Where that ends the process, the
one that began it says so, and what was being tried. The two are joined by a socket: one way go
the names of what is tried, and where it closes, the other side has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

from .streams import print_error

GUARDED = ("pass",)
"""The commands that run so."""
SOCKET = "TIRSTEP_GUARD"
"""The variable that has the number of the socket."""
PATIENCE = 60.0
"""Seconds of one module after which it is said what is tried."""
SMALLER = "a smaller module than it was given"
"""What is tried where a counterexample is made small: many modules, for a minute and a half."""
WAITS_OF_SMALLER = 3
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_guard: socket.socket | None = None


def is_guarded(argv: Sequence[str]) -> bool:
    """Whether a command line is to run in a process of its own, and this is not that one yet."""
    return bool(argv) and argv[0] in GUARDED and SOCKET not in os.environ


def run_guarded(argv: Sequence[str]) -> int:
    """Run a command line in a process of its own; its exit code, or 1 where a signal ended it."""
    ours, theirs = socket.socketpair()
    with ours:
        environment = {**os.environ, SOCKET: str(theirs.fileno())}
        words = [sys.executable, "-m", "tirstep", *argv]
        with theirs:
            process = subprocess.Popen(words, env=environment, pass_fds=[theirs.fileno()])
        tried = _read_last(ours)
        code = _wait(process)
    if code < 0:
        print_error(_explain(signal.Signals(-code), tried))
        return 1
    return code


def _read_last(ours: socket.socket) -> str:
    """What was tried last, when the process has ended; Ctrl-C is for that process alone."""
    text, waits = b"", 0
    ours.settimeout(PATIENCE)
    while True:
        try:
            more = ours.recv(4096)
        except TimeoutError:
            waits += 1
            if text and waits == (WAITS_OF_SMALLER if _get_last(text) == SMALLER else 1):
                print_error(
                    f"{_get_last(text)} has taken {waits * PATIENCE:g} s so far; a pass may loop "
                    "for ever, and Ctrl-C ends it"
                )
            continue
        except KeyboardInterrupt:
            continue
        if not more:
            return _get_last(text)
        waits = 0
        text = b"\n".join((text + more).rsplit(b"\n", 2)[-2:])  # the last line, and what follows


def _get_last(text: bytes) -> str:
    return text.decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2]


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()


def _explain(number: signal.Signals, tried: str) -> str:
    where = f" at {tried}" if tried else ""
    if number not in CRASHES:
        return f"the process was ended by {number.name}{where}; nothing was judged from there on"
    return (
        f"TVM crashes ({number.name}){where}: one of its passes does not survive what the change "
        "makes; mend that, or leave the module out (of a corpus with --from, the trial after it)"
    )


def begin_guarded() -> None:
    """In a process that is guarded: take the socket, and end when it closes."""
    global _guard
    number = os.environ.pop(SOCKET, None)
    if number is not None:
        _guard = socket.socket(fileno=int(number))
        threading.Thread(target=_end_with, args=(_guard,), daemon=True).start()


def _end_with(guard: socket.socket) -> None:
    with contextlib.suppress(OSError):
        if not guard.recv(1):
            os._exit(1)


def note_tried(text: str) -> None:
    """Tell the process that guards this one what is tried next."""
    if _guard is not None:
        with contextlib.suppress(OSError):
            _guard.sendall(text.replace("\n", " ").encode() + b"\n")
