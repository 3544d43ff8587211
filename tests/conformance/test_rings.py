"""Rings of all small sizes on the simulator, against the rule for which of them are right.

A ring has 2 to 4 slots of a tile, filled by stores or by asynchronous copies, with one barrier a
round.
"""

from __future__ import annotations

import itertools
import textwrap

import numpy as np
import pytest
from lowered import run_kernel

TILES = 8
DYN, NO_BARRIER = 'T.tvm_storage_sync("shared.dyn")', "T.evaluate(0)"
ORDERS = ((False, NO_BARRIER), (True, NO_BARRIER), (True, DYN))
"""Whether copies begin before the barrier, and whether another barrier ends a round."""
COPY = """
with T.attr({{"async_commit_queue_scope": 0}}):
    T.s_tir.cp_async_raw("float32", X.data, {slot} * 64 + tx, A.data, {tile} * 64 + tx, 4)
"""
WAIT = """
with T.attr({{"async_wait_queue_scope": 0, "async_wait_inflight_count": {in_flight}}}):
    T.tvm_storage_sync("shared.dyn")
"""


def is_found_right(body: str) -> bool:
    tiles = np.random.default_rng(7).integers(1, 100, (TILES, 64)).astype("float32")
    run = run_kernel({"A": tiles.ravel(), "B": np.full(64, np.nan, "float32")}, body, threads=64)
    is_sum = np.array_equal(run.arguments[-1], tiles.sum(0)[::-1])
    return is_sum and not run.findings


def stored_ring(slots: int, behind: int) -> str:
    """Round k stores tile k and loads tile k - behind, whose slot is to be stored to again."""
    return f"""
    S = T.alloc_shared(({64 * slots},))
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range({TILES + behind}):
        if k < {TILES}:
            S[k % {slots} * 64 + tx] = A[k * 64 + tx]
        T.tvm_storage_sync("shared")
        if k >= {behind}:
            r[0] = r[0] + S[(k - {behind}) % {slots} * 64 + 63 - tx]
    B[tx] = r[0]
    """


def copied_ring(
    slots: int, ahead: int, in_flight: int, *, commit_always: bool, copies_first: bool, last: str
) -> str:
    """Copies `ahead` tiles before their sums; each round waits for its own tile."""
    guard = f"if k + {ahead} < {TILES}:"
    issue = COPY.format(slot=f"((k + {ahead}) % {slots})", tile=f"(k + {ahead})").strip()
    if commit_always:
        commit, copy = issue.splitlines()
        issue = f"{commit}\n    {guard}\n    {copy}"
    else:
        issue = f"{guard}\n{textwrap.indent(issue, '    ')}"
    arrive = WAIT.format(in_flight=in_flight)
    add = f"r[0] = r[0] + X[k % {slots} * 64 + 63 - tx]"
    rounds = [issue, arrive, add, last] if copies_first else [arrive, issue, add, last]
    return "\n".join(
        [
            'X = T.alloc_buffer((256,), "float32", scope="shared.dyn")',
            "r = T.alloc_local((1,))",
            "r[0] = T.float32(0)",
            *(COPY.format(slot=slot, tile=slot) for slot in range(ahead)),
            f"for k in range({TILES}):",
            textwrap.indent("\n".join(rounds), "    "),
            "B[tx] = r[0]",
        ]
    )


def count_allowed(ahead: int, *, commit_always: bool, copies_first: bool) -> int:
    """The groups that a wait may leave in flight in every round: those behind the round's own."""
    begun = [ahead + k + copies_first for k in range(TILES)]
    committed = begun if commit_always else [min(count, TILES) for count in begun]
    return min(count - (k + 1) for k, count in enumerate(committed))


@pytest.mark.share(6)
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
