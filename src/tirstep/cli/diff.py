"""``tirstep diff``: what each step changed, or the diff of any two steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .names import complete_recipe
from .request import (
    Config,
    Context,
    Dtype,
    FunctionName,
    Json,
    KernelOptions,
    RecipeName,
    Request,
    Shape,
    do_each,
    make_request,
    pick_recipe,
    pick_step,
    run_requested,
)
from .streams import print_error
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Diff, Run
    from tirstep.transforms.recipes import Recipe, Step

    Place = tuple[Run, Step]

Before = Annotated[
    str | None,
    typer.Argument(metavar="FROM", show_default=False, help="A step, by name or number."),
]
After = Annotated[
    str | None,
    typer.Argument(metavar="TO", show_default=False, help="Another. [default: the last]"),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="OTHER",
        help="Diff with a step of another recipe.",
        autocompletion=complete_recipe,
    ),
]
OwnStep = Annotated[
    str | None,
    typer.Option(
        "--step", metavar="STEP", help="With --against: RECIPE's step. [default: the last]"
    ),
]
OtherStep = Annotated[
    str | None,
    typer.Option(
        "--against-step", metavar="STEP", help="With --against: OTHER's step. [default: the last]"
    ),
]


def command(
    recipe: RecipeName,
    before: Before = None,
    after: After = None,
    against: Against = None,
    step: OwnStep = None,
    against_step: OtherStep = None,
    context: Context = 3,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    function: FunctionName = None,
    json: Json = False,
) -> int:
    """Print the diff of each step, or of any two steps.

    Both steps may be of one recipe, or of two. What is printed in a pipe is what patch reads.
    """
    if against is None and (step, against_step) != (None, None):
        raise UseError("--step and --against-step go with --against; without it, give FROM and TO")
    if against is not None and (before, after) != (None, None):
        raise UseError("FROM and TO go without --against; with it, give --step and --against-step")
    request = make_request(shape, dtype, option, config, function=function)
    if against is not None:
        pairs = [_pair_recipes(recipe, against, (step, against_step), request)]
        return _print_diffs(pairs, against, context, run=pairs[0][0][0], as_json=json)

    def print_own(picked: Recipe) -> int:
        run = run_requested(picked, request)
        own = _pair_steps(run, before, after)
        if not own:
            print_error(f"{picked.name} has no step but its input, so there is nothing to compare")
        return _print_diffs(own, None, context, run=run, as_json=json)

    return do_each(recipe, request, print_own, as_json=json)


def _print_diffs(
    pairs: Sequence[tuple[Place, Place]],
    against: str | None,
    context: int,
    *,
    run: Run,
    as_json: bool,
) -> int:
    """Print diffs that ``patch`` understands."""
    from .json_output import diff_keys, print_document, run_keys
    from .screen import Screen, diff_heading

    diffs = [_diff(*pair, context) for pair in pairs]
    if as_json:
        keys = [diff_keys(diff) for diff in diffs]
        print_document("diff", **run_keys(run), against=against, diffs=keys)
        return 0
    screen = Screen()
    for number, ((_, (_, last)), diff) in enumerate(zip(pairs, diffs, strict=True)):
        if number:
            screen.line()
        if screen.is_terminal or len(diffs) > 1:  # several have a heading each, which patch skips
            screen.line(*diff_heading(diff, last))
        screen.diff(diff.lines)
    return 0


def _pair_recipes(
    recipe: str, against: str, steps: tuple[str | None, str | None], request: Request
) -> tuple[Place, Place]:
    """A step of each of two recipes, by default the last."""
    recipes = [pick_recipe(recipe, request), pick_recipe(against, request)]
    first, second = (run_requested(picked, request, among=recipes) for picked in recipes)
    return _place(first, steps[0]), _place(second, steps[1])


def _pair_steps(run: Run, before: str | None, after: str | None) -> list[tuple[Place, Place]]:
    """Two steps of a run, or all neighbours."""
    if before is not None:
        return [(_place(run, before), _place(run, after))]
    return [((run, step), (run, following)) for step, following in itertools.pairwise(run.steps)]


def _place(run: Run, step: str | None) -> Place:
    return run, run.steps[-1] if step is None else pick_step(run, step)


def _diff(before: Place, after: Place, context: int) -> Diff:
    from tirstep.lowering_checks import diff_modules
    from tirstep.lowering_checks.steps import step_label

    names = tuple(f"{run.recipe.name}/{step_label(step)}" for run, step in (before, after))
    return diff_modules(
        before[1].module, after[1].module, names=(names[0], names[1]), context=context
    )
