"""``tirstep steps``: the TIR of each step, or its trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .request import RECIPE_OPTIONS, Request, flag, pick_step, run_each, with_options

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run


@with_options(*RECIPE_OPTIONS)
def command(
    *,
    recipe: str,
    request: Request,
    step: str | None,
    trace: bool = flag("--trace", "Print the schedule traces, as Python, instead of the TIR."),
    json: bool,
) -> int:
    """Print the TIR of each step of a recipe, as TVMScript."""

    def show(run: Run) -> int:
        from tirstep.lowering_checks import print_module

        from .formats import print_document, read_keys, run_keys
        from .screen import Screen, step_heading

        steps = run.steps if step is None else (pick_step(run, step),)
        if json:
            documents = [
                {
                    **read_keys(it, "number=index name source=location"),
                    "tir": print_module(it.module),
                    "trace": str(it.trace),
                }
                for it in steps
            ]
            print_document("steps", **run_keys(run), steps=documents)
            return 0
        screen = Screen()
        for place, shown in enumerate(steps):
            if place:
                screen.line()
            # Headings are comments of Python, so that in a pipe what is printed stays a program.
            screen.line(*step_heading(run, shown))
            screen.program(str(shown.trace) if trace else print_module(shown.module))
        return 0

    return run_each(recipe, request, show, as_json=json)
