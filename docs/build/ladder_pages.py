"""A page for each ladder that was measured, ``docs/ladders/<ladder>.md``, and its plot: what each
rung changes (from the goldens), its gain, and what the profiler counted.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pages import spell_shape
from plots import draw_bars, find_runs

from tirstep.bench.cases import LONG_ROWS
from tirstep.bench.metrics import (
    NOTHING,
    Table,
    find_reasons,
    format_rate,
    format_ratio,
    format_time,
    get_bases,
    get_first_rung,
    make_case_table,
    name_base,
    speedup,
)
from tirstep.bench.peers import PEERS
from tirstep.bench.results import BenchRun, Case, Outcome, read_run
from tirstep.cli.formatting import first_sentence, spell_config
from tirstep.cli.wrong_use import UseError
from tirstep.lowering_checks.golden import INPUTS, GoldenStore, get_input_name
from tirstep.lowering_checks.steps import diff_texts, make_golden_problem
from tirstep.transforms.recipes import LADDERS, Ladder, Recipe

Document = dict[str, Any]
"""A stored profile of a ladder by NVIDIA's ncu: where, with what and when, and by recipe its
kernels with their counters, or a note that says why there are none.
"""


def read_profile(file: Path) -> Document:
    """The document of a file."""
    return dict(json.loads(file.read_text(encoding="utf-8")))


def find_profile(document: Document, recipe: str) -> Document | None:
    """What was counted of a recipe, by its candidate's name; None if it was not profiled."""
    return next((it for it in document["recipes"] if it["recipe"] == recipe), None)


@dataclass(frozen=True)
class MeasuredLadder:
    """What a page is made of; `profile` is of the same kernel, shape, type and device."""

    ladder: Ladder
    run: BenchRun
    case: Case
    profile: Document | None

    def get_outcome(self, recipe: Recipe) -> Outcome | None:
        """What a recipe did: with its fastest tail, where it took part with several."""
        outcomes = [
            outcome
            for outcome in self.case.outcomes
            if outcome.kind == "recipe" and outcome.candidate.split(" ")[0] == recipe.name
        ]
        timed = [(each.time.median_us, place) for place, each in enumerate(outcomes) if each.time]
        if timed:
            return outcomes[min(timed)[1]]
        return outcomes[0] if outcomes else None


def find_ladders(folder: Path) -> list[MeasuredLadder]:
    """The ladders that the runs in a folder have measured.

    A ladder counts as measured by a case in which its first and its last recipe have a time. Of
    several such cases the one counts that has the most of them; then the one at the ladder's own
    shape; then the one that was profiled; then the newest run's first. Of a case's profiles, which
    are of its run's device, it is the one of most recipes, then the newest. Raises `BenchError` for
    a file that is not a run.
    """
    runs = [read_run(file) for file in find_runs(folder)]
    profiles: dict[object, Document] = {}
    known = [read_profile(file) for file in sorted(folder.glob("profile-*.json"))]
    for it in sorted(known, key=lambda it: (len(it["recipes"]), it["date"])):
        place = it["kernel"], repr(it["shape"]), it["options"]["dtype"], it["device"]["name"]
        profiles[place] = it
    found = []
    for ladder in LADDERS.values():
        names, measured = {recipe.name for recipe in ladder}, []
        for run in sorted(runs, key=lambda run: run.date, reverse=True):
            of_kernel = [it for it in run.cases if it.kernel == ladder.kernel]
            # Generated rows are no ladder's: docs/speed.md has them all.
            for case in (it for it in of_kernel if it.suite != LONG_ROWS):
                outcomes = [
                    outcome
                    for outcome in case.outcomes
                    if outcome.kind != "recipe" or outcome.candidate.split(" ")[0] in names
                ]
                place = case.kernel, repr(dict(case.shape)), case.dtype, run.device["name"]
                own = dataclasses.replace(case, outcomes=tuple(outcomes))
                profile = profiles.get(place, {"recipes": []})
                has_own = any(it["recipe"].split(" ")[0] in names for it in profile["recipes"])
                one = MeasuredLadder(ladder, run, own, profile if has_own else None)
                timed = [(at := one.get_outcome(recipe)) and at.time for recipe in ladder]
                if timed[0] and timed[-1]:
                    is_own = dict(case.shape) == dict(ladder.shape)
                    measured.append(((sum(map(bool, timed)), is_own, bool(one.profile)), one))
        if measured:
            found.append(max(measured, key=lambda pair: pair[0])[1])
    return found


LONGEST_SHOWN = 24
"""Lines of a diff that stand open on the page; longer ones are folded."""


class GoldenPrograms(NamedTuple):
    """The goldens of a recipe: the names of its steps in order, and by name, ``matmul/00_input``,
    the texts of kernel and last step.
    """

    steps: tuple[str, ...]
    kernel: tuple[str, str]
    last: tuple[str, str]


