"""``tirstep diff``: what each step changed, or the diff of any two steps."""

from __future__ import annotations

from collections.abc import Iterator

from tirstep.lowering_checks import Diff, Run, diff_modules
from tirstep.lowering_checks.steps import step_label
from tirstep.transforms.recipes import Step

from .documents import Document, print_document, run_keys
from .screen import Part, Screen
from .selection import pick_recipe, pick_step, run_wished
from .wishes import Pair, Wish

Place = tuple[Run, Step]


def print_diffs(pair: Pair, wish: Wish, *, context: int, as_json: bool) -> int:
    """Print diffs that ``patch`` understands; several have a heading each, which it skips."""
    run = None if pair.against is not None else run_wished(pick_recipe(pair.recipe), wish)
    places = list(_neighbours(run)) if run and pair.before is None else [_places(pair, wish, run)]
    diffs = [_diff(before, after, context) for before, after in places]
    if as_json:
        _print_document(pair, places[0][0][0], diffs)
        return 0
    screen = Screen()
    for number, ((_, (_, step)), diff) in enumerate(zip(places, diffs, strict=True)):
        if number:
            screen.line()
        if screen.is_terminal or len(diffs) > 1:
            screen.line(*heading(diff, step))
        screen.diff(diff.lines)
    return 0


def heading(diff: Diff, step: Step) -> list[Part]:
    """The line above a diff: its steps, the lines it adds and removes, the recipe's source line."""
    steps = (f"# {diff.before} → {diff.after}  ", "bold")
    if not diff.lines:
        return [steps, ("no difference", "dim")]
    return [steps, *change_words(diff), (f"  {step.location}", "dim")]


def change_words(diff: Diff | None) -> list[Part]:
    """``+12 −3``; nothing where there is nothing to compare with."""
    if diff is None:
        return []
    return [(f"+{diff.added}", "green"), (f" −{diff.removed}", "red")]


def _neighbours(run: Run) -> Iterator[tuple[Place, Place]]:
    for before, after in zip(run.steps, run.steps[1:], strict=False):
        yield (run, before), (run, after)


def _places(pair: Pair, wish: Wish, run: Run | None) -> tuple[Place, Place]:
    if run is not None:
        return _place(run, pair.before), _place(run, pair.after)
    recipes = [pick_recipe(pair.recipe), pick_recipe(str(pair.against))]
    first, second = (run_wished(recipe, wish, among=recipes) for recipe in recipes)
    return _place(first, pair.before), _place(second, pair.after)


def _place(run: Run, step: str | None) -> Place:
    return run, run.steps[-1] if step is None else pick_step(run, step)


def _diff(before: Place, after: Place, context: int) -> Diff:
    names = (_name(*before), _name(*after))
    return diff_modules(before[1].module, after[1].module, names=names, context=context)


def _name(run: Run, step: Step) -> str:
    return f"{run.recipe.name}/{step_label(step)}"


def _print_document(pair: Pair, run: Run, diffs: list[Diff]) -> None:
    keys = [_diff_keys(diff) for diff in diffs]
    print_document("diff", **run_keys(run), against=pair.against, diffs=keys)


def _diff_keys(diff: Diff) -> Document:
    return {
        "before": diff.before,
        "after": diff.after,
        "added": diff.added,
        "removed": diff.removed,
        "diff": str(diff),
    }
