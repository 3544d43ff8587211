"""``tirstep compare``: two programs, or two schedules of one: TIR, structure, numbers and facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from .facts import choose_architectures
from .formatting import format_shape
from .names import complete_recipe
from .request import (
    PROGRAMS,
    Config,
    Context,
    DeviceName,
    Dtype,
    FunctionName,
    Json,
    KernelOptions,
    Request,
    Seed,
    Shape,
    TargetName,
    do_tasks,
    make_request,
    pick_each,
    pick_recipe,
    pick_step,
    run_requested,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run
    from tirstep.lowering_checks.comparison import Comparison
    from tirstep.lowering_checks.facts import Fact
    from tirstep.transforms.recipes import Recipe, Step

    from .screen import Screen

First = Annotated[
    str,
    typer.Argument(metavar="A", help=f"A recipe, {PROGRAMS}", autocompletion=complete_recipe),
]
Second = Annotated[
    str, typer.Argument(metavar="B", help="Another.", autocompletion=complete_recipe)
]
FirstStep = Annotated[
    str | None, typer.Option("--step", metavar="STEP", help="A's step. [default: the last]")
]
SecondStep = Annotated[
    str | None,
    typer.Option("--against-step", metavar="STEP", help="B's step. [default: the last]"),
]
Architectures = Annotated[
    list[str] | None,
    typer.Option(
        "--arch",
        metavar="ARCH",
        help="Facts of machine code for this architecture too, such as sm_80; several times.",
    ),
]


def command(
    first: First,
    second: Second,
    step: FirstStep = None,
    against_step: SecondStep = None,
    device: DeviceName = "auto",
    seed: Seed = 0,
    target: TargetName = "cuda",
    arch: Architectures = None,
    context: Context = 3,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    function: FunctionName = None,
    json: Json = False,
) -> int:
    """Compare two programs: TIR, structure, numbers and facts.

    Both are held against one reference: the meaning of the kernel that they share, or else A's
    input, computed in float64. Several functions or recipes are compared name by name. Exit code 1
    where the numbers of one of them are wrong, and 2 where one has no counterpart.
    """
    request = make_request(shape, dtype, option, config, None, device, seed, function=function)
    architectures = choose_architectures(arch or [], all_archs=False)

    def do(recipes: Sequence[Recipe]) -> int:
        _require_both(recipes, first, second)
        runs = _run_both(recipes, request)
        steps = [
            run.steps[-1] if name is None else pick_step(run, name)
            for run, name in zip(runs, (step, against_step), strict=True)
        ]
        pair = _Pair((runs[0], runs[1]), (steps[0], steps[1]))
        return pair.show(request, context, (target, architectures), as_json=json)

    pairs = _pair_up(first, second, request)
    if len(pairs) == 1:
        return do(pairs[0])
    return do_tasks([(recipes[0].name, partial(do, recipes)) for recipes in pairs], as_json=json)


def _pair_up(first: str, second: str, request: Request) -> list[tuple[Recipe, ...]]:
    """What is to be compared: two recipes, or all that files and modules have, by their names or
    those of their functions. What only one of the two has stands alone.
    """
    ours, theirs = (pick_each(name, request) for name in (first, second))
    if len(ours) == 1 and len(theirs) == 1:
        return [(ours[0], theirs[0])]
    for get_key in (lambda it: it.name, _get_function):
        known, others = ({get_key(it): it for it in found} for found in (ours, theirs))
        is_clear = len(known) == len(ours) and len(others) == len(theirs)
        if is_clear and known.keys() & others.keys():
            names = [*known, *(name for name in others if name not in known)]
            return [tuple(part[it] for part in (known, others) if it in part) for it in names]
    pick_recipe(first, request)
    pick_recipe(second, request)  # one of the two says what to name
    raise UseError(f"{first} and {second} have no program of the same name; name one of each")


def _get_function(recipe: Recipe) -> str:
    """The function of a module that a recipe is of; of a kernel, the recipe's own name."""
    return str(getattr(recipe.kernel, "function_name", recipe.name))


def _require_both(recipes: Sequence[Recipe], first: str, second: str) -> None:
    if len(recipes) == 1:
        recipe = recipes[0]
        raise UseError(f"{recipe.spelling or recipe.name} is in one of {first} and {second} alone")


def _run_both(recipes: Sequence[Recipe], request: Request) -> tuple[Run, Run]:
    """Both recipes as requested; the second at the first's shape, where that has another one."""
    run, other = (run_requested(recipe, request, among=recipes) for recipe in recipes)
    shape = run.problem.shape
    is_alike = list(shape) == list(other.problem.shape)
    if request.shape is None and is_alike and dict(shape) != dict(other.problem.shape):
        text = ",".join(f"{name}={size}" for name, size in shape.items())
        other = run_requested(recipes[1], replace(request, shape=text), among=recipes)
    return run, other


