"""Named barriers in the simulator: kernels that are right, and bugs that die in them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lowered import find_kinds, run_kernel

from tirstep.lowering_checks.devices.simulator import Simulation
from tirstep.lowering_checks.devices.simulator.run_state import UnsupportedError

SYNC, ARRIVE = (
    "T.ptx.bar.sync(T.uint32({}), T.uint32({}))",
    "T.ptx.bar.arrive(T.uint32({}), T.uint32({}))",
)
NOTHING = "T.evaluate(0)"
ALLOCATE = """
S = T.alloc_buffer((64,), "float32", scope="shared")
---
"""
HANDED_ON = f"""{ALLOCATE}
for k in range(4):
    if tx < 64:
        if k > 0:
            {SYNC.format(2, 128)}
        S[tx] = A[k * 64 + tx] + T.float32(1)
        {ARRIVE.format(1, 128)}
    else:
        {SYNC.format(1, 128)}
        B[k * 64 + tx - 64] = S[127 - tx]
        if k < 3:
            {ARRIVE.format(2, 128)}
"""
"""Two warps store, and two others load when they have."""
IN_TURNS = f"""{ALLOCATE}
if tx >= 64:
    {ARRIVE.format(1, 128)}
for k in range(4):
    {SYNC.format("tx // 64 + 1", 128)}
    if k * 2 + tx // 64 > 0:
        B[k * 128 + tx] = S[63 - tx % 64]
    else:
        B[tx] = T.float32(0)
    T.ptx.bar.sync(T.Cast("uint32", tx // 64 + 3), T.uint32(64))
    S[tx % 64] = A[k * 128 + tx]
    {ARRIVE.format("(tx // 64 + 1) % 2 + 1", 128)}
if tx < 64:
    {SYNC.format(1, 128)}
""".replace("T.uint32(tx // 64 + 1)", 'T.Cast("uint32", tx // 64 + 1)').replace(
    "T.uint32((tx // 64 + 1) % 2 + 1)", 'T.Cast("uint32", (tx // 64 + 1) % 2 + 1)'
)
"""Two halves take turns: each reads what the other one stored, and stores for it."""
INPUT = np.arange(512, dtype=np.float32) % 53


def run(body: str, *, blocks: int = 1, threads: int = 128) -> Simulation:
    arrays = {"A": INPUT, "B": np.full(512, np.nan, np.float32)}
    return run_kernel(arrays, body, blocks=blocks, threads=threads)


def plant(body: str, changes: dict[str, str]) -> Simulation:
    for old, new in changes.items():
        assert old in body
        body = body.replace(old, new)
    return run(body)


def test_a_tile_is_handed_on() -> None:
    simulation = run(HANDED_ON)
    assert simulation.findings == []
    expected = INPUT[:256].reshape(4, 64)[:, ::-1] + 1
    np.testing.assert_array_equal(simulation.arguments[1][:256].reshape(4, 64), expected)


@pytest.mark.parametrize(
    ("body", "changes", "kind", "message"),
    [
        (HANDED_ON, {SYNC.format(1, 128): NOTHING}, "race", "load of S.* and store by thread"),
        (HANDED_ON, {SYNC.format(2, 128): NOTHING}, "deadlock", "forever: 64 of 128 threads"),
        (HANDED_ON, {ARRIVE.format(1, 128): NOTHING}, "deadlock", "forever: 64 of 128 threads"),
        (
            HANDED_ON,
            {ARRIVE.format(1, 128): ARRIVE.format(3, 128)},
            "deadlock",
            "barrier 1 by thread .* waits forever: 64 of 128 threads have come",
        ),
        (
            HANDED_ON,
            {ARRIVE.format(1, 128): ARRIVE.format(1, 96)},
            "named barrier",
            "for 128 threads, and thread .* has come for 96",
        ),
        (
            HANDED_ON,
            {SYNC.format(1, 128): SYNC.format(1, 96)},
            "named barrier",
            "for 96 threads, and thread .* has come for 128",
        ),
        (
            HANDED_ON,
            {SYNC.format(1, 128): SYNC.format(1, 96), ARRIVE.format(1, 128): ARRIVE.format(1, 96)},
            "deadlock",
            "barrier 2 by thread .32, 0, 0. .* waits forever: 96 of 128 threads have come",
        ),
        (HANDED_ON, {"T.uint32(1)": "T.uint32(16)"}, "named barrier", "which is none .0 to 15"),
        (HANDED_ON, {"T.uint32(128)": "T.uint32(100)"}, "named barrier", "are no whole warps"),
        (
            HANDED_ON,
            {SYNC.format(1, 128): f"if tx < 90:\n            {SYNC.format(1, 128)}"},
            "divergent warp instruction",
            "reached by 26 threads of the warp",
        ),
        (IN_TURNS, {"if tx >= 64:": "if tx >= 128:"}, "deadlock", "forever: 64 of 128 threads"),
    ],
)
def test_a_bug_at_a_named_barrier_dies(
    body: str, changes: dict[str, str], kind: str, message: str
) -> None:
    simulation = plant(body, changes)
    assert kind in find_kinds(simulation), simulation.findings
    found = [it.message for it in simulation.findings if it.kind == kind]
    assert any(re.search(message, it) for it in found), found


@pytest.mark.parametrize(
    ("body", "changes"),
    [(HANDED_ON, {"if k < 3": "if k < 4"}), (IN_TURNS, {SYNC.format(1, 128): NOTHING})],
)
def test_an_arrival_may_be_left_over(body: str, changes: dict[str, str]) -> None:
    """As by kernels whose warpgroups take turns, of which the last lets the first go on in vain."""
    assert plant(body, changes).findings == []


def test_what_a_barrier_of_the_block_stands_between() -> None:
    """Variables and registers of parts are there behind it, and blocks have their own barriers."""
    body = f"""{ALLOCATE}
    for k in range(2):
        R = T.alloc_buffer((1,), "float32", scope="local")
        half: T.let[T.int32] = T.Select(tx < 64, 0, 1)
        if tx < 64:
            R[0] = A[bx * 128 + k * 64 + tx]
            S[tx] = R[0]
            {ARRIVE.format(1, 128)}
        if tx >= 64:
            {SYNC.format(1, 128)}
            R[0] = S[tx - 64]
        T.tvm_storage_sync("shared")
        B[bx * 256 + k * 128 + tx] = R[0] + T.Cast("float32", half)
    """.replace("\n    ", "\n")
    simulation = run(body, blocks=2)
    assert simulation.findings == []
    tiles = INPUT[:256].reshape(2, 2, 1, 64)
    expected = tiles + np.array([0, 1]).reshape(1, 1, 2, 1)
    np.testing.assert_array_equal(simulation.arguments[1].reshape(2, 2, 2, 64), expected)


def test_who_may_come_too_early_is_told() -> None:
    """In the block in which that happens, once for each warp that may."""
    body = f"""{ALLOCATE}
    if bx == 1:
        {SYNC.format(1, 64)}
    else:
        {SYNC.format("tx // 64 + 1", 64)}
    B[tx] = A[tx]
    """.replace("\n    ", "\n").replace("T.uint32(tx // 64 + 1)", 'T.Cast("uint32", tx // 64 + 1)')
    told = [it.message for it in run(body, blocks=2).findings if it.kind == "named barrier"]
    assert told == [
        "ptx.bar_sync_count of barrier 1 by thread (64, 0, 0) of block (1, 0, 0) may come before "
        "thread (0, 0, 0) of block (1, 0, 0) does in phase 0, and complete it: wait for that phase "
        "first"
    ]
    body = f"""{ALLOCATE}
    if tx < 32:
        for k in range(2):
            {SYNC.format(1, 64)}
            S[tx] = A[tx]
            {ARRIVE.format(1, 64)}
    else:
        {ARRIVE.format(1, 64)}
        {SYNC.format(1, 64)}
        {ARRIVE.format(1, 64)}
        {SYNC.format(1, 64)}
        B[tx] = S[tx - 32]
    """.replace("\n    ", "\n")
    told = [it.message for it in run(body, threads=64).findings if it.kind == "named barrier"]
    pattern = r"bar_sync_count of barrier 1 by thread \(0,.* may come before thread \(32, 0, 0\)"
    assert any(re.search(pattern, it) for it in told), told


def test_warps_that_no_warpgroup_holds_together_wait_for_one_another() -> None:
    body = f"""
    if tx < 32:
        {SYNC.format(1, 64)}
    else:
        {ARRIVE.format(1, 64)}
    B[tx] = A[tx]
    """.replace("\n    ", "\n")
    assert run(body, threads=64).findings == []
    wider = body.replace("B[tx]", "T.ptx.wgmma.fence.sync.aligned()\nB[tx]")
    with pytest.raises(UnsupportedError, match="some of one wait at ptx"):
        run(wider.replace("64))", "128))").replace("tx < 32", "tx < 64"), threads=128)


def test_barrier_0_is_that_of_all_threads() -> None:
    assert not run(SYNC.format(0, 128) + "\nB[tx] = A[tx]\n").findings
    with pytest.raises(UnsupportedError, match=r"keeps barrier 0, which .* names for 64 threads"):
        run(SYNC.format(0, 64) + "\nB[tx] = A[tx]\n")
