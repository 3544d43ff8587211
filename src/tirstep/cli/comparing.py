"""``tirstep diff --numbers``: two programs: TIR, structure, numbers and facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.comparison import compare_programs
from tirstep.lowering_checks.facts import get_facts
from tirstep.lowering_checks.steps import step_label

from .formatting import format_shape
from .json_output import print_document, read_keys, run_keys
from .judging import show_findings
from .request import Request
from .screen import Screen
from .tables import show_facts_table

if TYPE_CHECKING:
    from .diff import Place


def compare(
    pair: tuple[Place, Place], request: Request, context: int, target: str, *, as_json: bool
) -> int:
    """Compare two steps, and print what was found; 1 where the numbers of one are wrong.

    They are named by recipe and step; where these are one name, as of two versions of a file, with
    the files, too.
    """
    names = [f"{run.recipe.name}/{step_label(step)}" for run, step in pair]
    if names[0] == names[1]:
        names = [
            f"{letter}: {run.recipe.spelling or run.recipe.name}/{step_label(step)}"
            for letter, (run, step) in zip("AB", pair, strict=True)
        ]
    problem, screen = pair[0][0].problem, Screen()
    with screen.working():
        screen.doing("running both")
        found = compare_programs(
            problem,
            pair[0][1].module,
            pair[1][1].module,
            get_device(request.device),
            names=(names[0], names[1]),
            seed=request.seed,
            context=context,
        )
        screen.doing("lowering both")
        both = [get_facts(step.module, target, problem=run.problem) for run, step in pair]
    facts = {name: it.refusal or it.rows_to_compare() for name, it in zip(names, both, strict=True)}
    code = 0 if found.is_same else 1
    if as_json:
        parts = zip(pair, names, found.checked_on, found.findings, strict=True)
        about = "output=name changed size largest"
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
            differences=[read_keys(it, about) for it in found.differences],
            facts={
                name: {"refused": rows}
                if isinstance(rows, str)
                else {"facts": [fact._asdict() for fact in rows]}
                for name, rows in facts.items()
            },
        )
        return code
    shape = format_shape(problem.shape)
    screen.line((f"{names[0]} against {names[1]}", "bold"), (f"  {shape}" if shape else "", "dim"))
    screen.diff(found.diff.lines)
    screen.line()
    structure = f"+{found.diff.added} -{found.diff.removed} lines"
    if found.is_same_structure:
        structure = "the same, whatever the names"
    screen.line(("structure  ", "green"), structure, wrap=True)
    devices = " and ".join(dict.fromkeys(found.checked_on))
    apart = [
        f"{it.name} in {it.changed} of {it.size} elements, by at most {it.largest:.3g}"
        for it in found.differences
        if it.changed
    ]
    numbers = f"right on {devices}; rounded otherwise: {'; '.join(apart)}"
    if not found.is_same:
        numbers = f"wrong on {devices}"
    elif found.is_bitwise:
        numbers = f"the same to the bit, and right, on {devices}"
    screen.line(("numbers  ", "green" if found.is_same else "bold red"), numbers, wrap=True)
    findings = [finding for own in found.findings for finding in own]
    show_findings(screen, findings, apart=True)
    screen.line()
    told = {name: rows for name, rows in facts.items() if not isinstance(rows, str)}
    if told:
        screen.line((f"facts for {target}", "bold"))
        show_facts_table(screen, told)
    for name, rows in facts.items():
        if isinstance(rows, str):
            screen.line(("no facts  ", "dim"), f"{name}: {rows}", wrap=True)
    return code
