"""Which run, case and profile a ladder's page is of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tirstep.bench.profile.results import ProfileRun, read_profile
from tirstep.bench.results import BenchRun, Case, Outcome, read_run
from tirstep.transforms.recipes import LADDERS, Ladder, Recipe


@dataclass(frozen=True)
class MeasuredLadder:
    """What a page is made of; `profile` is of the same kernel, shape, type and device."""

    ladder: Ladder
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


def find_ladders(folder: Path) -> list[MeasuredLadder]:
    """The ladders that the runs in a folder have measured.

    A ladder counts as measured by a case in which its first and its last recipe have a time. Of
    several such cases the one counts that has the most of them; then the one at the ladder's own
    shape; then the one that was profiled; then the newest run's first. Raises `BenchError` for a
    file that is no run or no profile.
    """
    runs = [read_run(file) for file in find_runs(folder)]
    profiles = [read_profile(file) for file in sorted(folder.glob("profile-*.json"))]
    found = []
    for ladder in LADDERS.values():
        measured = [
            MeasuredLadder(ladder, run, _narrow(case, ladder), _find_profile(profiles, run, case))
            for run in sorted(runs, key=lambda run: run.date, reverse=True)
            for case in run.cases
            if case.kernel == ladder.kernel
        ]
        found += sorted(filter(_is_whole, measured), key=_rank, reverse=True)[:1]
    return found


def find_runs(folder: Path) -> list[Path]:
    """The files of runs in a folder, without those of ``--quick``, whose times are rough."""
    files = sorted(folder.glob("bench-*.json"))
    return [file for file in files if not file.stem.endswith("-quick")]


def _narrow(case: Case, ladder: Ladder) -> Case:
    """The case with the recipes of a ladder alone, beside the peers."""
    names = {recipe.name for recipe in ladder}
    outcomes = [
        outcome
        for outcome in case.outcomes
        if outcome.kind != "recipe" or outcome.contender.split(" ")[0] in names
    ]
    return dataclasses.replace(case, outcomes=tuple(outcomes))


def _is_whole(measured: MeasuredLadder) -> bool:
    ends = [measured.find_outcome(recipe) for recipe in (measured.ladder[0], measured.ladder[-1])]
    return all(outcome is not None and outcome.time is not None for outcome in ends)


def _rank(measured: MeasuredLadder) -> tuple[int, bool, bool]:
    is_own_shape = dict(measured.case.shape) == dict(measured.ladder.shape)
    return _count_timed(measured), is_own_shape, measured.profile is not None


def _count_timed(measured: MeasuredLadder) -> int:
    outcomes = [measured.find_outcome(recipe) for recipe in measured.ladder]
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
