"""The standard streams of a command: closed, full, or with a reader who has gone; and what a user's
code and libraries print kept out of its output.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, TextIO

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


class OutputError(Exception):
    """Standard output cannot be written; why, in a sentence."""


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """While this lasts, what goes wrong with standard output is told apart from all other errors.

    Raises `OutputError`, also at once where standard output is closed, and `BrokenPipeError` where
    its reader has gone.
    """
    for number in range(3):
        # The next file that is opened would get the number of a closed stream, and then what TVM's
        # C++ prints: it goes to nothing.
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # which takes the lowest number that is free
    before = sys.stdout
    if before is None:
        raise OutputError("standard output is closed; send it somewhere, or to /dev/null")
    for stream in (sys.stdout, sys.stderr):
        # Where the locale is not UTF-8, print a ? for a × instead of ending.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.stdout = _Output(before)
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, OutputError):
        with contextlib.suppress(OSError, ValueError):  # what is buffered must not fail at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), before.fileno())
        raise
    finally:
        sys.stdout = before


def print_error(sentence: str) -> None:
    """Say what is wrong on standard error, if that can be."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            text = f"tirstep: {sentence}"
            if sys.stderr.isatty():
                width = shutil.get_terminal_size().columns
                text = "\n".join(
                    textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
                    for line in text.splitlines()
                )
            print(text, file=sys.stderr, flush=True)


class _Output:
    """A stream that names its own errors.

    Whoever writes need not know: typer would end with 1 where the reader has gone, which here means
    that a check failed. A `BrokenPipeError` without an errno it lets through.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._call(self._stream.write, text)

    def flush(self) -> None:
        self._call(self._stream.flush)

    def _call(self, write: Callable[..., Any], *arguments: str) -> Any:
        try:
            return write(*arguments)
        except BrokenPipeError:
            raise BrokenPipeError from None
        except OSError as error:
            raise OutputError(f"standard output cannot be written: {error.strerror}") from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
