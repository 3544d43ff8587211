"""Names on the command line: a name of `tirstep list`, or a program of the user's, and
what is wrong with one, in one sentence with its file and line.

A name of the list has letters, digits, ``_`` and ``-``. A program has a ``.``, ``/`` or ``:``
in its text, or is ``-``: ``FILE.py``, ``FILE.py:NAME``, ``package.module:NAME``, ``FILE.json``, a
folder of MetaSchedule's or of a trace, written ``FOLDER/``, and ``-`` for standard input.
"""

from __future__ import annotations

import os
import re
import traceback
from dataclasses import dataclass
from pathlib import Path

from tirstep.files import show_path
from tirstep.tracing import is_trace

from .refusals import explain_spelling, find_ill_formed, find_line

STDIN = "-"
FORMS = (
    "FILE.py, FILE.py:NAME, package.module:NAME, FILE.json, a database's or a trace's FOLDER/, or -"
)


@dataclass(frozen=True)
class Spelling:
    """A text that names programs.

    Attributes
    ----------
    place : a path, a module's dotted name, or ``"-"``
    names : of what is meant there; none for all of it
    """

    text: str
    place: str
    names: tuple[str, ...]

    @property
    def is_module(self) -> bool:
        """Whether it is to be imported by its name."""
        is_dotted = re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", self.place)
        is_file = self.path.suffix in (".py", ".json") or self.path.is_file() or is_trace(self.path)
        return bool(is_dotted) and not is_file

    @property
    def path(self) -> Path:
        """The path of a file or a folder."""
        return Path(self.place)

    def of(self, *names: str) -> str:
        """The text that names this in the same place."""
        return ":".join([self.place, *names])


def is_program(text: str) -> bool:
    """Whether a text is none of the names of the list, as it is spelt, but for a trace's folder."""
    return text == STDIN or any(sign in text for sign in "./:") or is_trace(Path(text))


def read_spelling(text: str) -> Spelling:
    """The place and the names of a text; raises `ProgramError` for a file that is not there."""
    # At the colons; a path that has some itself is taken as it is.
    place, *names = parts = text.split(":")
    for end in range(len(parts), 0, -1):
        path = ":".join(parts[:end])
        if path and (path == STDIN or Path(path).exists()):
            place, names = path, parts[end:]
            break
    if not place or any(not name for name in names):
        raise ProgramError(f"'{text}' has an empty name; a program is {FORMS}")
    spelling = Spelling(text, place, tuple(names))
    if place == STDIN or spelling.is_module:
        return spelling
    if not spelling.path.exists():
        raise ProgramError(f"there is no file {place}; a program is {FORMS}")
    return spelling


_FILES: set[str] = set()


class ProgramError(Exception):
    """A text names no program, or one that cannot be used: one sentence with advice."""


class NoProgramError(ProgramError):
    """A file is one, and there is nothing to check in it."""


def watch_file(file: Path) -> None:
    """From now on, an error that comes out of this file is its writer's, see `explain_error`."""
    _FILES.add(str(file))


def explain_error(error: BaseException) -> str | None:
    """``FILE:LINE: what`` of an error that came out of a watched file; None of any other.

    The line is the innermost of such a file, so that of a call into TVM or NumPy that failed.
    """
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = os.path.abspath(frame.f_code.co_filename)
        if file in _FILES:
            place = file, line
    if place is None:
        return None
    file, line = place
    where = f"{show_path(file)}:{find_line(error) or line}"
    return f"{where}: {describe_error(error)}{explain_spelling(file)}"


def describe_error(error: BaseException) -> str:
    """An error in one line: TVM's schedule errors are a page, whose last line says it, with
    marks such as ``SBlock#0`` for the blocks and loops on that page.
    """
    if (found := find_ill_formed(error)) is not None:
        return found[1]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    if not lines:
        return kind
    text = lines[0].removeprefix("error: ")
    if any(line.startswith("Error message:") for line in lines):
        from tirstep.transforms.schedule import describe_error as describe_refusal

        text = describe_refusal(error)
    is_plain = kind in ("ScheduleError", "DiagnosticError", "TransformError", "KernelError")
    return text if is_plain else f"{kind}: {text}"
