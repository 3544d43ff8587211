"""Which configs come next."""

import itertools
import math

from tirstep.tuning.tuner import RANDOM_FIRST, Proposals


def list_all(proposals: Proposals) -> list[tuple[int, ...]]:
    return [tuple(it.values()) for it in iter(proposals.propose, None)]


def test_each_config_comes_once_and_the_recipes_own_comes_first() -> None:
    proposals = Proposals({"a": 3, "b": 4}, seed=1)
    found = list_all(proposals)
    assert found[0] == (0, 0)
    assert sorted(found) == sorted(itertools.product(range(3), range(4)))
    assert proposals.total == 12


def test_what_is_promising_comes_behind_the_recipes_own_and_once() -> None:
    promising = [{"a": 2, "b": 1}, {"b": 0, "a": 0}, {"a": 2, "b": 1}, {"a": 1, "b": 0}]
    found = list_all(Proposals({"a": 3, "b": 2}, seed=0, promising=promising))
    assert found[:3] == [(0, 0), (2, 1), (1, 0)]
    assert len(found) == len({*found}) == 6


def test_a_seed_repeats_the_order_and_another_one_does_not() -> None:
    orders = [list_all(Proposals({"a": 5, "b": 5}, seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_what_was_tried_before_does_not_come_again() -> None:
    proposals = Proposals({"a": 4}, seed=0)
    proposals.learn({"a": 0}, 1.0)
    proposals.learn({"a": 2}, math.inf)
    assert sorted(list_all(proposals)) == [(1,), (3,)]


def test_neighbours_of_the_fastest_come_early() -> None:
    """Times grow with the distance from one config; random order would take half of all."""
    goal, tried = (7, 3, 9), 0
    proposals = Proposals({"a": 10, "b": 10, "c": 10}, seed=0)
    for decisions in iter(proposals.propose, None):
        tried += 1
        places = tuple(decisions.values())
        if places == goal:
            break
        proposals.learn(decisions, 1.0 + sum(map(abs, map(int.__sub__, places, goal))))
    assert RANDOM_FIRST < tried < 250


def test_of_very_many_configs_each_comes_once() -> None:
    proposals = Proposals(dict.fromkeys("abcdef", 10), seed=3)
    found = [tuple((proposals.propose() or {}).values()) for _ in range(2000)]
    assert len({*found}) == 2000
    assert proposals.total == 10**6
