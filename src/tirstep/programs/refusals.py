"""Sentences about a program that does not load: TVM's reason if it is not well-formed, and new
names where it is written for an older TVM.
"""

from __future__ import annotations

import os
import re
import tokenize
import traceback
from pathlib import Path
from typing import Any

from tirstep.files import show_path

MOST_NAMES = 8


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
