"""A page for each ladder that was measured, ``docs/ladders/<ladder>.md``, and its plot: what each
rung changes (from the goldens), its gain, and what the profiler counted.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pages import spell_shape
from plots import draw_bars, find_runs
from profile_ladders import KernelProfile, ProfileRun, RecipeProfile, read_profile

from tirstep.bench.peers import PEERS
from tirstep.bench.results import BenchRun, Case, Outcome, read_run
from tirstep.bench.tables import (
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
from tirstep.cli.formatting import first_sentence, spell_config
from tirstep.cli.wrong_use import UseError
from tirstep.lowering_checks import Diff
from tirstep.lowering_checks.diff import diff_texts
from tirstep.lowering_checks.golden import INPUTS, GoldenStore, get_input_name
from tirstep.lowering_checks.steps import make_golden_problem
from tirstep.transforms.recipes import LADDERS, Ladder, Recipe


@dataclass(frozen=True)
class MeasuredLadder:
    """What a page is made of; `profile` is of the same kernel, shape, type and device."""

    ladder: Ladder
    run: BenchRun
    case: Case
    profile: ProfileRun | None

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
    shape; then the one that was profiled; then the newest run's first. Raises `BenchError` for a
    file that is no run or no profile.
    """
    runs = [read_run(file) for file in find_runs(folder)]
    profiles = [read_profile(file) for file in sorted(folder.glob("profile-*.json"))]
    found = []
    for ladder in LADDERS.values():
        measured = [
            MeasuredLadder(ladder, run, _narrow(case, ladder), _find_profile(profiles, run, case))
            for run in sorted(runs, key=lambda run: run.date, reverse=True)
            for case in run.cases
            if case.kernel == ladder.kernel
        ]
        found += sorted(filter(_has_both_ends, measured), key=_rank, reverse=True)[:1]
    return found


def _narrow(case: Case, ladder: Ladder) -> Case:
    """The case with the recipes of a ladder alone, beside the peers."""
    names = {recipe.name for recipe in ladder}
    outcomes = [
        outcome
        for outcome in case.outcomes
        if outcome.kind != "recipe" or outcome.candidate.split(" ")[0] in names
    ]
    return dataclasses.replace(case, outcomes=tuple(outcomes))


def _has_both_ends(measured: MeasuredLadder) -> bool:
    ends = [measured.get_outcome(recipe) for recipe in (measured.ladder[0], measured.ladder[-1])]
    return all(outcome is not None and outcome.time is not None for outcome in ends)


def _rank(measured: MeasuredLadder) -> tuple[int, bool, bool]:
    is_own_shape = dict(measured.case.shape) == dict(measured.ladder.shape)
    return _count_timed(measured), is_own_shape, measured.profile is not None


def _count_timed(measured: MeasuredLadder) -> int:
    outcomes = [measured.get_outcome(recipe) for recipe in measured.ladder]
    return sum(outcome is not None and outcome.time is not None for outcome in outcomes)


def _find_profile(profiles: Sequence[ProfileRun], run: BenchRun, case: Case) -> ProfileRun | None:
    """The profile of a case on its run's device: the one of most recipes, then the newest."""
    fitting = [
        profile
        for profile in profiles
        if (profile.kernel, dict(profile.shape), profile.dtype)
        == (case.kernel, dict(case.shape), case.dtype)
        and profile.device["name"] == run.device["name"]
    ]
    return max(fitting, key=lambda profile: (len(profile.recipes), profile.date), default=None)


LONGEST_SHOWN = 24
"""Lines of a diff that stand open on the page; longer ones are folded."""


@dataclass(frozen=True)
class GoldenPrograms:
    """The goldens of a recipe: the names of its steps in order, and texts of kernel and last step.

    `label` is that of the last step, ``03_decomposed``.
    """

    steps: tuple[str, ...]
    label: str
    kernel: str
    last: str


