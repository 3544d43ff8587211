"""``tirstep diff --numbers``: two programs: TIR, structure, numbers and facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.comparison import Comparison, compare_programs
from tirstep.lowering_checks.facts import Fact, compile_everywhere, get_facts
from tirstep.lowering_checks.steps import step_label

from .formatting import format_shape
from .json_output import print_document, read_keys, run_keys
from .judging import show_findings
from .request import Request
from .screen import Screen
from .tables import show_facts_table

if TYPE_CHECKING:
    from .diff import Place

FactsOfBoth = dict[str, Sequence[Fact] | str]
"""The facts of both by name, or why there are none."""


def compare(
    pair: tuple[Place, Place],
    request: Request,
    context: int,
    target: str,
    architectures: Sequence[str],
    *,
    as_json: bool,
) -> int:
    """Compare two steps, and print what was found; 1 where the numbers of one are wrong."""
    names = _name_both(pair)
    screen = Screen()
    with screen.working():
        screen.doing("running both")
        found = compare_programs(
            pair[0][0].problem,
            pair[0][1].module,
            pair[1][1].module,
            get_device(request.device),
            names=names,
            seed=request.seed,
            context=context,
        )
        screen.doing("lowering both")
        facts = _list_facts(pair, names, target, architectures)
    if as_json:
        _print_keys(pair, names, found, facts)
    else:
        heading = (f"{names[0]} against {names[1]}", "bold")
        shape = format_shape(pair[0][0].problem.shape)
        screen.line(heading, (f"  {shape}" if shape else "", "dim"))
        _show(screen, found, facts)
    return 0 if found.is_same else 1


def _name_both(pair: tuple[Place, Place]) -> tuple[str, str]:
    """The recipes with their steps; where these are one name, as of two versions of a file, with
    the files, too.
    """
    labels = [step_label(step) for _, step in pair]
    first, second = (
        f"{run.recipe.name}/{label}" for (run, _), label in zip(pair, labels, strict=True)
    )
    if first == second:
        first, second = (
            f"{letter}: {run.recipe.spelling or run.recipe.name}/{label}"
            for letter, (run, _), label in zip("AB", pair, labels, strict=True)
        )
    return first, second


def _list_facts(
    pair: tuple[Place, Place], names: tuple[str, str], target: str, architectures: Sequence[str]
) -> dict[str, FactsOfBoth]:
    """The facts of both, by what they are of: the lowering, or an architecture."""
    found = [get_facts(step.module, target, problem=run.problem) for run, step in pair]
    of_both = list(zip(names, found, strict=True))
    tables: dict[str, FactsOfBoth] = {
        target: {name: facts.refusal or facts.rows_to_compare() for name, facts in of_both}
    }
    for name, facts in of_both:
        if facts.refusal is None and facts.language == "cuda":
            for compiled in compile_everywhere(facts, architectures):
                rows = compiled.refusal or compiled.rows()
                tables.setdefault(compiled.architecture, {})[name] = rows
    return tables


def _print_keys(
    pair: tuple[Place, Place],
    names: tuple[str, str],
    found: Comparison,
    tables: dict[str, FactsOfBoth],
) -> None:
    parts = zip(pair, names, found.checked_on, found.findings, strict=True)
    print_document(
        "diff",
        programs=[
            {
                **run_keys(run),
                "step": step.name,
                "name": name,
                "checked_on": device,
                "findings": findings,
            }
            for (run, step), name, device, findings in parts
        ],
        diff=found.diff,
        same_structure=found.is_same_structure,
        same_numbers=found.is_same,
        same_bits=found.is_bitwise,
        differences=[read_keys(it, "output=name changed size largest") for it in found.differences],
        facts={
            table: {
                name: {"refused": rows}
                if isinstance(rows, str)
                else {"facts": [fact._asdict() for fact in rows]}
                for name, rows in columns.items()
            }
            for table, columns in tables.items()
        },
    )


def _show(screen: Screen, found: Comparison, tables: dict[str, FactsOfBoth]) -> None:
    screen.diff(found.diff.lines)
    screen.line()
    for word, is_good, sentence in _list_words(found):
        screen.line((f"{word}  ", "green" if is_good else "bold red"), sentence, wrap=True)
    findings = [finding for own in found.findings for finding in own]
    if findings:
        screen.line()
        show_findings(screen, findings)
    for table, columns in tables.items():
        screen.line()
        told = {name: rows for name, rows in columns.items() if not isinstance(rows, str)}
        if told:
            screen.line((f"facts for {table}", "bold"))
            show_facts_table(screen, told)
        for name, rows in columns.items():
            if isinstance(rows, str):
                screen.line(("no facts  ", "dim"), f"{name}: {rows}", wrap=True)


def _list_words(found: Comparison) -> Iterator[tuple[str, bool, str]]:
    """What is to be said of structure and numbers: a word, whether it is good, and a sentence."""
    structure = f"+{found.diff.added} -{found.diff.removed} lines"
    yield (
        "structure",
        True,
        ("the same, whatever the names" if found.is_same_structure else structure),
    )
    devices = " and ".join(dict.fromkeys(found.checked_on))
    if not found.is_same:
        yield "numbers", False, f"wrong on {devices}"
    elif found.is_bitwise:
        yield "numbers", True, f"the same to the bit, and right, on {devices}"
    else:
        apart = [
            f"{it.name} in {it.changed} of {it.size} elements, by at most {it.largest:.3g}"
            for it in found.differences
            if it.changed
        ]
        yield "numbers", True, f"right on {devices}; rounded otherwise: {'; '.join(apart)}"
