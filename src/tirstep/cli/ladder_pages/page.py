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

from ..texts import first_sentence, spell_config
from .changes import Program, find_added, find_diffs, write_diff
from .find import MeasuredLadder
from .words import describe_limit, make_counter_table

NOTE = "<!-- Written by `tirstep readme` from benchmarks/results; changes here are lost. -->"


def write_page(measured: MeasuredLadder, goldens: Mapping[str, Sequence[Program]]) -> str:
    """The page; `goldens` are the programs of each recipe's steps."""
    parts = [
        NOTE,
        f"# The ladder `{measured.ladder.name}`: {measured.ladder.title}",
        *_write_top(measured),
    ]
    before: tuple[str, Sequence[Program]] | None = None
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
    shape = case.shape_text.replace("x", "×")
    table = make_case_table(case, measured.run.ceilings, with_before=True)
    parts = [
        f"At {shape}, {case.dtype}. {describe(measured.run)}",
        to_markdown(table),
        f"![Bars: share of the ceiling by contender]({measured.ladder.name}.svg)",
    ]
    if reasons := find_reasons(case):
        parts.insert(2, "\n".join(f"- {reason}" for reason in reasons))
    if measured.profile is not None:
        version = measured.profile.versions.get("ncu", "")
        parts.append(
            f"Counters are from NVIDIA's profiler ncu {version} on the same GPU, "
            f"{measured.profile.date[:10]}: one launch of each kernel, caches cleared, clocks as "
            "they are; so its times are not those of the table. SM, memory (caches and shared "
            "memory among it) and DRAM are shares of their peaks."
        )
    example = "×".join(map(str, measured.ladder[0].golden.shape.values()))
    parts.append(
        f"Diffs are of the goldens, at {example} and with small tiles; `tirstep diff` prints them "
        "at any size."
    )
    return parts


def _write_rung(
    measured: MeasuredLadder,
    recipe: Recipe,
    before: tuple[str, Sequence[Program]] | None,
    programs: Sequence[Program],
) -> list[str]:
    file = Path(inspect.getfile(recipe.body)).name
    added = f"Adds `{spell_config(recipe.delta)}` to `{recipe.base}`. " if recipe.base else ""
    parts = [added + first_sentence(recipe.doc), _write_gain(measured, recipe)]
    earlier = [] if before is None else before[1]
    new = _name_steps(find_added(earlier, programs))
    gone = _name_steps(find_added(programs, earlier))
    steps = f"New steps: {new}" if new else "No new step"
    steps += f"; gone: {gone}" if gone else ""
    where = f"[{file}](../../transforms/recipes/{file})"
    folder = f"[goldens](../../tests/golden/{recipe.name})"
    parts.append(f"{steps}. Source: {where}, {folder}.")
    parts += [write_diff(diff) for diff in find_diffs(before, recipe.name, programs) if diff.lines]
    return [*parts, *_write_counters(measured, recipe)]


def _name_steps(programs: Sequence[Program]) -> str:
    return ", ".join(f"`{program.step}`" for program in programs if program.step != "input")


def _write_gain(measured: MeasuredLadder, recipe: Recipe) -> str:
    outcome = measured.find_outcome(recipe)
    if outcome is None:
        return "Not measured in this run."
    if outcome.time is None:
        return f"No time: {outcome.status}: {outcome.note}"
    case = measured.case
    rate = format_rate(case, outcome, measured.run.ceilings, unit=True)
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
    return f"{text} {_write_config(outcome)}".rstrip()


def _write_config(outcome: Outcome) -> str:
    return f"Config: `{spell_config(outcome.config)}`." if outcome.config else ""


def _write_counters(measured: MeasuredLadder, recipe: Recipe) -> list[str]:
    if measured.profile is None:
        return []
    outcome = measured.find_outcome(recipe)  # with several tails, the fastest
    found = measured.profile.find(outcome.contender if outcome else recipe.name)
    if found is None:
        return [f"Profiler: {NOTHING}, not profiled in this run."]
    if not found.kernels:
        return [f"Profiler: {NOTHING}, {found.note}"]
    limit = describe_limit(found, measured.profile)
    note = f"But {found.note}." if found.note else ""
    return [to_markdown(make_counter_table(found)), f"{limit} {note}".strip()]
