"""cp.async in the simulator: data arrives at the wait, and whoever comes too early is found."""

import numpy as np
import pytest
import tvm
from kernels import parse_kernel
from tvm.script import from_source

from tirstep.lowering_checks.devices import DeviceFinding
from tirstep.lowering_checks.devices.simulator import (
    lower,
    simulate_lowered,
)


def run_shifted(lowered: tvm.IRModule, size: int) -> tuple[np.ndarray, list[DeviceFinding]]:
    """What a kernel makes that shifts its input by 5 elements, shifted back; and its findings."""
    values = np.arange(size, dtype="float32") + 1
    result = simulate_lowered(lowered, [values, np.full(128, np.nan, "float32")])
    return np.roll(result.arguments[1], 5), result.findings


# Copies, groups and waits as PTX spells them.
Explicit = parse_kernel("""
    A (128,), B (128,)
    for thread in T.thread_binding(32, thread="threadIdx.x"):
        with T.sblock("B"):
            T.reads(A[0:128])
            T.writes(B[0:128])
            S = T.sblock_alloc_buffer((128,), scope="shared")
            T.evaluate(
                T.ptx["cp.async.cg.shared.global"](
                    T.address_of(S[thread * 4]), T.address_of(A[thread * 4]), 16
                )
            )
            T.evaluate(T.ptx["cp.async.commit_group"]())
            T.evaluate(T.ptx["cp.async.wait_group"](0))
            T.evaluate(T.tvm_storage_sync("shared"))
            for i in range(4):
                B[thread * 4 + i] = S[(thread * 4 + i + 5) % 128]
""")


CG, CA = '16, "async", "cg"', '16, "async", "ca"'
COMMIT_GROUP, WAIT_GROUP = (
    'T.ptx.cp("async", "commit_group", "")',
    'T.ptx.cp(0, "async", "wait_group", "")',
)
WAIT_ALL = 'T.ptx.cp("async", "wait_all", "")'


def run_explicit(*edits: tuple[str, str]) -> tuple[np.ndarray, list[DeviceFinding]]:
    text = lower(Explicit).script()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return run_shifted(from_source(text), 128)


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(CG, CA)],
        [(WAIT_GROUP, WAIT_ALL)],
        [(COMMIT_GROUP, "T.evaluate(0)"), (WAIT_GROUP, WAIT_ALL)],
    ],
    ids=["cg", "ca", "wait_all", "wait_all without a group"],
)
def test_explicit_copies_are_right(edits) -> None:
    got, found = run_explicit(*edits)
    assert found == []
    np.testing.assert_array_equal(got, np.arange(1, 129))


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ("16, T.uint32(8), ", lambda place: place % 4 < 2),  # src-size: 8 bytes of 16
        ("16, threadIdx_x < 16, ", lambda place: place >= 64),  # ignore-src of the first half
    ],
    ids=["src-size", "ignore-src"],
)
def test_what_a_copy_leaves_out_is_zero(operands: str, expected) -> None:
    text = CA.replace("16, ", operands)
    edits = [(CG, text)]
    if "<" in operands:
        edits.append(('"global", "", "", "")', '"global", "", "", "p3")'))
    got, found = run_explicit(*edits)
    assert found == []
    place = np.arange(128)
    np.testing.assert_array_equal(got, np.where(expected(place), place + 1, 0))
