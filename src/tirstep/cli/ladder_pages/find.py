"""Which run, case and profile a ladder's page is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tirstep.bench.profile.results import ProfileRun, read_profile
from tirstep.bench.results import BenchRun, Case, Outcome, read_run
from tirstep.transforms.recipes import LADDERS, Recipe


@dataclass(frozen=True)
class Ladder:
    """What a page is made of; `profile` is of the same kernel, shape, type and device."""

    kernel: str
    recipes: tuple[Recipe, ...]
    run: BenchRun
    case: Case
    profile: ProfileRun | None

    def find_outcome(self, recipe: Recipe) -> Outcome | None:
        """What a recipe did: with its fastest tail, where it took part with several."""
        outcomes = [
            one
            for one in self.case.outcomes
            if one.kind == "recipe" and one.contender.split(" ")[0] == recipe.name
        ]
        timed = [one for one in outcomes if one.time is not None]
        if timed:
            return min(timed, key=lambda one: one.time.median_us if one.time else 0)
        return outcomes[0] if outcomes else None


def find_ladders(folder: Path) -> list[Ladder]:
    """The ladders that the runs in a folder have measured.

    A ladder counts as measured by a case in which more than half of its recipes have a time. Of
    several such cases the one counts that has the most of them; then the one that was profiled;
    then the newest run's first. Raises `BenchError` for a file that is no run or no profile.
    """
    runs = [read_run(file) for file in find_runs(folder)]
    profiles = [read_profile(file) for file in sorted(folder.glob("profile-*.json"))]
    found = []
    for kernel, recipes in LADDERS.items():
        ladders = [
            Ladder(kernel, recipes, run, case, _find_profile(profiles, run, case))
            for run in sorted(runs, key=lambda run: run.date, reverse=True)
            for case in run.cases
            if case.kernel == kernel
        ]
        best = max(ladders, key=lambda one: (_count_timed(one), one.profile is not None), default=0)
        if isinstance(best, Ladder) and 2 * _count_timed(best) > len(recipes):
            found.append(best)
    return found


def find_runs(folder: Path) -> list[Path]:
    """The files of runs in a folder, without those of ``--quick``, whose times are rough."""
    files = sorted(folder.glob("bench-*.json"))
    return [file for file in files if not file.stem.endswith("-quick")]


def _count_timed(ladder: Ladder) -> int:
    outcomes = [ladder.find_outcome(recipe) for recipe in ladder.recipes]
    return sum(one is not None and one.time is not None for one in outcomes)


def _find_profile(profiles: Sequence[ProfileRun], run: BenchRun, case: Case) -> ProfileRun | None:
    """The profile of a case on the device of its run: the one of most recipes, then the newest."""
    fitting = [
        one
        for one in profiles
        if (one.kernel, dict(one.shape), one.dtype) == (case.kernel, dict(case.shape), case.dtype)
        and one.device["name"] == run.device["name"]
    ]
    return max(fitting, key=lambda one: (len(one.recipes), one.date), default=None)
