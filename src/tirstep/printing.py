"""Keeps what a user's code and libraries print out of a command's output."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

STDOUT, STDERR = 1, 2
_pending: contextlib.ExitStack | None = None


@contextlib.contextmanager
def printing_beside() -> Iterator[None]:
    """While this lasts, what is printed goes to standard error: by Python, by child processes, and
    by C++.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
    with _moved(STDOUT, STDERR), contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def document_alone() -> Iterator[None]:
    """The same up to `begin_document`."""
    global _pending
    before = _pending
    with contextlib.ExitStack() as _pending:
        _pending.enter_context(printing_beside())
        try:
            yield
        finally:
            _pending.close()
            _pending = before


def begin_document() -> None:
    """From now on, what is printed is the command's output."""
    if _pending is not None:
        _pending.close()


@contextlib.contextmanager
def silenced_stderr() -> Iterator[None]:
    """While this lasts, what libraries write to standard error past Python is lost."""
    with contextlib.ExitStack() as silenced:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # there may be none
            sys.stderr.flush()
            with open(os.devnull, "ab") as nothing:
                silenced.enter_context(_moved(STDERR, nothing.fileno()))
        yield


@contextlib.contextmanager
def _moved(number: int, target: int) -> Iterator[None]:
    """While this lasts, a descriptor is another one's."""
    kept = os.dup(number)
    os.dup2(target, number)
    try:
        yield
    finally:
        os.dup2(kept, number)
        os.close(kept)
