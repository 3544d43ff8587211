"""``tirstep diff``: what each step changed, any two steps, or two programs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tirstep.printing import print_error

from .formatting import complete
from .request import (
    RECIPE_OPTIONS,
    Request,
    argument,
    do_tasks,
    flag,
    option,
    pick_each,
    pick_recipe,
    pick_step,
    run_each,
    run_requested,
    with_options,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run
    from tirstep.transforms.recipes import Recipe, Step

    Place = tuple[Run, Step]


@with_options("device", "seed", *RECIPE_OPTIONS, "format")
def command(
    *,
    recipe: str,
    request: Request,
    before: str | None = argument(
        "FROM", "A step, by name or number.", default=None, show_default=False
    ),
    after: str | None = argument(
        "TO", "Another step. [default: the last]", default=None, show_default=False
    ),
    against: str | None = option(
        "--against",
        "OTHER",
        "Diff with a step of another recipe or program.",
        autocompletion=complete("recipe"),
    ),
    step: str | None = option(
        "--step", "STEP", "With --against: RECIPE's step. [default: the last]"
    ),
    against_step: str | None = option(
        "--against-step", "STEP", "With --against: OTHER's step. [default: the last]"
    ),
    numbers: bool = flag(
        "--numbers",
        "With --against: compare structure, numbers and facts, too; --device, --seed and "
        "--target apply to it.",
    ),
    target: str,
    context: int,
    json: bool,
) -> int:
    """Print the diff of each step, of any two, or of two programs.

    The two steps may come from one recipe or from two; with two files of several programs, those
    of the same name are compared. In a pipe the output is a patch.

    With --numbers both programs run and are compared with one reference in float64: the NumPy
    reference of their common kernel, or else RECIPE's input. Exit code 1 if one of them is wrong, 2
    if one has no counterpart, 3 if one could not be judged.
    """
    if against is None and (step, against_step) != (None, None):
        raise UseError("--step and --against-step need --against; without it, give FROM and TO")
    if against is not None and (before, after) != (None, None):
        raise UseError("FROM and TO cannot be given with --against; give --step and --against-step")
    if numbers and against is None:
        raise UseError("--numbers compares two programs; give --against OTHER")
    if not numbers and (request.device, request.seed, target) != ("auto", 0, "cuda"):
        raise UseError("--device, --seed and --target need --numbers")
    if against is None:

        def show_own(run: Run) -> int:
            pairs = [
                ((run, it), (run, following)) for it, following in itertools.pairwise(run.steps)
            ]
            if before is not None:
                pairs = [((run, pick_step(run, before)), (run, pick_step(run, after)))]
            if not pairs:
                print_error(
                    f"{run.recipe.name} has no step but its input, so there is nothing to compare"
                )
            return _print_diffs(pairs, run, None, context, as_json=json)

        return run_each(recipe, request, show_own, as_json=json)

    def show_both(recipes: Sequence[Recipe]) -> int:
        if len(recipes) == 1:
            alone = recipes[0].spelling or recipes[0].name
            raise UseError(f"{alone} is only in one of {recipe} and {against}")
        run, other = (run_requested(it, request, among=recipes) for it in recipes)
        shape = dict(run.problem.shape)
        is_alike = list(shape) == list(other.problem.shape) and shape != dict(other.problem.shape)
        if numbers and request.shape is None and is_alike:  # at the first's shape
            text = ",".join(f"{name}={size}" for name, size in shape.items())
            other = run_requested(recipes[1], replace(request, shape=text), among=recipes)
        pair = ((run, pick_step(run, step)), (other, pick_step(other, against_step)))
        if not numbers:
            return _print_diffs([pair], run, against, context, as_json=json)
        return compare(pair, request, context, target, as_json=json)

    pairs = _pair_up(recipe, against, request)
    tasks = [(recipes[0].name, partial(show_both, recipes)) for recipes in pairs]
    return do_tasks(tasks, as_json=json)


def _print_diffs(
    pairs: Sequence[tuple[Place, Place]],
    run: Run,
    against: str | None,
    context: int,
    *,
    as_json: bool,
) -> int:
    """Print diffs that ``patch`` understands."""
    from tirstep.lowering_checks import diff_modules
    from tirstep.lowering_checks.steps import step_label

    from .formats import print_document, run_keys
    from .screen import Part, Screen, change_words, tell_place

    diffs = []
    for pair in pairs:
        first, second = (f"{of.recipe.name}/{step_label(step)}" for of, step in pair)
        before, after = (step.module for _, step in pair)
        diffs.append(diff_modules(before, after, names=(first, second), context=context))
    if as_json:
        print_document("diff", **run_keys(run), against=against, diffs=diffs)
        return 0
    screen = Screen()
    for place, (diff, (_, (_, step))) in enumerate(zip(diffs, pairs, strict=True)):
        if place:
            screen.line()
        # Several have a heading each, which patch skips.
        if screen.is_terminal or len(diffs) > 1:
            words: list[Part] = [("no difference", "dim")]
            if diff.lines:
                words = [*change_words(diff), tell_place(run.problem.shape_text, step)]
            screen.line((f"# {diff.before} → {diff.after}  ", "bold"), *words)
        screen.diff(diff.lines)
    return 0


def _pair_up(first: str, second: str, request: Request) -> list[tuple[Recipe, ...]]:
    """The pairs to compare: two recipes, or all that files and modules have, by their names or
    those of their functions. What only one of the two has is not compared.
    """
    ours, theirs = (pick_each(name, request) for name in (first, second))
    if len(ours) == 1 and len(theirs) == 1:
        return [(ours[0], theirs[0])]

    def get_function(recipe: Recipe) -> str:
        return str(getattr(recipe.kernel, "function_name", recipe.name))

    for get_key in (lambda it: it.name, get_function):
        known, others = ({get_key(it): it for it in found} for found in (ours, theirs))
        is_clear = len(known) == len(ours) and len(others) == len(theirs)
        if is_clear and known.keys() & others.keys():
            names = [*known, *(name for name in others if name not in known)]
            return [tuple(part[it] for part in (known, others) if it in part) for it in names]
    pick_recipe(first, request)
    pick_recipe(second, request)  # one of the two says what to name
    raise UseError(f"{first} and {second} have no program of the same name; name one of each")


def compare(
    pair: tuple[Place, Place], request: Request, context: int, target: str, *, as_json: bool
) -> int:
    """Compare two steps, and print what was found; the exit code.

    They are named by recipe and step; where these are one name, as of two versions of a file, with
    the files, too.
    """
    from tirstep.lowering_checks import get_device
    from tirstep.lowering_checks.comparison import compare_programs
    from tirstep.lowering_checks.facts import get_facts
    from tirstep.lowering_checks.judgement import get_exit_code
    from tirstep.lowering_checks.steps import step_label

    from .formats import print_document, read_keys, run_keys
    from .judging import show_findings
    from .screen import Screen, show_facts_table

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
    judged = found.judgements
    code = get_exit_code((each.status for each in judged), strict=True)
    if as_json:
        parts = zip(pair, names, judged, strict=True)
        about = "output=name changed size largest"
        same = "diff same_structure=is_same_structure same_numbers=is_same same_bits=is_bitwise"
        print_document(
            "diff",
            programs=[
                {
                    **run_keys(run),
                    "step": step.name,
                    "name": name,
                    **read_keys(each, "numbers=status part reason checked_on=device"),
                    "findings": [it.at(it.location or step.location) for it in each.findings],
                }
                for (run, step), name, each in parts
            ],
            **read_keys(found, same),
            differences=[read_keys(it, about) for it in found.differences],
            facts={
                name: {"refused": rows}
                if isinstance(rows, str)
                else {"facts": [fact._asdict() for fact in rows]}
                for name, rows in facts.items()
            },
        )
        return code
    screen.title(f"{names[0]} against {names[1]}", problem.shape_text)
    screen.diff(found.diff.lines)
    screen.line()
    structure = f"+{found.diff.added} -{found.diff.removed} lines"
    if found.is_same_structure:
        structure = "the same up to names"
    screen.line(("structure  ", "green"), structure)
    devices = " and ".join(dict.fromkeys(each.device for each in judged if each.device))
    apart = [
        f"{it.name} in {it.changed} of {it.size} elements, by at most {it.largest:.3g}"
        for it in found.differences
        if it.changed
    ]
    numbers = f"right on {devices}; rounded differently: {'; '.join(apart)}"
    if found.is_same and found.is_bitwise:
        numbers = f"bitwise equal, and right, on {devices}"
    elif not found.is_same:
        numbers = ", ".join(f"{name} {it.status}" for name, it in zip(names, judged, strict=True))
        numbers += f", on {devices}" if devices else ""
    style = {0: "green", 1: "bold red", 3: "yellow"}[code]
    screen.line(("numbers  ", style), numbers)
    for reason in dict.fromkeys(it.reason for it in judged if it.reason):
        screen.line(("why      ", "dim"), reason)
    findings = [finding for own in judged for finding in own.findings]
    show_findings(screen, findings, apart=True)
    screen.line()
    told = {name: rows for name, rows in facts.items() if not isinstance(rows, str)}
    if told:
        screen.line((f"facts for {target}", "bold"))
        show_facts_table(screen, told)
    for name, rows in facts.items():
        if isinstance(rows, str):
            screen.line(("no facts  ", "dim"), f"{name}: {rows}")
    return code
