"""Tuning in this process: the builder and the runner of `tirstep.tuning` without processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import tvm

from tirstep.modules import AnyProblem
from tirstep.transforms.recipes import Recipe
from tirstep.tuning.candidates import CandidateBuilder, CandidateRunner
from tirstep.tuning.space import read_choices, read_fixed
from tirstep.tuning.tuner import TunePlan

LLVM = "llvm"


class InlineWorkers:
    """Calls at once what other workers call in a process."""

    limit = 60.0

    def __init__(self, *_: object) -> None:
        """Whatever other workers are made of."""

    def submit(self, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:  # as a process hands it over
            future.set_exception(error)
        return future

    def close(self) -> None:
        """There is nothing to end."""


def make_inline_builder(folder: Path) -> Any:
    return CandidateBuilder(folder, InlineWorkers())


def make_inline_runner(problem: AnyProblem, seed: int = 0) -> Any:
    return CandidateRunner(problem, InlineWorkers(), seed)


def make_plan(
    recipe: Recipe,
    problem: AnyProblem,
    *,
    trials: int,
    fixed: Mapping[str, object] | None = None,
    among: Mapping[str, tuple[object, ...]] | None = None,
    target: str = LLVM,
    seed: int = 0,
) -> TunePlan:
    """A plan for a target of TVM's by its name."""
    choices = read_choices(recipe, among or {}, fixed or {})
    goal = tvm.target.Target(target)
    fixed = read_fixed(recipe, choices, fixed or {})
    return TunePlan(recipe, problem, goal, fixed, choices, trials, seed)
