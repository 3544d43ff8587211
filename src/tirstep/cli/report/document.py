"""What a report shows, as values, and the page of them: its template, styles and scripts from the
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
from typing import Any

from tirstep.lowering_checks import Finding
from tirstep.lowering_checks.facts import Fact


@dataclass(frozen=True)
class Text:
    """A program, by its lines."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Text:
        """A text, without the empty lines around it."""
        return cls(tuple(text.strip("\n").splitlines()))


@dataclass(frozen=True)
class TimePart:
    """Times of one call in microseconds: the median of `repeats`, and the quartiles."""

    median: float
    lower: float
    upper: float
    repeats: int
    gflops: float


@dataclass(frozen=True)
class ChecksPart:
    """The verdict of a step: "ok", "failed" or None where a check was not made; `reference` says
    whose numbers it was held against.
    """

    golden: str | None
    numbers: str | None
    checked_on: str
    findings: tuple[Finding, ...]
    reference: str = "NumPy"


@dataclass(frozen=True)
class FactsPart:
    """The facts of a step, or why there are none. Those of two steps meet by their keys."""

    rows: tuple[Fact, ...]
    missing: str | None


@dataclass(frozen=True)
class PassPart:
    """A pass of TVM that changed a step's module.

    Attributes
    ----------
    number, name : its place among all passes of the compilation, and TVM's name for it
    before, after : what it was given, and what it made
    """

    number: int
    name: str
    milliseconds: float
    before: Text
    after: Text


@dataclass(frozen=True)
class SourcePart:
    """The device source of a step, or why there is none.

    Attributes
    ----------
    links : for each line the line of the step's TIR that it comes from, or 0; empty where that is
        not known
    """

    language: str
    text: Text | None
    missing: str | None
    links: tuple[int, ...] = ()


@dataclass(frozen=True)
class PythonPart:
    """The Python of a step: `text` is the function that makes it.

    Attributes
    ----------
    first : the line of its file at which the function begins
    start, stop : the first and the last line of the file that are the step's
    """

    path: str
    function: str
    first: int
    start: int
    stop: int
    text: Text


@dataclass(frozen=True)
class StepPart:
    """One step of a recipe, with all that is shown of it.

    Attributes
    ----------
    label : number and name, ``01_bound``
    source : ``file:line`` of the recipe where the step ends
    python : the recipe's lines; None where they cannot be read
    passes, pass_count : those that changed the module, and how many there were
    """

    label: str
    name: str
    tir: Text
    device_source: SourcePart
    facts: FactsPart
    source: str = ""
    python: PythonPart | None = None
    trace: Text = Text(())
    passes: tuple[PassPart, ...] = ()
    pass_count: int = 0
    checks: ChecksPart | None = None
    time: TimePart | None = None


@dataclass(frozen=True)
class RecipePart:
    """One recipe; without steps where it refused what was asked.

    Attributes
    ----------
    status : "ok", "failed", "skipped", or None where nothing was checked
    refusal : why it was skipped
    findings : those of the recipe as a whole
    """

    name: str
    about: str
    kernel: str
    status: str | None
    steps: tuple[StepPart, ...]
    shape: str = ""
    dtype: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    refusal: str | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Report:
    """A report: its recipes, in the order of the ladder.

    Attributes
    ----------
    device : None where nothing was checked
    target : what the steps are lowered for
    """

    title: str
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
            named = value._replace(key=value.key or value.name)._asdict()
            return {name: item for name, item in named.items() if item is not None and item != ""}
        if dataclasses.is_dataclass(value):
            pairs = {it.name: getattr(value, it.name) for it in dataclasses.fields(value)}
            if isinstance(value, Finding):
                pairs["source"] = pairs.pop("location")
            return {
                name: as_json(item)
                for name, item in pairs.items()
                if item is not None and item not in ("", ())
            }
        if isinstance(value, Mapping):
            return {name: as_json(item) for name, item in value.items()}
        if isinstance(value, tuple):
            return [as_json(item) for item in value]
        return value

    document = as_json(report)
    places = [[lines[line] for line in text.lines] for text in texts]
    return {**document, "lines": [*lines], "texts": places}


STYLES = (
    "theme",
    "base",
    "layout",
    "tree",
    "step",
    "code",
    "lines",
    "panels",
    "overview",
    "dialogs",
)
SCRIPTS = (
    *("start", "dom", "data", "lines", "route", "diff", "highlight", "code", "panels"),
    *("overview", "tree", "step", "search", "keyboard"),
)
MARKER = '<meta name="generator" content="tirstep report">'


def render_report(report: Report) -> str:
    """One HTML file that needs nothing else."""
    page = files(__package__) / "page"

    def read(name: str) -> str:
        return (page / name).read_text(encoding="utf-8")

    script = "\n".join(read(f"{name}.js") for name in SCRIPTS)
    parts = {
        "generator": MARKER,
        "title": html.escape(f"{report.title} · tirstep"),
        "style": "\n".join(read(f"{name}.css") for name in STYLES),
        "data": pack_document(as_document(report)),
        "script": f'(async () => {{\n"use strict";\n{script}\n}})();',
    }
    # In one go: what is put in is not searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], read("page.html"))


def pack_document(document: object) -> str:
    """JSON, deflated and in base64: small, and no text in it can be taken for markup."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode(), level=9)).decode("ascii")
