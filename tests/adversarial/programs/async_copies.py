"""cp.async: groups, waits, barriers, and what may not be touched while a copy is in flight."""

from __future__ import annotations

import textwrap

from .program import MISALIGNED, RACE, blank, family, right, whole, wrong

IN, OUT = {"A": whole(256)}, {"B": blank(64)}


def copy(target: str, source: str, size: int = 4, *, of: str = "A", guard: str = "") -> str:
    """A copy of so many bytes to X; where the guard is false it stores zeros."""
    guard = f", {guard}" if guard else ""
    return f'T.s_tir.cp_async_raw("float32", X.data, {target}, {of}.data, {source}, {size}{guard})'


def commit(*copies: str) -> str:
    """Copies, and the end of their group."""
    return _within('with T.attr({"async_commit_queue_scope": 0}):', *copies or ("T.evaluate(0)",))


def wait(in_flight: int, *body: str) -> str:
    """A wait that leaves so many groups in flight, and what is behind it."""
    attributes = f'{{"async_wait_queue_scope": 0, "async_wait_inflight_count": {in_flight}}}'
    return _within(f"with T.attr({attributes}):", *body or ("T.evaluate(0)",))


def lines(*parts: str) -> str:
    """A body from statements; X has 256 floats of dynamic shared memory."""
    return "\n".join(['X = T.alloc_buffer((256,), "float32", scope="shared.dyn")', *parts])


def _within(head: str, *body: str) -> str:
    return "\n".join([head, *(textwrap.indent(one, "    ") for one in body)])


DYN = 'T.tvm_storage_sync("shared.dyn")'
TWO_GROUPS = (commit(copy("tx", "tx")), commit(copy("tx + 64", "tx + 64")))


def _first_reversed(A):
    return A[:64][::-1]


GROUPS = (
    right(
        "copy, wait, barrier, another thread's element",
        "the wait is for one's own copies, the barrier for those of the others",
        lines(commit(copy("tx", "tx")), wait(0, DYN, "B[tx] = X[63 - tx]")),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_first_reversed,
        arch="sm_80",
    ),
    wrong(
        "barrier before the wait",
        RACE,
        "another thread's copy may still be in flight behind the barrier",
        lines(commit(copy("tx", "tx")), DYN, wait(0, "B[tx] = X[63 - tx]")),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_first_reversed,
        arch="sm_80",
    ),
    right(
        "own element behind the wait, no barrier",
        "the wait is for one's own copies",
        lines(commit(copy("tx", "tx")), wait(0, "B[tx] = X[tx]")),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A[:64],
        arch="sm_80",
    ),
    wrong(
        "wait leaves the group in flight that is loaded",
        RACE,
        "one group may be in flight: the last one",
        lines(*TWO_GROUPS, wait(1, DYN, "B[tx] = X[127 - tx]")),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A[64:128][::-1],
        arch="sm_80",
    ),
    right(
        "wait leaves the other group in flight",
        "groups end in the order of their commits",
        lines(*TWO_GROUPS, wait(1, DYN, "B[tx] = X[63 - tx]")),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_first_reversed,
        arch="sm_80",
    ),
    wrong(
        "copy that is never waited for",
        RACE,
        "a barrier does not wait for copies",
        lines(commit(copy("tx", "tx")), DYN, "B[tx] = X[63 - tx]"),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_first_reversed,
        arch="sm_80",
    ),
    wrong(
        "copy into a tile that others still load",
        RACE,
        "no barrier stands between the loads and the copies",
        lines(
            "r = T.alloc_local((1,))",
            "X[tx] = A[tx]",
            DYN,
            "r[0] = X[63 - tx]",
            commit(copy("tx", "tx + 64")),
            wait(0, DYN, "B[tx] = r[0] + X[63 - tx]"),
        ),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A[:64][::-1] + A[64:128][::-1],
        arch="sm_80",
    ),
    wrong(
        "group committed by half of the threads",
        RACE,
        "the others' waits find no group: their copies stay in flight",
        lines(
            copy("tx", "tx"),
            _within("if tx < 32:", commit()),
            wait(0, DYN, "B[tx] = X[63 - tx]"),
        ),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_first_reversed,
        arch="sm_80",
    ),
    wrong(
        "copy of 16 bytes to element 2",
        MISALIGNED,
        "16 bytes go to a multiple of 16",
        lines(commit(copy("tx * 4 + 2", "tx * 4", 16)), wait(0, DYN, "B[tx] = X[tx + 2]")),
        inputs=IN,
        outputs={"B": blank(32)},
        expected=lambda A: A[:32],
        arch="sm_80",
    ),
)

PROGRAMS = family("asynchronous copies", GROUPS)
