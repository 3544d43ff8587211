"""``tirstep source``: what TVM generates of a step, and what each step changed in it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tirstep.lowering_checks import CheckError, Diff, Run
from tirstep.lowering_checks.compile.passes import Lowering, lower_through_passes
from tirstep.lowering_checks.diff import diff_texts
from tirstep.lowering_checks.steps import step_label
from tirstep.transforms.recipes import Step

from .diff import heading as diff_heading
from .documents import print_document, run_keys
from .screen import Screen
from .selection import pick_recipe, pick_step, run_wished
from .steps import heading
from .wishes import Wish

LEXERS = {"cuda": "cuda", "opencl": "c", "llvm": "llvm"}


@dataclass(frozen=True)
class _Lowered:
    step: Step
    lowering: Lowering


def print_source(
    name: str, wish: Wish, step_name: str | None, target: str, *, as_json: bool
) -> int:
    """Print the source of a step, by default of the last one; raises `CheckError` without one."""
    run = run_wished(pick_recipe(name), wish)
    step = run.steps[-1] if step_name is None else pick_step(run, step_name)
    screen = Screen()
    (one,) = _lower(screen, run, [step], target)
    if as_json:
        print_document(
            "source",
            **run_keys(run),
            step=step_label(step),
            target=target,
            language=one.lowering.language,
            text=_require_source(run, one),
        )
        return 0
    text = _require_source(run, one)
    if screen.is_terminal:
        screen.line(*heading(run, step))
    screen.program(text, LEXERS[one.lowering.language])
    return 0


def print_diffs(
    name: str, wish: Wish, step_name: str | None, target: str, *, context: int, as_json: bool
) -> int:
    """Print what each step changed in the source, or only one step.

    A step that has no source, since it is not bound yet, is passed over: the next one is compared
    with the last that has one.
    """
    run = run_wished(pick_recipe(name), wish)
    last = run.steps[-1] if step_name is None else pick_step(run, step_name)
    screen = Screen()
    lowered = _lower(screen, run, run.steps[: last.index + 1], target)
    if step_name is not None:
        _require_source(run, lowered[-1])
    sources = [one for one in lowered if one.lowering.source]
    pairs = list(itertools.pairwise(sources))
    if step_name is not None:
        pairs = pairs[-1:]
    if not pairs:
        raise CheckError(
            f"{run.recipe.name}: fewer than two steps have a source for {target}, so there is no "
            "diff; print it without --diff"
        )
    diffs = [_diff(run, before, after, context) for before, after in pairs]
    if as_json:
        print_document("source", **run_keys(run), target=target, diffs=_diff_keys(diffs))
        return 0
    for place, (diff, (_, after)) in enumerate(zip(diffs, pairs, strict=True)):
        if place:
            screen.line()
        screen.line(*diff_heading(diff, after.step))
        screen.diff(diff.lines)
    return 0


def _lower(screen: Screen, run: Run, steps: Sequence[Step], target: str) -> list[_Lowered]:
    lowered = []
    with screen.working():
        for step in steps:
            screen.doing(f"lowering {run.label(step)}")
            lowered.append(_Lowered(step, lower_through_passes(step.module, target)))
    return lowered


def _require_source(run: Run, one: _Lowered) -> str:
    source, reason = one.lowering.source.strip("\n"), one.lowering.failed
    if not source:
        why = reason or "no loop is bound to a GPU yet"
        raise CheckError(f"{run.label(one.step)} has no source for {one.lowering.target}: {why}")
    return f"{source}\n"


def _diff(run: Run, before: _Lowered, after: _Lowered, context: int) -> Diff:
    names = tuple(f"{run.recipe.name}/{step_label(one.step)}" for one in (before, after))
    texts = (_require_source(run, one) for one in (before, after))
    return diff_texts(*texts, names=(names[0], names[1]), context=context)


def _diff_keys(diffs: Sequence[Diff]) -> list[dict[str, object]]:
    return [
        {
            "before": diff.before,
            "after": diff.after,
            "added": diff.added,
            "removed": diff.removed,
            "diff": str(diff),
        }
        for diff in diffs
    ]
