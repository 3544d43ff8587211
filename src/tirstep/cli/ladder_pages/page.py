"""The page of a ladder, in Markdown, from what was measured and from the goldens."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path

from tirstep.bench.figures import find_before, find_first_rung, speedup
from tirstep.bench.markdown import describe, to_markdown
from tirstep.bench.plots import draw_bars
from tirstep.bench.results import Outcome
from tirstep.bench.tables import (
    NOTHING,
    find_reasons,
    format_rate,
    format_ratio,
    format_time,
    make_case_table,
)
from tirstep.transforms.recipes import Recipe

from ..texts import first_sentence, spell
from .changes import Program, find_added, find_diffs, write_diff
from .find import Ladder
from .words import describe_limit, make_counter_table

NOTE = "<!-- Written by `tirstep readme` from benchmarks/results; changes here are lost. -->"


def write_page(ladder: Ladder, goldens: Mapping[str, Sequence[Program]]) -> str:
    """The page; `goldens` are the programs of each recipe's steps."""
    parts = [NOTE, f"# The ladder of `{ladder.kernel}`", *_write_top(ladder)]
    before: tuple[str, Sequence[Program]] | None = None
    for number, recipe in enumerate(ladder.recipes, 1):
        programs = goldens[recipe.name]
        parts.append(f"## {number}. `{recipe.name}`")
        parts += _write_rung(ladder, recipe, before, programs)
        before = recipe.name, programs
    return "\n\n".join(parts) + "\n"


def draw_plot(ladder: Ladder) -> str:
    """The bars of the case, an SVG."""
    alone = dataclasses.replace(ladder.run, cases=(ladder.case,))
    return draw_bars(alone, ladder.case.suite, ladder.case.dtype, all_recipes=True)


def _write_top(ladder: Ladder) -> list[str]:
    case = ladder.case
    shape = case.shape_text.replace("x", "×")
    table = make_case_table(case, ladder.run.ceilings, with_before=True)
    parts = [
        f"At {shape}, {case.dtype}. {describe(ladder.run)}",
        to_markdown(table),
        f"![Bars: share of the ceiling by contender]({ladder.kernel}.svg)",
    ]
    if reasons := find_reasons(case):
        parts.insert(2, "\n".join(f"- {reason}" for reason in reasons))
    if ladder.profile is not None:
        version = ladder.profile.versions.get("ncu", "")
        parts.append(
            f"Counters are from NVIDIA's profiler ncu {version} on the same GPU, "
            f"{ladder.profile.date[:10]}: one launch of each kernel, caches cleared, clocks as "
            "they are; so its times are not those of the table. SM, memory (caches and shared "
            "memory among it) and DRAM are shares of their peaks."
        )
    example = "×".join(map(str, ladder.recipes[0].golden.shape.values()))
    parts.append(
        f"Diffs are of the goldens, at {example} and with small tiles; `tirstep diff` prints them "
        "at any size."
    )
    return parts


def _write_rung(
    ladder: Ladder,
    recipe: Recipe,
    before: tuple[str, Sequence[Program]] | None,
    programs: Sequence[Program],
) -> list[str]:
    file = Path(inspect.getfile(recipe.body)).name
    parts = [first_sentence(recipe.doc), _write_gain(ladder, recipe)]
    earlier = [] if before is None else before[1]
    added = _name_steps(find_added(earlier, programs))
    gone = _name_steps(find_added(programs, earlier))
    steps = f"New steps: {added}" if added else "No new step"
    steps += f"; gone: {gone}" if gone else ""
    where = f"[{file}](../../transforms/recipes/{file})"
    folder = f"[goldens](../../tests/golden/{recipe.name})"
    parts.append(f"{steps}. Source: {where}, {folder}.")
    parts += [write_diff(diff) for diff in find_diffs(before, recipe.name, programs) if diff.lines]
    return [*parts, *_write_counters(ladder, recipe)]


def _name_steps(programs: Sequence[Program]) -> str:
    return ", ".join(f"`{program.step}`" for program in programs if program.step != "input")


def _write_gain(ladder: Ladder, recipe: Recipe) -> str:
    outcome = ladder.find_outcome(recipe)
    if outcome is None:
        return "Not measured in this run."
    if outcome.time is None:
        return f"No time: {outcome.status}: {outcome.note}"
    case = ladder.case
    rate = format_rate(case, outcome, ladder.run.ceilings, unit=True)
    ratios = {
        "the rung before": find_before(case, outcome),
        "the first rung": find_first_rung(case),
        "PyTorch": "torch",
    }
    gains = [
        f"{format_ratio(value)}× {words}"
        for words, other in ratios.items()
        if other is not None and (value := speedup(case, outcome, other)) is not None
    ]
    speed = f"; speed: {', '.join(gains)}" if gains else ""
    text = f"**{format_time(outcome)} µs**, {rate}{speed}."
    return f"{text} {_write_sizes(outcome)}".rstrip()


def _write_sizes(outcome: Outcome) -> str:
    sizes = [f"{name}={spell(value)}" for name, value in outcome.config.items()]
    return f"Sizes: `{' '.join(sizes)}`." if sizes else ""


def _write_counters(ladder: Ladder, recipe: Recipe) -> list[str]:
    if ladder.profile is None:
        return []
    outcome = ladder.find_outcome(recipe)  # with several tails, the fastest
    found = ladder.profile.find(outcome.contender if outcome else recipe.name)
    if found is None:
        return [f"Profiler: {NOTHING}, not profiled in this run."]
    if not found.kernels:
        return [f"Profiler: {NOTHING}, {found.note}"]
    limit = describe_limit(found, ladder.profile)
    note = f"But {found.note}." if found.note else ""
    return [to_markdown(make_counter_table(found)), f"{limit} {note}".strip()]