class _Pair:
    """Two steps that are compared."""

    def __init__(self, runs: tuple[Run, Run], steps: tuple[Step, Step]) -> None:
        from tirstep.lowering_checks.steps import step_label

        self.runs, self.steps = runs, steps
        labels = [step_label(step) for step in steps]
        first, second = (
            f"{run.recipe.name}/{label}" for run, label in zip(runs, labels, strict=True)
        )
        if first == second:  # as two versions of a file
            first, second = (
                f"{letter}: {run.recipe.spelling or run.recipe.name}/{label}"
                for letter, run, label in zip("AB", runs, labels, strict=True)
            )
        self.names = (first, second)

    def show(
        self,
        request: Request,
        context: int,
        wanted: tuple[str, Sequence[str]],
        *,
        as_json: bool,
    ) -> int:
        """Compare, and print what was found."""
        from tirstep.lowering_checks import get_device
        from tirstep.lowering_checks.comparison import compare_programs

        from .screen import Screen

        screen = Screen()
        with screen.working():
            screen.doing("running both")
            comparison = compare_programs(
                self.runs[0].problem,
                self.steps[0].module,
                self.steps[1].module,
                get_device(request.device),
                names=self.names,
                seed=request.seed,
                context=context,
            )
            screen.doing("lowering both")
            facts = self._list_facts(*wanted)
        if as_json:
            self._print_keys(comparison, facts)
        else:
            _show(screen, self, comparison, facts)
        return 0 if comparison.is_same else 1

    def _list_facts(self, target: str, architectures: Sequence[str]) -> dict[str, _FactsOfBoth]:
        """The facts of both, by what they are of: the lowering, or an architecture."""
        from tirstep.lowering_checks.facts import compile_everywhere, get_facts

        found = [
            get_facts(step.module, target, problem=run.problem)
            for run, step in zip(self.runs, self.steps, strict=True)
        ]
        tables: dict[str, _FactsOfBoth] = {
            target: {
                name: facts.refusal or facts.rows_to_compare()
                for name, facts in zip(self.names, found, strict=True)
            }
        }
        for name, facts in zip(self.names, found, strict=True):
            if facts.refusal is None and facts.language == "cuda":
                for compiled in compile_everywhere(facts, architectures):
                    rows = compiled.refusal or compiled.rows()
                    tables.setdefault(compiled.architecture, {})[name] = rows
        return tables

    def _print_keys(self, comparison: Comparison, facts: dict[str, _FactsOfBoth]) -> None:
        from .json_output import diff_keys, finding_keys, print_document, run_keys

        print_document(
            "compare",
            programs=[
                {
                    **run_keys(run),
                    "step": step.name,
                    "name": name,
                    "checked_on": device,
                    "findings": [finding_keys(finding) for finding in findings],
                }
                for run, step, name, device, findings in zip(
                    self.runs,
                    self.steps,
                    self.names,
                    comparison.checked_on,
                    comparison.findings,
                    strict=True,
                )
            ],
            diff=diff_keys(comparison.diff),
            same_structure=comparison.is_same_structure,
            same_numbers=comparison.is_same,
            same_bits=comparison.is_bitwise,
            differences=[
                {"output": it.name, "changed": it.changed, "size": it.size, "largest": it.largest}
                for it in comparison.differences
            ],
            facts={table: _facts_keys(columns) for table, columns in facts.items()},
        )


_FactsOfBoth = dict[str, "Sequence[Fact] | str"]
"""The facts of both by name, or why there are none."""


def _facts_keys(columns: _FactsOfBoth) -> dict[str, object]:
    return {
        name: {"refused": rows}
        if isinstance(rows, str)
        else {"facts": [fact._asdict() for fact in rows]}
        for name, rows in columns.items()
    }


def _show(
    screen: Screen, pair: _Pair, comparison: Comparison, facts: dict[str, _FactsOfBoth]
) -> None:
    from .judging import show_findings
    from .tables import show_facts_table

    shape = format_shape(pair.runs[0].problem.shape)
    heading = (f"{pair.names[0]} against {pair.names[1]}", "bold")
    screen.line(heading, (f"  {shape}" if shape else "", "dim"))
    screen.diff(comparison.diff.lines)
    screen.line()
    for word, is_good, sentence in _list_words(comparison):
        screen.line((f"{word}  ", "green" if is_good else "bold red"), sentence, wrap=True)
    findings = [finding for own in comparison.findings for finding in own]
    if findings:
        screen.line()
        show_findings(screen, findings)
    for table, columns in facts.items():
        screen.line()
        told = {name: rows for name, rows in columns.items() if not isinstance(rows, str)}
        if told:
            screen.line((f"facts for {table}", "bold"))
            show_facts_table(screen, told)
        for name, rows in columns.items():
            if isinstance(rows, str):
                screen.line(("no facts  ", "dim"), f"{name}: {rows}", wrap=True)


def _list_words(comparison: Comparison) -> list[tuple[str, bool, str]]:
    """What is to be said of structure and numbers: a word, whether it is good, and a sentence."""
    structure = (
        "the same, whatever the names"
        if comparison.is_same_structure
        else f"+{comparison.diff.added} -{comparison.diff.removed} lines"
    )
    devices = " and ".join(dict.fromkeys(comparison.checked_on))
    if not comparison.is_same:
        return [("structure", True, structure), ("numbers", False, f"wrong on {devices}")]
    if comparison.is_bitwise:
        numbers = f"the same to the bit, and right, on {devices}"
    else:
        apart = [
            f"{it.name} in {it.changed} of {it.size} elements, by at most {it.largest:.3g}"
            for it in comparison.differences
            if it.changed
        ]
        numbers = f"right on {devices}; rounded otherwise: {'; '.join(apart)}"
    return [("structure", True, structure), ("numbers", True, numbers)]
