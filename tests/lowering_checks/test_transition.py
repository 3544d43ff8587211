"""Bisection finds a right and a wrong state, whatever lies between and behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tirstep.lowering_checks.bisect.bisection import bisect

SIGNS = {"R": True, "W": False, "?": None}


def run(states: str, seconds: float = 60.0) -> tuple[int, int]:
    asked: list[int] = []

    def is_right(place: int) -> bool | None:
        assert place not in asked, "no state is judged twice"
        asked.append(place)
        return SIGNS[states[place]]

    return bisect(len(states), is_right, seconds=seconds)


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ("W", (-1, 0)),
        ("RW", (0, 1)),
        ("RRRRWWWW", (3, 4)),
        ("WWWW", (-1, 0)),
        ("????W", (-1, 4)),
        ("RR??WW", (1, 4)),
        ("?R?W?W", (1, 3)),
        # One wrong state that a right one follows is not what made the end wrong.
        ("RRWRRRRRRRWW", (9, 10)),
        ("RRRRRWRRRRRW", (10, 11)),
        ("RWWWWRWWWWWW", (5, 6)),
        ("WRW", (1, 2)),
        ("RW?RW", (3, 4)),
    ],
)
def test_the_transition_is_found(states: str, found: tuple[int, int]) -> None:
    assert run(states) == found


@given(st.text(alphabet="RW?", max_size=24))
def test_the_transition_is_the_last_one(states: str) -> None:
    """Right before, wrong after, nothing that can be judged between, and nothing right behind."""
    low, high = run(states + "W")
    signs = states + "W"
    assert low == -1 or signs[low] == "R"
    assert signs[high] == "W"
    assert set(signs[low + 1 : high]) <= {"?"}
    assert "R" not in signs[high:]


def test_without_time_the_transition_is_one_of_them() -> None:
    low, high = run("RRRRWRRRRWWWWRWW", seconds=-1.0)
    assert "RRRRWRRRRWWWWRWW"[low] == "R"
    assert "RRRRWRRRRWWWWRWW"[high] == "W"


def test_few_states_are_judged_in_front_of_the_transition() -> None:
    asked: list[int] = []

    def is_right(place: int) -> bool:
        asked.append(place)
        return place < 60

    assert bisect(64, is_right) == (59, 60)
    assert len(asked) <= 6 + 3
