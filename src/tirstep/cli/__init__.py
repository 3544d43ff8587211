"""The command ``tirstep``.

`commands` declares the commands with their options and help, a module each; the work of each is in
a module of its own here that is imported when it runs, since TVM alone takes a second to import.
`documents` has the keys of ``--json``. Exit codes: 0 good, 1 a check failed, 2 wrong use.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

INTERRUPTED = 128 + 2  # as shells count the signals SIGINT and SIGPIPE
PIPE_CLOSED = 128 + 13


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, by default on the arguments of this process; return the exit code."""
    from .commands import call
    from .refusals import find_sentence

    _print_what_can_be_encoded()
    try:
        code = call(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except Exception as error:
        sentence = find_sentence(error)
        if sentence is None:
            raise
        print(f"tirstep: {sentence}", file=sys.stderr)
        return 2


def _print_what_can_be_encoded() -> None:
    """Where the locale is not UTF-8, print a ? for a × instead of ending."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _drop_output() -> None:
    """Whoever read our output has gone: what is still buffered must not fail again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
