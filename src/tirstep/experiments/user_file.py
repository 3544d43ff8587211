"""What a text such as ``FILE.py:NAME`` names: the file is run, as an import would run it."""

from __future__ import annotations

import difflib
from typing import Any

from tirstep.programs.loading import load_place
from tirstep.programs.naming import read_spelling
from tirstep.programs.program_error import ProgramError

from .editing import ExperimentError


def load_value(text: str) -> Any:
    """The value of ``FILE.py:NAME`` or ``package.module:NAME``; raises `ExperimentError`."""
    place, colon, name = text.rpartition(":")
    if not (place and colon and name.isidentifier()):
        raise ExperimentError(f"'{text}' names nothing; give FILE.py:NAME or package.module:NAME")
    try:
        values = load_place(read_spelling(place).place).values
    except ProgramError as error:
        raise ExperimentError(str(error)) from error
    if name not in values:
        known = [each for each in values if not each.startswith("_")]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "name what it defines"
        raise ExperimentError(f"{place} has no '{name}'; {hint}")
    return values[name]
