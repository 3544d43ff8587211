"""Rings of all small sizes on the simulator, against the rule for which of them are right."""

from __future__ import annotations

import itertools

import pytest
from judging.devices import OK, SIMULATOR, judge
from programs.program import right
from programs.ring_buffers import DYN, IN, OUT, TILES, copied_ring, stored_ring, sum_of_tiles

NO_BARRIER = "T.evaluate(0)"
ORDERS = ((False, NO_BARRIER), (True, NO_BARRIER), (True, DYN))
"""Whether copies begin before the barrier, and whether another barrier ends a round."""


def is_found_right(body: str) -> bool:
    program = right("", "", body, threads=64, inputs=IN, outputs=OUT, expected=sum_of_tiles)
    return judge(program, SIMULATOR).outcome == OK


def count_allowed(ahead: int, *, commit_always: bool, copies_first: bool) -> int:
    """The groups that a wait may leave in flight in every round: those behind the round's own."""
    begun = [ahead + k + copies_first for k in range(TILES)]
    committed = begun if commit_always else [min(count, TILES) for count in begun]
    return min(count - (k + 1) for k, count in enumerate(committed))


@pytest.mark.parametrize("slots", [2, 3, 4])
def test_copied_rings(slots: int) -> None:
    """Waits must be long enough, and no copy may go to a slot that is loaded from or filled."""
    verdicts, truth = {}, {}
    for ahead, in_flight, always, (first, last) in itertools.product(
        (1, 2, 3), (0, 1, 2, 3), (True, False), ORDERS
    ):
        body = copied_ring(
            slots, ahead, in_flight, commit_always=always, copies_first=first, last=last
        )
        busy = ahead + 1 + (first and last == NO_BARRIER)  # with what slower threads still load
        allowed = count_allowed(ahead, commit_always=always, copies_first=first)
        case = (ahead, in_flight, always, first, last)
        verdicts[case] = is_found_right(body)
        truth[case] = in_flight <= allowed and slots >= busy
    assert verdicts == truth
    assert set(truth.values()) == {True, False}


def test_stored_rings() -> None:
    """The tile loaded, those between and the next one stored need slots of their own."""
    cases = list(itertools.product((1, 2, 3, 4), (0, 1, 2)))
    verdicts = {case: is_found_right(stored_ring(*case)) for case in cases}
    assert verdicts == {(slots, behind): slots >= behind + 2 for slots, behind in cases}