def read_programs(goldens: Path, recipe: Recipe) -> GoldenPrograms:
    """The goldens of a recipe; raises `UseError` where there are none."""
    kernel = goldens / INPUTS / get_input_name(make_golden_problem(recipe))
    labels = [*GoldenStore(goldens).read_digests(recipe.name)]
    if not labels or not kernel.is_file():
        folder = goldens / recipe.name
        raise UseError(f"{folder} has no goldens of {recipe.name}; write them: make golden")
    steps = tuple(label.split("_", 1)[1] for label in labels)
    files = kernel, goldens / recipe.name / f"{labels[-1]}.py"
    return GoldenPrograms(steps, labels[-1], *(it.read_text(encoding="utf-8") for it in files))


def make_diff(before: tuple[str, GoldenPrograms] | None, recipe: str, own: GoldenPrograms) -> Diff:
    """What a rung adds to the last step of the rung before; the first one, to the kernel."""
    named = f"{recipe}/{own.label}"
    if before is None:
        return diff_texts(own.kernel, own.last, names=(f"{recipe}/00_input", named))
    name, other = before
    return diff_texts(other.last, own.last, names=(f"{name}/{other.label}", named))


def write_diff(diff: Diff) -> str:
    """A diff in Markdown, folded if it is long."""
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


def make_counter_table(profile: RecipeProfile) -> Table:
    """A row for each kernel of a recipe."""
    header = ["kernel", "grid × block", "warps wait for", "µs", *COLUMNS]
    rows = [
        [
            f"`{kernel.name}`",
            f"{_extents(kernel.grid)} × {_extents(kernel.block)}",
            _name_stalls(kernel),
            f"{kernel.duration_us:,.1f}",
            *(_cell(kernel, *column) for column in COLUMNS.values()),
        ]
        for kernel in profile.kernels
    ]
    return Table(header, rows, len(header) - 3)


def _name_stalls(kernel: KernelProfile) -> str:
    """The two commonest states of a warp between instructions, in ncu's words."""
    stalls = {state: share for state, share in kernel.stalls.items() if state not in AT_WORK}
    first = sorted(stalls, key=lambda state: (-stalls[state], state))[:2]
    return ", ".join(f"{state} {100 * stalls[state]:.0f} %" for state in first) or NOTHING


def _extents(text: str) -> str:
    """``(16, 8, 1)`` as ``16×8``; one block or thread as ``1``."""
    extents = re.findall(r"\d+", text)
    while len(extents) > 1 and extents[-1] == "1":
        extents.pop()
    return f"({'×'.join(extents)})" if len(extents) > 1 else "".join(extents)


def _cell(kernel: KernelProfile, counter: str, form: str) -> str:
    value = kernel.counters.get(counter)
    return NOTHING if value is None else form.format(value)


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
    parts = [
        NOTE,
        f"# The ladder `{measured.ladder.name}`: {measured.ladder.title}",
        *_write_top(measured),
    ]
    before: tuple[str, GoldenPrograms] | None = None
    for number, recipe in enumerate(measured.ladder, 1):
        programs = goldens[recipe.name]
        if recipe.base is not None:
            before = recipe.base, goldens[recipe.base]
        parts.append(f"## {number}. `{recipe.name}`")
        parts += _write_rung(measured, recipe, before, programs)
        before = recipe.name, programs
    return "\n\n".join(parts) + "\n"


def draw_plot(measured: MeasuredLadder) -> str:
    """The bars of the case, an SVG."""
    alone = dataclasses.replace(measured.run, cases=(measured.case,))
    return draw_bars(alone, measured.case.suite, measured.case.dtype, all_recipes=True)


def _write_top(measured: MeasuredLadder) -> list[str]:
    case = measured.case
    shape = spell_shape(case.shape)
    table = make_case_table(case, measured.run.ceilings, with_before=True)
    parts = [
        f"At {shape}, {case.dtype}. {describe_run(measured.run)}",
        table.to_markdown(),
    ]
    if measured.ladder.name == PICTURED:
        parts.append(f"![Bars: share of the ceiling by candidate]({PICTURED}.svg)")
    if reasons := find_reasons(case):
        parts.insert(2, "\n".join(f"- {reason}" for reason in reasons))
    if measured.profile is not None:
        version = measured.profile.versions.get("ncu", "")
        parts.append(
            f"Counters are from NVIDIA's profiler ncu {version} on the same GPU, "
            f"{measured.profile.date[:10]}: one launch of each kernel, caches cleared, clocks as "
            "they are; so its times are not those of the table. SM, memory (caches and shared "
            "memory among it) and DRAM are shares of their peaks; what warps wait for is in ncu's "
            "words, and the share of their time."
        )
    example = spell_shape(measured.ladder[0].golden.shape)
    parts.append(
        f"Diffs are of the goldens, at {example} and with small tiles: a rung's config differs "
        "there, too, by its one knob; `tirstep diff` prints them at any size and config."
    )
    return parts


