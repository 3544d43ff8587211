"""``tirstep facts``: what the GPU gets of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from tirstep.lowering_checks import Run, run_recipe
from tirstep.lowering_checks.facts import (
    ARCHITECTURES,
    CompiledFacts,
    Fact,
    Facts,
    compile_everywhere,
    find_compiler,
    find_facts,
)
from tirstep.lowering_checks.facts.architectures import find_architecture
from tirstep.lowering_checks.facts.compare import find_losses
from tirstep.lowering_checks.steps import step_label
from tirstep.modules import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Step

from .documents import Document, print_document, run_keys
from .screen import Screen
from .selection import format_shape, pick_recipe, pick_step, run_wished
from .wishes import Wish

TOLD_BY_TEXT = ("_loads", "_stores", "load_bytes", "store_bytes")
"""So end the keys of numbers that are in a row of text, too."""


@dataclass(frozen=True)
class _StepFacts:
    """The facts of a step, `notes` of what its shape loses, and what was compiled of it."""

    step: Step
    facts: Facts
    notes: Sequence[str]
    compiled: Sequence[CompiledFacts]


def find_architectures(names: Sequence[str], *, all_archs: bool) -> tuple[str, ...]:
    """The names of architectures that are asked for; an unknown one, or none to compile with, is
    refused.
    """
    wanted = tuple(ARCHITECTURES) if all_archs else tuple(dict.fromkeys(names))
    for name in wanted:
        find_architecture(name)
    if wanted:
        find_compiler()
    return wanted


def show_facts(
    name: str,
    wish: Wish,
    step_name: str | None,
    target: str,
    architectures: Sequence[str],
    *,
    as_json: bool,
) -> int:
    """Print the facts of the steps of a recipe, or of one of them."""
    run = run_wished(pick_recipe(name), wish, example="seed")
    steps = run.steps if step_name is None else (pick_step(run, step_name),)
    screen = Screen()
    reference = _run_reference(run, wish)
    found = []
    with screen.working():
        for step in steps:
            screen.doing(f"lowering {run.label(step)}")
            facts = find_facts(step.module, target, problem=run.problem)
            notes = _find_notes(facts, step, reference, target)
            compiled: Sequence[CompiledFacts] = ()
            if architectures and facts.refusal is None and facts.language == "cuda":
                screen.doing(f"compiling {run.label(step)}")
                compiled = compile_everywhere(facts, architectures)
            found.append(_StepFacts(step, facts, notes, compiled))
    if as_json:
        print_document("facts", **run_keys(run), target=target, steps=[_keys(o) for o in found])
    else:
        _print(screen, run, found)
    return 0


def _run_reference(run: Run, wish: Wish) -> Run | None:
    """The recipe at its tutorial's shape, with the sizes and options that are wished."""
    if wish.shape is None:
        return None
    recipe = run.recipe
    try:
        return run_recipe(
            recipe, recipe.seed.shape, options=run.problem.options, sizes=dict(run.sizes)
        )
    except (TransformError, KernelError):
        return None


def _find_notes(facts: Facts, step: Step, reference: Run | None, target: str) -> list[str]:
    twins = {} if reference is None else {one.name: one for one in reference.steps}
    if reference is None or step.name not in twins:
        return []
    theirs = find_facts(twins[step.name].module, target, problem=reference.problem)
    return find_losses(facts, theirs, place=f"at {format_shape(reference.problem.sizes)}")


def _print(screen: Screen, run: Run, found: Sequence[_StepFacts]) -> None:
    screen.line((run.recipe.name, "bold"), (f"  {format_shape(run.problem.sizes)}", "dim"))
    lowered = [one for one in found if one.facts.refusal is None]
    if lowered:
        screen.line()
        columns = {step_label(one.step): one.facts.rows() for one in lowered}
        screen.table(_make_table(columns))
    for one in lowered:
        if one.compiled:
            _print_compiled(screen, one)
    if len(lowered) < len(found) or any(one.notes for one in lowered):
        screen.line()
    for one in found:
        label = step_label(one.step)
        if one.facts.refusal is not None:
            screen.line(("no facts  ", "dim"), f"{label}: {one.facts.refusal}", wrap=True)
        for note in one.notes:
            screen.line(("note  ", "yellow"), f"{label}: {note}", wrap=True)


def _print_compiled(screen: Screen, one: _StepFacts) -> None:
    screen.line()
    compiler = one.compiled[0].compiler
    screen.line((step_label(one.step), "bold"), (f"  compiled by {compiler}", "dim"))
    ran = {each.architecture: each.rows() for each in one.compiled if each.refusal is None}
    if ran:
        screen.line()
        screen.table(_make_table(ran))
    for each in one.compiled:
        if each.refusal is not None:
            screen.line((f"{each.architecture}  ", "bold red"), each.refusal, wrap=True)


def _make_table(columns: Mapping[str, Sequence[Fact]]) -> Table:
    """A row for each fact of any column, by group, in the order in which they come."""
    groups: dict[str, dict[str, dict[str, Fact]]] = {}
    for heading, facts in columns.items():
        for fact in facts:
            name = f"{fact.name}, {fact.unit}" if fact.unit else fact.name
            groups.setdefault(fact.group, {}).setdefault(name, {})[heading] = fact
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for group, rows in groups.items():
        table.add_row(Text(group, "bold"))
        for name, cells in rows.items():
            if any(_is_worth_a_row(fact) for fact in cells.values()):
                table.add_row(f"  {name}", *(_format(cells.get(heading)) for heading in columns))
    return table


def _is_worth_a_row(fact: Fact) -> bool:
    """Zeros say nothing, but for spills; and ``2 × 16 B`` says what other rows say again."""
    return fact.key.startswith("spill") or bool(fact.value and not fact.key.endswith(TOLD_BY_TEXT))


def _format(fact: Fact | None) -> str:
    if fact is None:
        return ""
    if isinstance(fact.value, float):
        return f"{fact.value:.3g}"
    return f"{fact.value:,}" if isinstance(fact.value, int) else str(fact.value or "?")


def _keys(one: _StepFacts) -> Document:
    return {
        "number": one.step.index,
        "name": one.step.name,
        "source": one.step.source,
        "refused": one.facts.refusal,
        "notes": list(one.notes),
        "facts": [fact._asdict() for fact in one.facts.rows()] if one.facts.kernels else [],
        "compiled": [
            {
                "architecture": each.architecture,
                "compiler": each.compiler,
                "refused": each.refusal,
                "facts": [fact._asdict() for fact in each.rows()],
            }
            for each in one.compiled
        ],
    }