def read_programs(goldens: Path, recipe: Recipe) -> GoldenPrograms:
    """The goldens of a recipe; raises `UseError` where there are none."""
    kernel = goldens / INPUTS / get_input_name(make_golden_problem(recipe))
    labels = [*GoldenStore(goldens).read_digests(recipe.name)]
    if not labels or not kernel.is_file():
        folder = goldens / recipe.name
        raise UseError(f"{folder} has no goldens of {recipe.name}; write them: make golden")
    last = f"{recipe.name}/{labels[-1]}"
    return GoldenPrograms(
        tuple(label.split("_", 1)[1] for label in labels),
        (f"{recipe.name}/00_input", kernel.read_text(encoding="utf-8")),
        (last, (goldens / f"{last}.py").read_text(encoding="utf-8")),
    )


def write_diff(before: tuple[str, str], after: tuple[str, str]) -> str:
    """What differs between two programs, in Markdown: folded if it is long, "" if nothing does."""
    diff = diff_texts(before[1], after[1], names=(before[0], after[0]))
    if not diff.lines:
        return ""
    block = f"```diff\n{diff}\n```"
    if len(diff.lines) <= LONGEST_SHOWN:
        return block
    title = f"{diff.before} → {diff.after}: +{diff.added} −{diff.removed}"
    return f"<details><summary>{title}</summary>\n\n{block}\n\n</details>"


COLUMNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "SM": ("sm_pct", "{:.0f} %"),
        "memory": ("memory_pct", "{:.0f} %"),
        "DRAM": ("dram_pct", "{:.0f} %"),
        "L2 hits": ("l2_hit_pct", "{:.0f} %"),
        "FMA pipe": ("fma_pct", "{:.0f} %"),
        "issue slots": ("issue_pct", "{:.0f} %"),
        "IPC": ("ipc", "{:.2f}"),
        "occupancy": ("occupancy_pct", "{:.0f} %"),
        "registers": ("registers", "{:.0f}"),
        "bank conflicts": ("bank_conflicts", "{:,.0f}"),
    }
)
AT_WORK = ("selected", "not_selected")
"""States in which a warp issues, or could: no stall."""


def make_counter_table(profile: Document) -> Table:
    """A row for each kernel of a recipe: what its warps wait for are the two commonest states of a
    warp between instructions, in ncu's words.
    """
    header = ["kernel", "grid × block", "warps wait for", "µs", *COLUMNS]
    rows = []
    for it in profile["kernels"]:
        stalls = {state: spent for state, spent in it["stalls"].items() if state not in AT_WORK}
        first = sorted(stalls, key=lambda state: (-stalls[state], state))[:2]
        waits = ", ".join(f"{state} {100 * stalls[state]:.0f} %" for state in first) or NOTHING
        row = [f"`{it['name']}`", f"{_extents(it['grid'])} × {_extents(it['block'])}", waits]
        row.append(f"{it['duration_us']:,.1f}")
        for counter, form in COLUMNS.values():
            value = it["counters"].get(counter)
            row.append(NOTHING if value is None else form.format(value))
        rows.append(row)
    return Table(header, rows, len(header) - 3)


def _extents(text: str) -> str:
    """``(16, 8, 1)`` as ``16×8``; one block or thread as ``1``."""
    extents = re.findall(r"\d+", text)
    while len(extents) > 1 and extents[-1] == "1":
        extents.pop()
    return f"({'×'.join(extents)})" if len(extents) > 1 else "".join(extents)


def describe_run(run: BenchRun) -> str:
    """Where and when a run was, and its ceilings."""
    packages = {"apache-tvm": "TVM"}
    for peer in PEERS.values():
        if peer.package:
            packages.setdefault(peer.package, peer.title)
    packages["cuda"] = "CUDA"
    versions = [
        f"{name} {run.versions[key]}" for key, name in packages.items() if key in run.versions
    ]
    ceilings = run.ceilings
    peaks = [f"{flops / 1e12:.1f} TFLOP/s in {dtype}" for dtype, flops in ceilings.flops.items()]
    limits = [f"copies of {ceilings.copy / 1e12:.2f} TB/s", *peaks]
    return (
        f"{', '.join([run.place, *versions, run.date[:10]])}. "
        f"Ceilings measured in the same run: {', '.join(limits)}. "
        f"A kernel that does nothing shows {ceilings.empty_us:.1f} µs."
    )


NOTE = "<!-- Written by `make docs` from benchmarks/results; changes here are lost. -->"


