"""The stored run of the suite `rungs`: a rung is as fast as its base, or says what it is for."""

from pathlib import Path

import pytest

from tirstep.bench.cases import RUNGS
from tirstep.bench.results import Case, read_run
from tirstep.transforms.recipes import LADDERS, Ladder, Recipe

RUN = Path(__file__).parents[2] / "benchmarks/results/bench-nvidia-h100-80gb-hbm3-rungs.json"
NOISE = 0.02
EXCUSES = ("sets up ", "slower ")
UNMEASURED = {"conv2d_wgmma_tma", "attention_wgmma_masked_overlap"}
"""Rungs that are newer than the stored run: docs/speed.md has the times of the suite conv2d."""
FAST = {
    name: ladder
    for name, ladder in LADDERS.items()
    if any(rung.base and rung.name not in UNMEASURED for rung in ladder)
}
CASES = read_run(RUN).cases


def get_times(case: Case) -> dict[str, float]:
    """Medians by recipe, in microseconds."""
    return {
        outcome.candidate.split(" ")[0]: outcome.time.median_us
        for outcome in case.outcomes
        if outcome.kind == "recipe" and outcome.time is not None
    }


def find_slower(recipe: Recipe, times: dict[str, float]) -> str | None:
    """A rung that loses time against its base and does not say what for."""
    if recipe.base is None or recipe.name not in times or recipe.base not in times:
        return None
    if times[recipe.name] <= times[recipe.base] * (1 + NOISE):
        return None
    return None if any(excuse in recipe.why for excuse in EXCUSES) else recipe.name


@pytest.mark.parametrize("ladder", FAST.values(), ids=list(FAST))
def test_each_rung_is_as_fast_as_its_base_or_says_what_it_is_for(ladder: Ladder):
    (case,) = (case for case in CASES if ladder[0].name in get_times(case))
    assert (case.suite, dict(case.shape)) == (RUNGS, dict(ladder.shape))
    times = get_times(case)
    names = {recipe.name for recipe in ladder}
    assert names - set(times) == UNMEASURED & names
    assert [slower for recipe in ladder if (slower := find_slower(recipe, times))] == []


def test_every_ladder_with_rungs_was_measured():
    measured = {name for case in CASES for name in get_times(case)}
    assert {ladder[0].name for ladder in FAST.values()} <= measured
