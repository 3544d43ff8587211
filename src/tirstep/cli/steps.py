"""``tirstep steps``: the TIR of each step, or its trace."""

from __future__ import annotations

from tirstep.lowering_checks import Run, print_module
from tirstep.lowering_checks.steps import step_label
from tirstep.transforms.recipes import Step

from .documents import print_document, run_keys
from .screen import Part, Screen
from .selection import pick_recipe, pick_step, run_wished
from .wishes import Wish


def print_steps(name: str, wish: Wish, *, only: str | None, as_trace: bool, as_json: bool) -> int:
    """Print the steps of a recipe, or only one of them.

    Headings are comments of Python, so that in a pipe what is printed stays a program.
    """
    run = run_wished(pick_recipe(name), wish)
    steps = run.steps if only is None else (pick_step(run, only),)
    if as_json:
        print_document("steps", **run_keys(run), steps=[_step_keys(step) for step in steps])
        return 0
    screen = Screen()
    for number, step in enumerate(steps):
        if number:
            screen.line()
        screen.line(*heading(run, step))
        screen.program(str(step.trace) if as_trace else print_module(step.module))
    return 0


def heading(run: Run, step: Step) -> list[Part]:
    """The line above a step: its recipe, number and name, and the recipe's source line."""
    return [
        (f"# {run.recipe.name} ", "bold"),
        (step_label(step), "bold cyan"),
        (f"  {step.location}", "dim"),
    ]


def _step_keys(step: Step) -> dict[str, object]:
    return {
        "number": step.index,
        "name": step.name,
        "source": step.location,
        "tir": print_module(step.module),
        "trace": str(step.trace),
    }
