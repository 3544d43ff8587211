"""What is wrong with a user's program, in one sentence with its file and line."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

_OURS = Path(__file__).resolve().parents[1]
_FILES: set[str] = set()


class ProgramError(Exception):
    """A text names no program, or one that cannot be used: one sentence with advice."""


def watch_file(file: Path) -> None:
    """From now on, an error that comes out of this file is its writer's, see `explain_error`."""
    _FILES.add(str(file))


def explain_error(error: BaseException) -> str | None:
    """``FILE:LINE: what`` of an error that came out of a watched file; None of any other.

    The line is the innermost of such a file, so that of a call into TVM or NumPy that failed.
    """
    place, traceback = None, error.__traceback__
    while traceback is not None:
        file = os.path.abspath(traceback.tb_frame.f_code.co_filename)
        if file in _FILES:
            place = f"{show_path(file)}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return None if place is None else f"{place}: {describe_error(error)}"


def describe_error(error: BaseException) -> str:
    """An error in one line: TVM's schedule errors are a page, of which the last line says it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    if not lines:
        return kind
    told = [line for line in lines if line.startswith("Error message:")]
    text = told[-1].removeprefix("Error message:").strip() if told else lines[0]
    text = text.removeprefix("error: ")
    is_plain = kind in ("ScheduleError", "DiagnosticError", "TransformError", "KernelError")
    return text if is_plain else f"{kind}: {text}"


def show_path(file: str | Path) -> str:
    """A path as its user would write it: from the current folder, if it is below that."""
    try:
        return str(Path(os.path.abspath(file)).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(file)


def find_line(traceback: TracebackType | None, file: str) -> int | None:
    """The innermost line of a file in a traceback."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
