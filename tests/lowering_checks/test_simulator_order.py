"""What the simulator holds to be ordered: barriers of each thread block, blocks among each other,
and equal values; and limits of memory."""

import numpy as np
import pytest
from lowered import find_kinds, run_kernel, write_kernel
from tvm.script import from_source

from tirstep.lowering_checks.devices.simulator import UnsupportedError, simulate_lowered, statements

SYNC = 'T.tvm_storage_sync("shared")'
SHARED = "S = T.alloc_shared((64,))\n---\n"


def floats(size: int = 64) -> np.ndarray:
    return np.random.default_rng(1).integers(1, 90, size).astype("float32")


def blank(size: int = 64) -> np.ndarray:
    return np.full(size, np.nan, "float32")


def kinds(body: str, *more: str, blocks: int = 2, threads: int = 32, **arrays) -> list[str]:
    arrays = arrays or {"A": floats(), "B": blank()}
    return find_kinds(run_kernel(arrays, body, *more, blocks=blocks, threads=threads))


# ---- Equal values.


EQUAL = {
    "all write one value and read it": (f"{SHARED}S[0] = T.float32(7)\nB[tx] = S[0]", []),
    "in two statements": (
        f"{SHARED}S[tx % 8] = T.float32(7)\nS[tx % 4] = T.float32(7)\nB[tx] = S[tx % 4]",
        [],
    ),
    "another thread reads it": (
        f"{SHARED}S[tx % 8] = T.float32(7)\nB[tx] = S[(tx + 1) % 8]",
        ["race"],
    ),
    "a thread writes it after others": (
        f"{SHARED}if tx < 16:\n    S[0] = T.float32(7)\nS[0] = T.float32(7)\nB[tx] = S[0]",
        [],
    ),
    "half of the threads write it": (
        f"{SHARED}if tx < 16:\n    S[0] = T.float32(7)\nB[tx] = S[0]",
        ["race"],
    ),
    "written once more behind a barrier": (
        f"{SHARED}S[tx] = T.float32(7)\n{SYNC}\nS[tx] = T.float32(7)\nB[tx] = S[31 - tx]",
        [],
    ),
    "one of them writes another value": (
        f"{SHARED}S[0] = T.float32(7)\nif tx == 3:\n    S[0] = T.float32(8)\n{SYNC}\nB[tx] = S[0]",
        ["race"],
    ),
    "one of them writes another value behind a barrier": (
        f"{SHARED}S[0] = T.float32(7)\n{SYNC}\nif tx == 3:\n    S[0] = T.float32(8)\n{SYNC}\n"
        "B[tx] = S[0]",
        [],
    ),
    "the last to write it writes another value": (
        f"{SHARED}S[0] = T.float32(7)\nif tx == 31:\n    S[0] = T.float32(8)\n{SYNC}\nB[tx] = S[0]",
        ["race"],
    ),
    "not a number": (f"{SHARED}S[0] = A[0] / A[0] - A[0] / A[0]\nB[tx] = S[0]", []),
}


@pytest.mark.parametrize(("body", "wrong"), EQUAL.values(), ids=EQUAL)
def test_writing_the_same_value_is_a_race_only_for_those_who_did_not(body, wrong) -> None:
    assert kinds(body, blocks=1) == wrong


@pytest.mark.parametrize("blocks", [2, 1500], ids=["one batch", "many batches"])
def test_blocks_may_compute_the_same_twice(blocks: int) -> None:
    """As paddings that every block computes for itself; one that changes them is found."""
    body = f"C[tx] = A[tx]\n{SYNC}\nB[tx + bx * 32] = C[31 - tx]"
    arrays = {"A": floats(32), "C": blank(32), "B": blank(blocks * 32)}
    assert (
        find_kinds(run_kernel(arrays, "C[tx] = A[tx]\nB[tx + bx * 32] = C[tx]", blocks=blocks))
        == []
    )
    assert find_kinds(run_kernel(arrays, body, blocks=blocks)) == []
    late = f"C[tx] = A[tx]\nif bx == {blocks - 1}:\n    C[tx] = A[tx] + T.float32(1)"
    assert find_kinds(run_kernel(arrays, late, blocks=blocks)) == ["race"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "S[tx] = A[tx]\nB[tx] = S[tx // 2]",
            "load of S[0] by thread (1, 0, 0) of block (0, 0, 0) and store by thread (0, 0, 0) of "
            "block (0, 0, 0), within one warp, with no barrier in between",
        ),
        (
            "S[tx] = A[tx]\nB[tx] = S[(tx + 32) % 64]",
            "load of S[32] by thread (0, 0, 0) of block (0, 0, 0) and store by thread (32, 0, 0) "
            "of block (0, 0, 0) with no barrier in between",
        ),
        (
            "B[tx] = A[bx * 64 + tx]",
            "store to B[0] by thread (0, 0, 0) of block (0, 0, 0) and store by thread (0, 0, 0) of "
            "block (1, 0, 0) with no barrier in between",
        ),
        (
            "T.evaluate(T.cuda.atomic_add(T.address_of(B[tx]), A[tx]))\n"
            "T.evaluate(T.cuda.atomic_add(T.address_of(B[tx + 1]), A[tx]))",
            "",
        ),
        (
            f"S[tx] = A[tx]\n{SYNC}\n"
            "T.evaluate(T.cuda.atomic_add(T.address_of(S[tx]), A[tx]))\nB[tx] = S[tx // 64 + 1]",
            "load of S[1] by thread (0, 0, 0) of block (0, 0, 0) and atomic operation by thread "
            "(1, 0, 0) of block (0, 0, 0), within one warp, with no barrier in between",
        ),
        (
            "S[tx] = A[tx]\nT.evaluate(T.cuda.atomic_add(T.address_of(S[0]), A[tx]))",
            "atomic operation on S[0] by thread (1, 0, 0) of block (0, 0, 0) and store by thread "
            "(0, 0, 0) of block (0, 0, 0), within one warp, with no barrier in between",
        ),
        (
            "B[tx] = C[tx]\nif bx == 1 and tx == 40:\n"
            "    T.evaluate(T.cuda.atomic_add(T.address_of(C[0]), A[tx]))",
            "atomic operation on C[0] by thread (40, 0, 0) of block (1, 0, 0) and load by thread "
            "(0, 0, 0) of block (1, 0, 0) with no barrier in between",
        ),
    ],
)
def test_a_race_is_told_with_who_and_whether_within_a_warp(body: str, sentence: str) -> None:
    arrays = {"A": floats(128), "B": blank(128), "C": blank(128)}
    begin = "B[bx * 64 + tx] = T.float32(0)\nC[bx * 64 + tx] = T.float32(1)"
    allocate = 'S = T.alloc_buffer((64,), "float32", scope="shared")\n---\n'
    findings = run_kernel(arrays, begin, allocate + body, blocks=2, threads=64).findings
    assert [it.message for it in findings][:1] == [sentence][: len(sentence)]


