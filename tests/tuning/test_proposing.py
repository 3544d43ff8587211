"""Which configs come next."""

import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from inline_workers import make_plan

from tirstep.bench.workers import Trial
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import find_recipe
from tirstep.tuning.tuner import RANDOM_FIRST, Config, ScheduledConfig, Tuner

NOTHING: Any = None


def make_tuner(promising: Sequence[Config] = (), **sizes: int) -> Tuner:
    """Of knobs with so many values, 0 being the recipe's own."""
    choices = {name: range(size) for name, size in sizes.items()}
    every = [dict(zip(choices, it, strict=True)) for it in itertools.product(*choices.values())]
    plan: Any = SimpleNamespace(
        promising=promising,
        among=choices,
        seed=0,
        list_configs=lambda *_: every,
        count_configs=lambda: len(every),
    )
    return Tuner(plan, NOTHING, NOTHING, print)


def learn(tuner: Tuner, config: Config, seconds: float) -> None:
    trial = Trial(config, (seconds,)) if seconds < math.inf else Trial(config, reason="wrong")
    tuner._learn(ScheduledConfig(config, NOTHING, ""), trial)


def list_all(tuner: Tuner) -> list[tuple[int, ...]]:
    return [tuple(it.values()) for it in iter(tuner.propose, None)]


def test_each_config_comes_once_and_the_recipes_own_comes_first() -> None:
    found = list_all(make_tuner(a=3, b=4))
    assert found[0] == (0, 0)
    assert sorted(found) == sorted(itertools.product(range(3), range(4)))


def test_what_is_promising_comes_behind_the_recipes_own_and_once() -> None:
    promising = [{"a": 2, "b": 1}, {"b": 0, "a": 0}, {"a": 2, "b": 1}, {"a": 1, "b": 0}]
    found = list_all(make_tuner(promising, a=3, b=2))
    assert found[:3] == [(0, 0), (2, 1), (1, 0)]
    assert len(found) == len({*found}) == 6


def test_what_was_tried_before_does_not_come_again() -> None:
    tuner = make_tuner(a=4)
    learn(tuner, {"a": 0}, 1.0)
    learn(tuner, {"a": 2}, math.inf)
    assert sorted(list_all(tuner)) == [(1,), (3,)]


def test_neighbours_of_the_fastest_come_early() -> None:
    """Times grow with the distance from one config; random order would take half of all."""
    goal, seen = (7, 3, 9), list[tuple[int, ...]]()
    tuner = make_tuner(a=10, b=10, c=10)
    for decisions in iter(tuner.propose, None):
        places = tuple(decisions.values())
        seen.append(places)
        if places == goal:
            break
        learn(tuner, decisions, 1.0 + sum(map(abs, map(int.__sub__, places, goal))))
    assert RANDOM_FIRST < len({*seen}) == len(seen) < 250


def test_a_seed_repeats_the_order_and_another_one_does_not() -> None:
    problem, recipe = get_kernel("matmul").problem(64, 48, 32), find_recipe("matmul_tiled")
    plans = [make_plan(recipe, problem, seed=seed) for seed in (1, 1, 2)]
    tuners = [Tuner(plan, NOTHING, NOTHING, print) for plan in plans]
    orders = [list_all(tuner) for tuner in tuners]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    assert len(orders[0]) == tuners[0].found.total
