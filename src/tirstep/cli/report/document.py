"""The values that a report shows, and their page: its template, styles and scripts from the
folder `page`, and the data as JSON.

Where something was not measured or is not there, it is None.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from tirstep.lowering_checks import Finding
from tirstep.lowering_checks.facts import Fact
from tirstep.lowering_checks.judgement import Status

from ..formats import FIELDS, read_keys


@dataclass(frozen=True)
class Text:
    """A program, by its lines."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Text:
        """A text, without the empty lines around it."""
        return cls(tuple(text.strip("\n").splitlines()))


Keys = Mapping[str, Any]
"""An object of the page's data; keys that hold nothing are left out of it."""


@dataclass(frozen=True)
class StepPart:
    """One step of a recipe, with all that is shown of it.

    Attributes
    ----------
    label : number and name, ``01_bound``
    device_source : language and text, or why it is missing; `links` has for each line that of the
        TIR that it comes from, or 0; it is empty where that is not known
    facts : their rows, or why they are missing; those of two steps meet by their keys
    source : ``file:line`` of the recipe where the step ends
    python : of `find_python`; None where it cannot be read
    passes, pass_count : those that changed the module, with the texts before and after, and how
        many there were
    checks : the verdict, and whose numbers they were compared with
    time : of one call in microseconds
    """

    label: str
    name: str
    tir: Text
    device_source: Keys
    facts: Keys
    source: str = ""
    python: Keys | None = None
    trace: Text = Text(())
    passes: tuple[Keys, ...] = ()
    pass_count: int = 0
    checks: Keys | None = None
    time: Keys | None = None


@dataclass(frozen=True)
class RecipePart:
    """One recipe; without steps where it refused what was asked.

    Attributes
    ----------
    status : "right", "clean", "wrong" or "not judged"; None where nothing was checked
    refusal : why there are no steps
    is_broken : since the user's program raises
    findings : those of the recipe as a whole
    """

    name: str
    about: str
    kernel: str
    status: Status | None
    steps: tuple[StepPart, ...]
    shape: str = ""
    dtype: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    refusal: str | None = None
    is_broken: bool = False
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Report:
    """A report: its recipes, in the order of the ladder.

    Attributes
    ----------
    kind : "recipe" or "program", what its recipes are called
    device : None where nothing was checked
    target : what the steps are lowered for
    """

    title: str
    kind: str
    device: str | None
    target: str
    versions: Mapping[str, str]
    recipes: tuple[RecipePart, ...]


def as_document(report: Report) -> dict[str, Any]:
    """A report as JSON: objects without the keys that hold nothing, and texts as their numbers.

    Its `lines` are the distinct lines, and its `texts` the distinct texts as places in these.
    """
    lines: dict[str, int] = {}
    texts: dict[Text, int] = {}

    def as_json(value: Any) -> Any:
        if isinstance(value, Text):
            for line in value.lines:
                lines.setdefault(line, len(lines))
            return texts.setdefault(value, len(texts))
        if isinstance(value, Fact):
            value = value._replace(key=value.key or value.name)._asdict()
        elif isinstance(value, Finding):
            value = read_keys(value.at(Path(value.location).name), FIELDS["Finding"])
        elif dataclasses.is_dataclass(value):
            value = {it.name: getattr(value, it.name) for it in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            return {it: as_json(kept) for it, kept in value.items() if kept not in (None, "", ())}
        if isinstance(value, tuple):
            return [as_json(item) for item in value]
        return value

    document = as_json(report)
    places = [[lines[line] for line in text.lines] for text in texts]
    return {**document, "lines": [*lines], "texts": places}


SCRIPTS = ("dom", "data", "route", "diff", "code", "pages", "keys")
MARKER = '<meta name="generator" content="tirstep report">'


def render_report(report: Report) -> str:
    """One HTML file that needs nothing else."""
    page = files(__package__) / "page"

    def read(name: str) -> str:
        return (page / name).read_text(encoding="utf-8")

    script = "\n".join(read(f"{name}.js") for name in SCRIPTS)
    # Deflated and in base64 it is small, and no text in it can be taken for markup.
    data = json.dumps(as_document(report), separators=(",", ":"), ensure_ascii=False)
    parts = {
        "generator": MARKER,
        "title": html.escape(f"{report.title} · tirstep"),
        "style": read("page.css"),
        "data": base64.b64encode(zlib.compress(data.encode(), level=9)).decode("ascii"),
        "script": f'(async () => {{\n"use strict";\n{script}\n}})();',
    }
    # In one go: what is put in is not searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], read("page.html"))
