"""Names on the command line: a name of `tirstep list`, or a program of the user's, and
what is wrong with one, in one sentence with its file and line: TVM's reason if a program is not
well-formed, and new names where it is written for an older TVM.

A name of the list has letters, digits, ``_`` and ``-``. A program has a ``.``, ``/`` or ``:``
in its text, or is ``-``: ``FILE.py``, ``FILE.py:NAME``, ``package.module:NAME``, ``FILE.json``, a
folder of MetaSchedule's or of a trace, written ``FOLDER/``, and ``-`` for standard input.
"""

from __future__ import annotations

import os
import re
import tokenize
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tirstep.files import show_path
from tirstep.tracing import is_trace

STDIN = "-"
MOST_NAMES = 8
"""Names that have moved, of which a sentence tells."""
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


def find_ill_formed(error: BaseException) -> tuple[int | None, str] | None:
    """The line that TVM's reason why a program is not well-formed is about, and that reason in a
    sentence; None for any other error.

    TVM's message has the reason, with a path to the statement; the program itself is in the frame
    that raised it.
    """
    reason = re.search(r"^Traceback: (.*)", str(error), re.MULTILINE)
    if "Program is not well-formed" not in str(error) or reason is None:
        return None
    from tirstep.transforms.tir import find_location

    names: dict[str, Any] = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        names = frame.f_locals if "check_ret" in frame.f_locals else names
    _, _, path = reason[1].partition("<root>")
    path = path.partition(" ")[0]
    node = names.get("check_ret" if path.startswith(".functions") else "func")
    line, function = None, node
    steps = re.findall(r'\[I\.GlobalVar\("(\w+)"\)\]|\[(\d+)\]|\.(\w+)', path)
    for name, index, attribute in steps:
        if name:
            node = function = names["check_ret"][name]
        elif index:
            node = node[int(index)] if node is not None else None
        elif attribute != "functions":
            node = getattr(node, attribute, None)
        location = find_location(node)
        line = location[1] if location is not None else line
    told = re.sub(r" at <root>\S*", "", reason[1]).removeprefix("TIR is ill-formed: ").rstrip(".")
    attributes = getattr(function, "attrs", None) or {}
    name = attributes.get("global_symbol") or "the function"
    if "does not support statement s_tir" in told:
        advice = f"; blocks need @T.prim_func(s_tir=True) above def {name}"
    elif re.search(r"\.(reads|writes)\[", path):
        buffer = re.search(r"buffer (\w+) is", told)
        name_it = f", or {buffer[1]}: T.let = VALUE" if buffer else ""
        advice = f"; write the block's T.reads and T.writes{name_it}"
    else:
        advice = ""
    return line, f"'{name}' is not well-formed: {told}{advice}"


def find_line(error: BaseException) -> int | None:
    """The line that a program which is not well-formed is refused for; None of any other error."""
    return (find_ill_formed(error) or (None, ""))[0]


def explain_spelling(file: str | Path, text: str | None = None) -> str:
    """``; it is written for an older TVM (OLD -> NEW); run: tirstep modernize FILE --write``, or ""
    where nothing in a file has moved.
    """
    from .modernizing import modernize_text

    try:
        if text is None:
            with tokenize.open(file) as stream:
                text = stream.read()
        new = modernize_text(text)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""
    shown, run = show_path(file), "run"
    if str(file) == "-":
        shown, run = "FILE.py", "write it to FILE.py and run"
    if not new.renames:
        marks = [f"; line {mark.line}: {mark.message}" for mark in new.marks[:1]]
        return "".join(
            [*marks, f"; tirstep modernize {shown} has the rest" if new.marks[1:] else ""]
        )
    moved = [f"{old} -> {name}" for old, name in new.renames.items()]
    rest = len(moved) - MOST_NAMES
    told = ", ".join(moved[:MOST_NAMES] + ([f"{rest} more"] if rest > 0 else []))
    return f"; it is written for an older TVM ({told}); {run}: tirstep modernize {shown} --write"


def find_own_file(error: BaseException) -> str | None:
    """The innermost file in which an error was raised that is neither installed nor Python's."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    python = str(Path(os.__file__).parent)
    own = [it for it in files if "-packages" not in it and not it.startswith(python)]
    return next((it for it in reversed(own) if Path(it).is_file()), None)
