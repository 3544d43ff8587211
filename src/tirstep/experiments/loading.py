"""What a text such as ``FILE.py:NAME`` names: the file is run, as an import would run it."""

from __future__ import annotations

import difflib
import hashlib
import sys
from pathlib import Path
from typing import Any

from tirstep.programs.loading import load_place
from tirstep.programs.naming import read_spelling
from tirstep.programs.program_error import ProgramError

from .editing import Edit, ExperimentError, get_pass, make_whole
from .promises import NUMBERS, get_declaration
from .trying import Experiment


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


def load_experiment(place: str, anchor: str, spec: str) -> Experiment:
    """The change of the pipeline that puts the pass ``FILE.py:NAME`` in a place.

    `place` and `anchor` are those of an `Edit`; empty ones those that the pass declares. Without a
    pass of its own, ``"drop"`` leaves out that of `anchor`, and ``"pipeline"`` takes all passes
    from the function that `anchor` names. Raises `ExperimentError`.
    """
    named, own = (place, anchor, spec), spec or anchor
    name = own.rpartition(":")[2].rpartition(".")[2]
    if place == "drop":
        return Experiment(name, Edit(place, anchor), named=named)
    value = load_value(own)
    file = own.rpartition(":")[0]
    if not file.endswith(".py"):
        file = getattr(sys.modules.get(file), "__file__", None) or ""
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else ""
    if place == "pipeline":
        return Experiment(anchor, whole=make_whole(value, anchor), named=named, digest=digest)
    declared = get_declaration(value)
    if not place and declared is not None:
        place, anchor = declared.place, declared.anchor
    if not place:
        raise ExperimentError(
            f"where does {name} go? give --after, --before or --replace NAME, or decorate it with "
            "pass_experiment"
        )
    promises = () if declared is None else [p for p in declared.promises if p != NUMBERS]
    edit = Edit(place, anchor, get_pass(value, name))
    return Experiment(name, edit, promises=promises, named=named, digest=digest)