def _write_rung(
    measured: MeasuredLadder,
    recipe: Recipe,
    before: tuple[str, GoldenPrograms] | None,
    programs: GoldenPrograms,
) -> list[str]:
    file = Path(inspect.getfile(recipe.body)).name
    added = f"Adds `{spell_config(recipe.delta)}` to `{recipe.base}`. " if recipe.base else ""
    parts = [added + first_sentence(recipe.doc), _write_gain(measured, recipe)]
    earlier = () if before is None else before[1].steps
    new = ", ".join(f"`{step}`" for step in programs.steps if step not in earlier)
    gone = ", ".join(f"`{step}`" for step in earlier if step not in programs.steps)
    steps = f"New steps: {new}" if new else "No new step"
    steps += f"; gone: {gone}" if gone else ""
    where = f"[{file}](../../transforms/recipes/{file})"
    folder = f"[goldens](../../tests/golden/{recipe.name})"
    parts.append(f"{steps}. Source: {where}, {folder}.")
    diff = make_diff(before, recipe.name, programs)
    return [*parts, *([write_diff(diff)] if diff.lines else []), *_write_counters(measured, recipe)]


def _write_gain(measured: MeasuredLadder, recipe: Recipe) -> str:
    outcome = measured.get_outcome(recipe)
    if outcome is None:
        return "Not measured in this run."
    if outcome.time is None:
        return f"No time: {outcome.status}: {outcome.note}"
    case = measured.case
    rate = format_rate(case, outcome, measured.run.ceilings, unit=True)
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
    speed = f"; speed: {', '.join(gains)}" if gains else ""
    text = f"**{format_time(outcome)} µs**, {rate}{speed}."
    return f"{text} {_write_config(outcome)}".rstrip()


def _write_config(outcome: Outcome) -> str:
    return f"Config: `{spell_config(outcome.config)}`." if outcome.config else ""


def _write_counters(measured: MeasuredLadder, recipe: Recipe) -> list[str]:
    if measured.profile is None:
        return []
    outcome = measured.get_outcome(recipe)  # with several tails, the fastest
    found = measured.profile.find(outcome.candidate if outcome else recipe.name)
    if found is None:
        return [f"Profiler: {NOTHING}, not profiled in this run."]
    if not found.kernels:
        return [f"Profiler: {NOTHING}, {found.note}"]
    note = [f"But {found.note}."] if found.note else []
    return [make_counter_table(found).to_markdown(), *note]


GOLDENS = Path("tests", "golden")
PAGES = Path("docs", "ladders")
PICTURED = "matmul"
"""The ladder whose plot README shows; those of all runs are `plots`'."""


def make_pages(root: Path, results: Path) -> dict[Path, str]:
    """The text of each file of pages, of the ladders that a folder of results has measured.

    `root` is the top of the repository. Raises `UseError` where a recipe's goldens are missing,
    `BenchError` for a file of results that is none.
    """
    texts = {}
    for measured in find_ladders(results):
        goldens = {recipe.name: read_programs(root / GOLDENS, recipe) for recipe in measured.ladder}
        texts[root / PAGES / f"{measured.ladder.name}.md"] = write_page(measured, goldens)
        if measured.ladder.name == PICTURED:
            texts[root / PAGES / f"{PICTURED}.svg"] = draw_plot(measured)
    return texts


def find_strays(root: Path, texts: dict[Path, str]) -> list[Path]:
    """Pages on the disk that no result makes."""
    files = sorted(file for file in (root / PAGES).glob("*") if file.suffix in (".md", ".svg"))
    return [file for file in files if file not in texts]
