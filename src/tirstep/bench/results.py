"""What a benchmark measured, as values that go into JSON and come back; two runs compared."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tirstep.files import require_writable, write_file

from . import BenchError

VERSION = 1
"""Version of the document; files of other versions are refused."""


@dataclass(frozen=True)
class Time:
    """Times of one call in microseconds: the median of `repeats`, and the quartiles."""

    median_us: float
    lower_us: float
    upper_us: float
    repeats: int


@dataclass(frozen=True)
class Outcome:
    """What one candidate did in one case.

    Attributes
    ----------
    kind : ``"recipe"``, ``"peer"``, or in older runs ``"cpu"``
    status : ``"ok"``; ``"wrong"``, whose time is not taken; ``"failed"``; or ``"missing"`` where a
        peer is not installed, does not have the kernel, or a recipe refuses the shape
    note : the reason in words, where there is one
    config : of a recipe
    launched : ``"graph"`` if a recorded CUDA graph was replayed, otherwise ``"call"``
    """

    candidate: str
    kind: str
    status: str
    note: str = ""
    config: Mapping[str, object] = field(default_factory=dict)
    time: Time | None = None
    launched: str = ""


@dataclass(frozen=True)
class Case:
    """One problem and all who solved it.

    Attributes
    ----------
    flops, bytes : the least that it takes, by the kernel's own count
    skipped : why no candidate ran; empty if one did
    """

    suite: str
    kernel: str
    shape: Mapping[str, int]
    options: Mapping[str, object]
    flops: int
    bytes: int
    outcomes: tuple[Outcome, ...] = ()
    skipped: str = ""

    @property
    def dtype(self) -> str:
        """The type of the inputs."""
        return str(self.options["dtype"])

    @property
    def shape_text(self) -> str:
        """The shape as ``--shape`` takes it."""
        return "x".join(map(str, self.shape.values()))

    @property
    def form(self) -> str:
        """What else tells a case from others of its shape and dtype; mostly ""."""
        words = ["causal"] if self.options.get("causal") else []
        words += [f"mask {self.options['mask']}"] if self.options.get("mask") else []
        words += ["B transposed"] if self.options.get("transpose_b") else []
        words += ["sums in fp22"] if self.options.get("acc") == "fp22" else []
        return ", ".join(words)

    @property
    def title(self) -> str:
        """Kernel, shape, dtype and form."""
        return " ".join(filter(None, (self.kernel, self.shape_text, self.dtype, self.form)))


@dataclass(frozen=True)
class Ceilings:
    """The machine's own limits, measured in the same run and in the same way.

    Attributes
    ----------
    copy : bytes per second of a large copy on the device, read and written
    flops : operations per second by dtype
    empty_us : what the clock shows for a kernel that does nothing
    how : in words, by name of the ceiling
    copies_us : microseconds of the copy that moves as many bytes, by that number in digits; empty
        in runs from before it was measured
    """

    copy: float
    flops: Mapping[str, float]
    empty_us: float
    how: Mapping[str, str]
    copies_us: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchRun:
    """A whole run: where, with what, when, how, and the cases."""

    device: Mapping[str, object]
    versions: Mapping[str, str]
    date: str
    method: Mapping[str, object]
    ceilings: Ceilings
    cases: tuple[Case, ...] = ()

    @property
    def place(self) -> str:
        """The device and its architecture."""
        return f"{self.device['name']} ({self.device['architecture']})"


def summarize(seconds: Sequence[float]) -> Time:
    """Median and quartiles of times in seconds."""
    micro = sorted(1e6 * second for second in seconds)
    if len(micro) == 1:
        return Time(micro[0], micro[0], micro[0], 1)
    lower, median, upper = statistics.quantiles(micro, n=4, method="inclusive")
    return Time(median, lower, upper, len(micro))


def to_document(run: BenchRun) -> dict[str, Any]:
    """The run as what JSON can hold."""
    return {"command": "bench", "version": VERSION, **dataclasses.asdict(run)}


def read_run(file: Path) -> BenchRun:
    """Read the run of a JSON file; raises `BenchError` for any other file, OSError without one."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["command"] != "bench" or document["version"] != VERSION:
            raise ValueError
        cases = []
        for case in document["cases"]:
            outcomes = []
            for it in case["outcomes"]:
                it = {**it, "time": it["time"] and Time(**it["time"])}
                if "contender" in it:  # as documents of 0.2 call it
                    it["candidate"] = it.pop("contender")
                outcomes.append(Outcome(**it))
            cases.append(Case(**{**case, "outcomes": tuple(outcomes)}))
        ceilings = Ceilings(**document["ceilings"])
        about = {key: document[key] for key in ("device", "versions", "date", "method")}
        return BenchRun(**about, ceilings=ceilings, cases=tuple(cases))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BenchError(
            f"{file} is not a file of tirstep bench, version {VERSION}; write it again on a "
            "GPU with: tirstep bench --output FILE"
        ) from None


def write_run(run: BenchRun, file: Path) -> None:
    """Write the run; whoever reads the file meanwhile sees the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, json.dumps(to_document(run), indent=1) + "\n")


def require_run_or_nothing(file: Path) -> None:
    """Raise before hours of measuring what `write_run` would raise after them.

    Raises `BenchError` for a file that holds something else than a run, of whatever form: it stays.
    """
    if file.is_file() and file.stat().st_size:
        document = None
        with contextlib.suppress(ValueError):
            document = json.loads(file.read_bytes())
        if not isinstance(document, dict) or document.get("command") != "bench":
            raise BenchError(f"{file} is not from tirstep bench, and is kept; give another name")
    file.parent.mkdir(parents=True, exist_ok=True)
    require_writable(file)


class TimeChange(NamedTuple):
    """One candidate in one case of both runs; a time is None where it has none in that run.

    The ratio is how often faster it is after: above 1 is faster. The verdict is ``"faster"`` or
    ``"slower"`` where the quartiles do not overlap, else ``"same"``; ``"new"`` and ``"gone"`` where
    only one run has a time.
    """

    title: str
    candidate: str
    before: Time | None
    after: Time | None
    ratio: float | None
    verdict: str


def compare_runs(before: BenchRun, after: BenchRun) -> list[TimeChange]:
    """The changes in the order of the newer run; what only the older one has comes last.

    A candidate without a time in either run is left out.
    """
    times: list[dict[tuple[str, str], Time]] = []
    for run in (before, after):
        times.append({})
        for case in run.cases:
            rest = {name: value for name, value in case.options.items() if name != "dtype"}
            title = f"{case.title} {rest}" if rest else case.title
            times[-1] |= {(title, it.candidate): it.time for it in case.outcomes if it.time}
    changes = []
    for key in dict.fromkeys([*times[1], *times[0]]):
        old, new = times[0].get(key), times[1].get(key)
        ratio, verdict = None, "new" if new else "gone"
        if old is not None and new is not None:
            ratio, verdict = old.median_us / new.median_us, "same"
            if new.upper_us < old.lower_us:
                verdict = "faster"
            elif new.lower_us > old.upper_us:
                verdict = "slower"
        changes.append(TimeChange(*key, old, new, ratio, verdict))
    return changes


def list_differences(before: BenchRun, after: BenchRun) -> list[str]:
    """What besides the code is not the same in both runs: devices and versions, in words."""
    found = []
    if before.device["name"] != after.device["name"]:
        found.append(f"the devices differ: {before.device['name']} and {after.device['name']}")
    for name in sorted({*before.versions, *after.versions}):
        old, new = before.versions.get(name, "none"), after.versions.get(name, "none")
        if old != new:
            found.append(f"{name} was {old} and is {new}")
    return found
