"""Other runs of a recipe that ``tirstep check`` judged, as documents and as command lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .formatting import format_shape
from .request import Request, spell_command

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run, Verdict

    from .json_output import Document

RUNS = 6
"""How many other runs there are by default; those with open sizes are among so many."""


def other_keys(verdicts: Sequence[Verdict], request: Request) -> list[Document]:
    """OTHER of `json_output`, for each other run of a recipe."""
    from tirstep.lowering_checks.verdict import numbers_word

    from .json_output import run_keys

    return [
        {
            "about": verdict.about,
            **run_keys(verdict.run),
            "symbolic": list(verdict.run.problem.symbolic),
            "numbers": numbers_word([verdict]),
            "checked_on": verdict.checked_on,
            "repeat": spell_repeat(verdict.run, request),
        }
        for verdict in verdicts
    ]


def spell_repeat(run: Run, request: Request) -> str:
    """The command line that checks another run by itself; with open sizes, among the first."""
    device = "" if request.device == "auto" else f" --device {request.device}"
    if run.problem.symbolic:
        return f"{spell_command('check', run, request)}{device} --runs {RUNS}"
    words = spell_command("check", run, make_request_of(run, request))
    return f"{words}{device} --runs 0"


def make_request_of(run: Run, request: Request) -> Request:
    """The request of a run by its shape, in place of one that it was another run of."""
    example, problem = run.recipe.default_example, run.problem
    kernel = problem.kernel
    base = {**kernel.options, **example.options}
    types = {name: it for name, it in problem.options.items() if name == "dtype"}  # of some none
    chosen = {name: it for name, it in types.items() if it != base[name]}
    asked: dict[str, Any] = {**problem.shape, **example.options, **types}
    usual = kernel.problem(**asked).options
    chosen |= {name: it for name, it in problem.options.items() if it != usual[name]}
    config = {**run.recipe.config, **run.config}
    defaults = {**run.recipe.config, **example.config}
    return replace(
        request,
        shape=format_shape(problem.shape),
        options=chosen,
        config={name: it for name, it in config.items() if it != defaults[name]},
    )
