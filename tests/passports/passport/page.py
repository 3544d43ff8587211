"""docs/passports.md, made of docs/passports.json."""

from __future__ import annotations

import re
from typing import Any

from tirstep.bench.tables import Table

from .recipes import APPLIES
from .targets import COMPILES, TARGETS

GENERATED = "<!-- Written by `make passports`; changes here are lost. -->\n"
INTRO = """\
# Passports

Where each recipe and each transform applies, and what it says where it does not. Every entry was
tried: recipes are scheduled at the shape of their golden, at one more of every size (*odd*), at
one of everything (*ones*) and, where they take it, at sizes left open; in each type of their
kernel; and the golden's source was made for four kinds of targets. Nothing here was run on a
device: [check](commands.md) and the goldens' tests say whether it computes the right thing.

| mark | |
|---|---|
| ✓ | applies, or compiles |
| pad, guard | applies with this `tail`, and not without |
| v | applies, with narrower vectors than at the golden's shape |
| g | applies, with more guarded blocks |
| – | refused; a number leads to the sentence below |

[passports.json](passports.json) has every sentence in full. `make passports` tries all again,
in some ten minutes, and `make passports ARGS=NAME` one recipe, which it prints.
"""


def make_page(data: dict[str, Any]) -> str:
    """The page of a table that was stored."""
    notes: dict[str, int] = {}
    recipes = [_row(name, it, data, notes) for name, it in data["recipes"].items()]
    transforms = [_transform_row(name, it, data) for name, it in data["transforms"].items()]
    forms = list(next(iter(data["transforms"].values()))["forms"])
    parts = [
        GENERATED + INTRO,
        "## Recipes",
        _count(data),
        Table(["recipe", "types", "odd", "ones", "open", *TARGETS], recipes).to_markdown(),
        "### Why not",
        "\n".join(f"{number}. {text}" for text, number in notes.items()),
        "## Transforms",
        "Each transform was called on functions of these forms with several arguments, as they are "
        "written, bound to threads, in tiles, with staged operands and in rows, until one call was "
        "accepted. ✓ says that one was; of a transform without any, the last column names the "
        "recipes' files in whose chains it stands.",
        Table(["transform", *forms, "targets", "in recipes"], transforms).to_markdown(),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _count(data: dict[str, Any]) -> str:
    every = [it["targets"] for it in data["recipes"].values()]
    counts = ", ".join(
        f"{sum(it.get(kind) == COMPILES for it in every)} for {kind}" for kind in TARGETS
    )
    return f"Of {len(every)} recipes TVM makes the source of {counts}."


def _row(
    name: str, passport: dict[str, dict[str, Any]], data: dict[str, Any], notes: dict[str, int]
) -> list[str]:
    types = _group({it: _mark(_read(text, data)) for it, text in passport["types"].items()})
    shapes = [
        _mark(_read(passport["shapes"][it], data), notes) if it in passport["shapes"] else ""
        for it in ("odd", "ones", "open")
    ]
    targets = [_mark(_read(passport["targets"][kind], data), notes) for kind in TARGETS]
    return [f"`{name}`", types, *shapes, *targets]


def _group(marks: dict[str, str]) -> str:
    """The types under each mark."""
    found: dict[str, list[str]] = {}
    for dtype, mark in marks.items():
        found.setdefault(mark, []).append(re.sub("^(float|bfloat|int|uint)", _shorten, dtype))
    return "; ".join(f"{mark} {' '.join(names)}" for mark, names in found.items()) or "✓"


def _shorten(match: re.Match[str]) -> str:
    return {"float": "f", "bfloat": "bf", "int": "i", "uint": "u"}[match[1]]


def _read(text: str | int, data: dict[str, Any]) -> str:
    return data["sentences"][text] if isinstance(text, int) else text


def _mark(text: str, notes: dict[str, int] | None = None) -> str:
    if text in (COMPILES, APPLIES):
        return "✓"
    if text.startswith(APPLIES):
        tail = re.search(r"with tail=(\w+)", text)
        letters = [tail[1]] if tail else []
        letters += ["v"] if "vectors of" in text else []
        letters += ["g"] if "guarded" in text else []
        return " ".join(letters) or "✓"
    if notes is None:
        return "–"
    return f"–{notes.setdefault(text, len(notes) + 1)}"


def _transform_row(name: str, passport: dict[str, Any], data: dict[str, Any]) -> list[str]:
    forms = [
        "✓" if str(_read(text, data)).startswith(APPLIES) else "–"
        for text in passport["forms"].values()
    ]
    targets = " ".join(kind for kind, it in passport["targets"].items() if it == COMPILES)
    everywhere = targets == " ".join(TARGETS)
    return [f"`{name}`", *forms, "all" if everywhere else targets, " ".join(passport["recipes"])]
