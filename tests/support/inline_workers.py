"""Tuning in this process: the candidates of `tirstep.tuning` without processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import tvm

from tirstep.bench.search import SearchPlan
from tirstep.modules import AnyProblem
from tirstep.transforms.recipes import Recipe
from tirstep.tuning.candidates import Candidates
from tirstep.tuning.tuner import TunePlan
from tirstep.tuning.tuner import make_plan as make_tune_plan

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


def make_inline_candidates(problem: AnyProblem, folder: Path, workers: Any = None) -> Any:
    workers = workers or InlineWorkers()
    return Candidates(problem, 0, folder, workers, workers)


def make_plan(
    recipe: Recipe,
    problem: AnyProblem,
    *,
    trials: int = 4,
    fixed: Mapping[str, object] | None = None,
    among: Mapping[str, tuple[object, ...]] | None = None,
    target: str = LLVM,
    seed: int = 0,
    device: str = "",
) -> TunePlan:
    """A plan for a target of TVM's by its name."""
    search = SearchPlan(recipe, problem, dict(fixed or {}), among or {})
    return make_tune_plan(
        search, tvm.target.Target(target), trials=trials, seed=seed, device=device
    )
