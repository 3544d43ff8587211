"""What takes part is compiled on all cores, into files, before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tirstep.modules import Problem
from tirstep.transforms.recipes import Recipe

from .arena import Tell
from .contenders import Built, BuiltAhead, find_options
from .errors import BenchError
from .farm import DLIGHT, Job, compile_all
from .libraries import name_library
from .machine import Machine
from .works import Work

COMPILE_LIMIT = 120.0
"""Seconds that one contender may take to compile."""
FEW_JOBS = 4
"""So few are compiled when they are needed: processes take seconds to start."""


@dataclass(frozen=True)
class _Wish:
    """Somebody who takes part: a recipe with its sizes, or dlight without one."""

    problem: Problem
    recipe: Recipe | None
    config: Mapping[str, object]

    @property
    def name(self) -> str:
        return self.recipe.name if self.recipe else DLIGHT

    def make_job(self) -> Job:
        problem = self.problem
        options = find_options(self.recipe, problem) if self.recipe else dict(problem.options)
        return Job(
            self.name,
            dict(problem.shape),
            options,
            dict(self.config),
            str(name_library()),
            kernel=problem.kernel.name,
        )


def compile_ahead(works: Sequence[Work], machine: Machine, cache: Path, tell: Tell) -> BuiltAhead:
    """Compile the recipes of works, and dlight's schedules where it is a peer.

    A recipe takes part with its own sizes, or where these do not divide the shape, with each of its
    tails that can. What is not in the answer, or has no library, is compiled when its turn comes.
    """
    wishes = [
        _Wish(work.problem, one, one.default_example.config)
        for work in works
        for one in work.recipes
    ]
    wishes += [_Wish(work.problem, None, {}) for work in works if DLIGHT in work.peers]
    wishes = [*{(wish.problem, wish.name): wish for wish in wishes}.values()]
    if len(wishes) <= FEW_JOBS:
        return {}
    built: dict[tuple[Problem, str], list[Built]] = {}
    refused = _compile(wishes, machine, cache, tell, built)
    tails = [
        _Wish(one.problem, one.recipe, {**one.config, "tail": tail})
        for one in refused
        if one.recipe is not None
        for tail in one.recipe.tails
        if tail not in ("refuse", one.config.get("tail"))
    ]
    if tails:
        _compile(tails, machine, cache, tell, built)
    return built


def _compile(
    wishes: Sequence[_Wish],
    machine: Machine,
    cache: Path,
    tell: Tell,
    built: dict[tuple[Problem, str], list[Built]],
) -> list[_Wish]:
    """Add what compiled to `built`; returns what was refused."""
    jobs = [wish.make_job() for wish in wishes]

    def report(done: int, reason: str) -> None:
        tell(f"compiled {done} of {len(jobs)} contenders")

    try:
        reasons = compile_all(jobs, machine.target, cache, limit=COMPILE_LIMIT, report=report)
    except BenchError as error:  # each can still be compiled in its turn
        tell(str(error))
        return []
    refused = []
    for wish, job, reason in zip(wishes, jobs, reasons, strict=True):
        if reason.startswith("refused:"):
            refused.append(wish)
        else:
            library = Path(job.library)
            one = Built(dict(wish.config), library if not reason and library.exists() else None)
            built.setdefault((wish.problem, wish.name), []).append(one)
    return refused