def write_page(measured: MeasuredLadder, goldens: Mapping[str, GoldenPrograms]) -> str:
    """The page; `goldens` are the programs of each recipe's steps."""
    case, ladder = measured.case, measured.ladder
    parts = [
        NOTE,
        f"# The ladder `{ladder.name}`: {ladder.title}",
        f"At {spell_shape(case.shape)}, {case.dtype}. {describe_run(measured.run)}",
        "\n".join(f"- {reason}" for reason in find_reasons(case)),
        make_case_table(case, measured.run.ceilings, with_before=True).to_markdown(),
    ]
    if ladder.name == PICTURED:
        parts.append(f"![Bars: share of the ceiling by candidate]({PICTURED}.svg)")
    if measured.profile is not None:
        version, date = measured.profile["versions"].get("ncu", ""), measured.profile["date"][:10]
        parts.append(
            f"Counters are from NVIDIA's profiler ncu {version} on the same GPU, "
            f"{date}: one launch of each kernel, with caches cleared and clocks "
            "not locked, so its times differ from the table's. SM, memory (including caches and "
            "shared memory) and DRAM are percentages of their peaks. What warps wait for has ncu's "
            "names, and percentages of their time."
        )
    parts.append(
        f"Diffs are of the goldens, at {spell_shape(ladder[0].golden.shape)} and with small tiles, "
        "where rungs differ from their bases in the same knobs; `tirstep diff` prints diffs at any "
        "size and config."
    )
    before: GoldenPrograms | None = None
    for number, recipe in enumerate(ladder, 1):
        programs = goldens[recipe.name]
        if recipe.base is not None:
            before = goldens[recipe.base]
        parts += [f"## {number}. `{recipe.name}`", *_write_rung(measured, recipe, before, programs)]
        before = programs
    return "\n\n".join(filter(None, parts)) + "\n"


def _write_rung(
    measured: MeasuredLadder,
    recipe: Recipe,
    before: GoldenPrograms | None,
    programs: GoldenPrograms,
) -> Iterator[str]:
    """What a rung adds, its gain, its steps, its diff, and its counters."""
    added = f"Adds `{spell_config(recipe.delta)}` to `{recipe.base}`. " if recipe.base else ""
    yield added + first_sentence(recipe.doc)
    outcome, case = measured.get_outcome(recipe), measured.case
    if outcome is None:
        yield "Not measured in this run."
    elif outcome.time is None:
        yield f"No time: {outcome.status}: {outcome.note}"
    else:
        ratios = {
            name_base(case): get_bases(case)[outcome.candidate],
            "the first rung": get_first_rung(case),
            "PyTorch": "torch",
        }
        gains = [
            f"{format_ratio(value)}× {words}"
            for words, other in ratios.items()
            if other is not None and (value := speedup(case, outcome, other)) is not None
        ]
        rate = format_rate(case, outcome, measured.run.ceilings, unit=True)
        speed = f"; speed: {', '.join(gains)}" if gains else ""
        config = f" Config: `{spell_config(outcome.config)}`." if outcome.config else ""
        yield f"**{format_time(outcome)} µs**, {rate}{speed}.{config}"
    file = Path(inspect.getfile(recipe.body)).name
    earlier = () if before is None else before.steps
    new = ", ".join(f"`{step}`" for step in programs.steps if step not in earlier)
    gone = ", ".join(f"`{step}`" for step in earlier if step not in programs.steps)
    steps = (f"New steps: {new}" if new else "No new step") + (f"; gone: {gone}" if gone else "")
    where = f"[{file}](../../transforms/recipes/{file})"
    yield f"{steps}. Source: {where}, [goldens](../../tests/golden/{recipe.name})."
    yield write_diff(programs.kernel if before is None else before.last, programs.last)
    if measured.profile is None:
        return
    # With several tails, the fastest.
    found = find_profile(measured.profile, outcome.candidate if outcome else recipe.name)
    if found is None:
        yield f"Profiler: {NOTHING}, not profiled in this run."
    elif not found["kernels"]:
        yield f"Profiler: {NOTHING}, {found['note']}"
    else:
        yield make_counter_table(found).to_markdown()


GOLDENS = Path("tests", "golden")
PAGES = Path("docs", "ladders")
PICTURED = "matmul"
"""The ladder whose plot README shows; those of all runs are `plots`'."""


def make_pages(root: Path, results: Path) -> dict[Path, str]:
    """The text of each file of pages, of the ladders that a folder of results has measured, and
    the bars of the one that is pictured.

    `root` is the top of the repository. Raises `UseError` where a recipe's goldens are missing,
    `BenchError` for a file of results that is none.
    """
    texts = {}
    for it in find_ladders(results):
        goldens = {recipe.name: read_programs(root / GOLDENS, recipe) for recipe in it.ladder}
        texts[root / PAGES / f"{it.ladder.name}.md"] = write_page(it, goldens)
        if it.ladder.name == PICTURED:
            alone = dataclasses.replace(it.run, cases=(it.case,))
            bars = draw_bars(alone, it.case.suite, it.case.dtype)
            texts[root / PAGES / f"{PICTURED}.svg"] = bars
    return texts


def find_strays(root: Path, texts: dict[Path, str]) -> list[Path]:
    """Pages on the disk that no result makes."""
    files = sorted(file for file in (root / PAGES).glob("*") if file.suffix in (".md", ".svg"))
    return [file for file in files if file not in texts]
