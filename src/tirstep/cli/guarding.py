"""Runs a command in a process of its own, so that one that TVM ends is told in a sentence.

A pass of the user's may make what no later pass of TVM survives. Where that ends the process, the
one that began it says so, and what was being tried. A program of the user's may store far beyond
its buffers, which is said as well. The two are joined by a socket: one way go the names of what is
tried, and where it closes, the other side has ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

from tirstep.printing import print_error
from tirstep.processes import CRASHES, end_silently
from tirstep.programs.naming import is_program

PASS = "pass"
"""The command that runs so."""
JUDGES = ("check", "diff", "report", "why")
"""The commands that run so where a program of the user's is named, which they execute; diff only
with --numbers."""
SOCKET = "TIRSTEP_GUARD"
"""The variable that has the number of the socket."""
_guard: socket.socket | None = None


def is_guarded(argv: Sequence[str]) -> bool:
    """Whether a command line is to run in a process of its own, and this is not that one yet."""
    if not argv or SOCKET in os.environ:
        return False
    if (argv[0] == "diff" and "--numbers" not in argv) or "--watch" in argv:
        return False
    # Behind an option there is its value, the file of a report, say.
    pairs = itertools.pairwise(argv)
    named = [word for before, word in pairs if before == "--against" or before[:1] != "-"]
    return argv[0] == PASS or (argv[0] in JUDGES and any(map(is_program, named)))


def run_guarded(argv: Sequence[str]) -> int:
    """Run a command line in a process of its own, the only one that gets Ctrl-C; its exit code, or
    1 where it was ended.
    """
    ours, theirs = socket.socketpair()
    tried, code = "", None
    with ours:
        with theirs:
            # Until it can say so in its own way, Ctrl-C waits there.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tirstep", *argv],
                    env={**os.environ, SOCKET: str(theirs.fileno())},
                    pass_fds=[theirs.fileno()],
                )
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        lines = ours.makefile(encoding="utf-8", errors="replace")
        while code is None:
            with contextlib.suppress(KeyboardInterrupt):
                for line in lines:
                    tried = line.rstrip("\n")
                code = process.wait()
    if code >= 0:
        return code
    if code == -signal.SIGINT:  # it came while Python ended
        raise KeyboardInterrupt
    print_error(explain_end(-code, tried, is_judge=argv[0] in JUDGES))
    return 1


def explain_end(signal_number: int, tried: str, *, is_judge: bool) -> str:
    """The sentence about a process that a signal ended while something was tried, and
    what to do.
    """
    number = signal.Signals(signal_number)
    where = f" at {tried}" if tried and not is_judge else ""
    if number not in CRASHES:
        return f"the process was ended by {number.name}{where}; nothing after that was judged"
    if is_judge:
        return (
            f"the program ends the process ({number.name}), as a store far out of bounds does "
            "on the device cpu, where steps without thread bindings run; check its indices, "
            "or bind its loops and use --device simulator, which names the store"
        )
    return (
        f"TVM crashes ({number.name}){where}: one of its passes crashes on the changed "
        "module; fix that, or leave the module out (in a corpus: --from with the next trial)"
    )


def begin_guarded() -> None:
    """In a process that is guarded: take the socket, and end when it closes."""
    global _guard
    number = os.environ.pop(SOCKET, None)
    if number is not None:
        _guard = guard = socket.socket(fileno=int(number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

        def end() -> None:
            with contextlib.suppress(OSError):
                if not guard.recv(1):
                    os._exit(1)

        threading.Thread(target=end, daemon=True).start()


def quiet_crashes() -> None:
    """In a process that is guarded, once TVM is loaded: no stack of C++ where it crashes."""
    if _guard is not None:
        end_silently()


def note_tried(text: str) -> None:
    """Tell the process that guards this one what is tried next."""
    if _guard is not None:
        with contextlib.suppress(OSError):
            _guard.sendall(text.replace("\n", " ").encode() + b"\n")
