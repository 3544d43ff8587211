"""What a report shows, as values: `as_document` makes of them the JSON that the page reads.

Authors are given per line: n ≥ 0 is step n of the recipe, and -n is TVM's pass n. Where something
was not measured or is not there, it is None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tirstep.lowering_checks import Finding
from tirstep.lowering_checks.facts import Fact

from .loops import Buffer, Nest


@dataclass(frozen=True)
class Text:
    """A program, by its lines."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Text:
        """A text, without the empty lines around it."""
        return cls(tuple(text.strip("\n").splitlines()))


class TextTable:
    """Every line once, and every text as the places of its lines.

    Attributes
    ----------
    lines : the distinct lines, with their places
    texts : the distinct texts, with their numbers
    """

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.texts: dict[Text, int] = {}

    def add(self, text: Text) -> int:
        """Keep a text; its number."""
        for line in text.lines:
            self.lines.setdefault(line, len(self.lines))
        return self.texts.setdefault(text, len(self.texts))

    def as_document(self) -> dict[str, Any]:
        """The lines, and the texts as places in these."""
        texts = [[self.lines[line] for line in text.lines] for text in self.texts]
        return {"lines": [*self.lines], "texts": texts}


@dataclass(frozen=True)
class TimePart:
    """Times of one call in microseconds: the median of `repeats`, and the quartiles."""

    median: float
    lower: float
    upper: float
    repeats: int
    gflops: float


@dataclass(frozen=True)
class CountsPart:
    """What the simulator counted in the first GPU block of each launch.

    Attributes
    ----------
    blocks : of all launches together
    traffic : bytes of the sectors of global memory that all blocks touch
    requests, sectors, bytes : of accesses to global memory; sectors are of 32 bytes
    shared_requests, bank_conflicts : of accesses to shared memory
    """

    blocks: int
    barriers: int
    requests: int
    sectors: int
    bytes: int
    traffic: int
    shared_requests: int
    bank_conflicts: int


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
    milliseconds : that it took
    before, after : what it was given, and what it made
    authors : of the lines of `after`
    """

    number: int
    name: str
    milliseconds: float
    before: Text
    after: Text
    authors: tuple[int, ...]


@dataclass(frozen=True)
class SourcePart:
    """The device source of a step: a text and its authors, or why there is none."""

    language: str
    text: Text | None
    authors: tuple[int, ...]
    missing: str | None


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
class MachineCodePart:
    """The SASS of a step, or why there is none.

    Attributes
    ----------
    source_lines : for each of its lines the line of the device source that it comes from, or 0
    made_by : the architecture and the compiler
    """

    text: Text | None = None
    source_lines: tuple[int, ...] = ()
    made_by: str = ""
    missing: str | None = None


@dataclass(frozen=True)
class StepPart:
    """One step of a recipe, with all that is shown of it.

    Attributes
    ----------
    label : number and name, ``01_bound``
    source : ``file:line`` of the recipe where the step ends
    python : the recipe's lines; None where they cannot be read
    links : for each line of the device source the line of `tir` that it comes from, or 0; empty
        where that is not known
    passes, pass_count : those that changed the module, and how many there were
    counts, example_counts : at the report's shape, and at the shape of the recipe's own example
    """

    label: str
    name: str
    tir: Text
    authors: tuple[int, ...]
    device_source: SourcePart
    facts: FactsPart
    source: str = ""
    python: PythonPart | None = None
    trace: Text = Text(())
    links: tuple[int, ...] = ()
    machine_code: MachineCodePart | None = None
    passes: tuple[PassPart, ...] = ()
    pass_count: int = 0
    nests: tuple[Nest, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    checks: ChecksPart | None = None
    time: TimePart | None = None
    counts: CountsPart | None = None
    example_counts: CountsPart | None = None


@dataclass(frozen=True)
class RecipePart:
    """One recipe; without steps where it refused what was asked.

    Attributes
    ----------
    status : "ok", "failed", "skipped", or None where nothing was checked
    refusal : why it was skipped
    flops, bytes : operations by the kernel's own count, and what it must move at least
    example_shape, example_bytes : of the recipe's own example, where its counts are given
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
    flops: int | None = None
    bytes: int | None = None
    example_shape: str = ""
    example_bytes: int | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Peaks:
    """The roofs of a roofline: what the device can do at most, in GFLOP/s and GB/s."""

    gflops: float
    gigabytes: float


@dataclass(frozen=True)
class Report:
    """A report: its recipes, in the order of the ladder.

    Attributes
    ----------
    device : None where nothing was checked
    target : what the steps are lowered for
    peaks : None where the device does not tell them
    """

    title: str
    device: str | None
    target: str
    versions: Mapping[str, str]
    peaks: Peaks | None
    recipes: tuple[RecipePart, ...]


def as_document(report: Report) -> dict[str, Any]:
    """A report as JSON: objects without the keys that hold nothing, texts as their numbers."""
    table = TextTable()
    document = _as_json(report, table)
    return {**document, **table.as_document()}


def _as_json(value: Any, table: TextTable) -> Any:
    if isinstance(value, Text):
        return table.add(value)
    if isinstance(value, Fact):
        named = value._replace(key=value.key or value.name)._asdict()
        return {name: item for name, item in named.items() if item is not None and item != ""}
    if dataclasses.is_dataclass(value):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        renamed = {"location": "source"} if isinstance(value, Finding) else {}
        return {
            renamed.get(name, name): _as_json(item, table)
            for name, item in pairs
            if item is not None and item is not False and item not in ("", ())
        }
    if isinstance(value, Mapping):
        return {name: _as_json(item, table) for name, item in value.items()}
    if isinstance(value, tuple):
        if all(type(item) is int for item in value):
            return list(value)
        return [_as_json(item, table) for item in value]
    return value
