"""Named barriers in the simulator: kernels that are right, and bugs that die in them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lowered import run_kernel

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
INPUT = np.arange(512, dtype=np.float32) % 53


def run(body: str, *, blocks: int = 1, threads: int = 128) -> Simulation:
    arrays = {"A": INPUT, "B": np.full(512, np.nan, np.float32)}
    return run_kernel(arrays, body, blocks=blocks, threads=threads)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {ARRIVE.format(1, 128): ARRIVE.format(1, 96)},
            "for 128 threads, and thread .* arrived for 96",
        ),
        (
            {SYNC.format(1, 128): SYNC.format(1, 96)},
            "for 96 threads, and thread .* arrived for 128",
        ),
        ({"T.uint32(1)": "T.uint32(16)"}, "which is none .0 to 15"),
        ({"T.uint32(128)": "T.uint32(100)"}, "are not whole warps"),
    ],
)
def test_what_threads_name_at_a_named_barrier_must_be_one_and_the_same(
    changes: dict[str, str], message: str
) -> None:
    body = HANDED_ON
    assert run(body).findings == []
    for old, new in changes.items():
        assert old in body
        body = body.replace(old, new)
    found = [it.message for it in run(body).findings if it.kind == "named barrier"]
    assert any(re.search(message, it) for it in found), found


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
    for count in (64, 128):
        body = f"if tx < {count}:\n    {SYNC.format(0, count)}\nB[tx] = A[tx]\n"
        assert not run(body).findings
    body = f"if tx < 32:\n    {ARRIVE.format(0, 64)}\nT.cuda.cta_sync()\nB[tx] = A[tx]\n"
    assert "all reach __syncthreads" in run(body).findings[0].message
