"""Figures that follow from times: rates, shares of a ceiling, ratios."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tirstep.transforms.recipes import RECIPES, list_ladders

from .results import Case, Ceilings, Outcome


def find_outcome(case: Case, contender: str) -> Outcome | None:
    """A contender's outcome; None if it did not take part."""
    return next((one for one in case.outcomes if one.contender == contender), None)


def find_time(case: Case, contender: str) -> float | None:
    """A contender's median in microseconds; None without one."""
    outcome = find_outcome(case, contender)
    return None if outcome is None or outcome.time is None else outcome.time.median_us


def find_floor(case: Case, ceilings: Ceilings) -> tuple[float, str]:
    """The shortest possible time in microseconds, and what sets it: ``"memory"``, ``"arithmetic"``.

    The larger of the bytes over the copy bandwidth and the operations over the peak of the dtype.
    A peak that was not measured sets nothing.
    """
    memory = 1e6 * case.bytes / ceilings.copy
    peak = ceilings.flops.get(case.dtype)
    arithmetic = 0.0 if peak is None else 1e6 * case.flops / peak
    return (arithmetic, "arithmetic") if arithmetic > memory else (memory, "memory")


def share(case: Case, outcome: Outcome, ceilings: Ceilings) -> float | None:
    """How much of the ceiling was reached: 1 is all of it. None on the CPU and without a time."""
    if outcome.time is None or outcome.kind == "cpu":
        return None
    return find_floor(case, ceilings)[0] / outcome.time.median_us


def share_of_copy(case: Case, outcome: Outcome, ceilings: Ceilings) -> float | None:
    """The time of a copy that moves as many bytes, over the time taken: above 1 is faster.

    None where arithmetic sets the floor, on the CPU, without a time, and in runs without copies.
    """
    copy = ceilings.copies_us.get(str(case.bytes))
    bound_by_memory = find_floor(case, ceilings)[1] == "memory"
    if copy is None or not bound_by_memory or outcome.time is None or outcome.kind == "cpu":
        return None
    return copy / outcome.time.median_us


def rate(case: Case, outcome: Outcome, ceilings: Ceilings) -> tuple[float, str] | None:
    """TFLOP/s, or TB/s where memory sets the floor; None without a time."""
    if outcome.time is None:
        return None
    if find_floor(case, ceilings)[1] == "memory":
        return case.bytes / outcome.time.median_us / 1e6, "TB/s"
    return case.flops / outcome.time.median_us / 1e6, "TFLOP/s"


def speedup(case: Case, outcome: Outcome, over: str) -> float | None:
    """How often faster an outcome is than another contender: above 1 is faster."""
    other = find_time(case, over)
    if other is None or outcome.time is None or outcome.contender == over:
        return None
    return other / outcome.time.median_us


def find_first_rung(case: Case) -> str | None:
    """The first recipe, with its tail; None where no ladder of the kernel begins with it."""
    begins = {ladder[0].name for ladder in list_ladders(case.kernel)}
    recipes = (one.contender for one in case.outcomes if one.kind == "recipe")
    first = next(recipes, "")
    return first if first.split(" ")[0] in begins else None


def find_best(case: Case) -> Outcome | None:
    """The fastest recipe; None where no recipe has a time."""
    timed = [one for one in case.outcomes if one.kind == "recipe" and one.time is not None]
    return min(timed, key=lambda one: one.time.median_us if one.time else math.inf, default=None)


def find_before(case: Case, outcome: Outcome) -> str | None:
    """The nearest base of a rung that has a time; of other recipes the last one before them."""
    names = [one.contender for one in case.outcomes if one.kind == "recipe" and one.time]
    recipe = RECIPES.get(outcome.contender.split(" ")[0])
    while recipe is not None and recipe.base is not None:
        recipe = RECIPES[recipe.base]
        for name in names:
            if name.split(" ")[0] == recipe.name:
                return name
    place = [one.contender for one in case.outcomes].index(outcome.contender)
    earlier = {one.contender for one in case.outcomes[:place]}
    return next((name for name in reversed(names) if name in earlier), None)


def geometric_mean(ratios: Iterable[float | None]) -> float | None:
    """Of the ratios that there are; None if there are none."""
    logs = [math.log(ratio) for ratio in ratios if ratio is not None]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None