# ---- Threads that return, and loops without a count.


@pytest.mark.parametrize(
    "loop", ["for k in range(4)", "for k in range(tx % 5)", "while r[0] < 90.0"]
)
def test_a_thread_returns_from_within_a_loop(loop: str) -> None:
    body = f"""\
r = T.alloc_local((1,))
---
r[0] = A[tx]
B[tx] = r[0]
{loop}:
    if r[0] > T.float32(50):
        T.thread_return()
    r[0] = r[0] + T.float32(20)
    B[tx] = r[0]
"""
    numbers = floats(32)
    result = run_kernel({"A": numbers, "B": blank(32)}, body)
    want = numbers.copy()
    rounds = np.arange(32) % 5 if "tx" in loop else np.full(32, 4)
    for place, most in enumerate(rounds):
        for _ in range(most):
            want[place] += 0 if want[place] > 50 else 20
    np.testing.assert_array_equal(result.arguments[1], want)


def test_a_loop_that_never_ends_is_a_deadlock_or_refused(monkeypatch) -> None:
    monkeypatch.setattr(statements, "MAX_ITERATIONS", 50)
    body = "while B[0] < T.float32({0}):\n    B[tx] = B[tx] + T.float32({1})"
    arrays = {"A": np.zeros(32, "float32"), "B": np.zeros(32, "float32")}
    fill = "B[tx] = A[tx]"
    assert set(run_kernel(arrays, fill, body.format(49, 1)).arguments[1]) == {49}
    findings = run_kernel(arrays, fill, body.format(1, 0)).findings
    assert [it.kind for it in findings] == ["deadlock"]
    with pytest.raises(UnsupportedError, match="does not end within 50 iterations in the simulat"):
        run_kernel(arrays, fill, body.format(1, -1))
    counts = "r = T.alloc_local((1,))\n---\nr[0] = B[tx]\nwhile B[tx] < T.float32(1):\n"
    counts += "    r[0] = r[0] + T.float32(1)\n    if r[0] > T.float32(9):\n        B[tx] = r[0]"
    found = run_kernel(arrays, fill, counts)  # a thread lets itself go on, after some iterations
    assert (found.findings, set(found.arguments[1])) == ([], {10})
    search = "r = T.alloc_local((1,))\n---\nr[0] = 0.0\n"
    search += (
        "while r[0] < 32.0 and B[T.Cast('int32', r[0])] < T.float32(1):\n    r[0] = r[0] + 1.0"
    )
    assert not run_kernel(arrays, fill, search).findings  # no load behind the end


# ---- Limits of memory.


@pytest.mark.parametrize(
    ("static", "dynamic", "local", "wrong"),
    [
        (
            40 << 10,
            200 << 10,
            4,
            "40960 bytes of static and 204800 of dynamic shared memory, 245760",
        ),
        (27 << 10, 200 << 10, 4, ""),
        (64, 227 << 10, 4, "64 bytes of static and 232448 of dynamic"),
        (64, 64, 512 << 10, ""),
        (64, 64, (512 << 10) + 4, "524292 bytes of scope 'local' exceed"),
    ],
)
def test_memory_is_added_up(static: int, dynamic: int, local: int, wrong: str) -> None:
    body = f"""\
S = T.alloc_shared(({static // 4},))
D = T.alloc_buffer(({dynamic // 4},), "float32", scope="shared.dyn")
---
r = T.alloc_local(({local // 4},))
for k in range(2):
    S[tx] = A[tx]
    D[tx] = A[tx]
    r[k * {local // 4 - 1}] = S[tx] + D[tx]
B[tx] = r[0]
"""
    findings = run_kernel({"A": floats(), "B": blank()}, body, threads=8).findings
    assert [finding.kind for finding in findings] == (["launch"] if wrong else [])
    assert not wrong or wrong in findings[0].message


def test_a_negative_extent_is_no_launch() -> None:
    module = write_kernel({"A": floats(), "B": blank()}, "B[tx] = A[tx]")
    text = module.script().replace('"blockIdx.x", 1)', '"blockIdx.x", -1)')
    (finding,) = simulate_lowered(from_source(text), [floats(), blank()]).findings
    assert (finding.kind, finding.message) == (
        "launch",
        "extent -1 of 'blockIdx.x' is negative",
    )
