"""cp.async: groups, waits, barriers, and what may not be touched while a copy is in flight."""

from __future__ import annotations

import textwrap

import numpy as np

from .program import BOUNDS, MISALIGNED, RACE, Launch, blank, family, right, whole, wrong

IN, OUT = {"A": whole(256)}, {"B": blank(64)}


def copy(target: str, source: str, size: int = 4, *, of: str = "A", guard: str = "") -> str:
    """A copy of so many bytes to X; where the guard is false it stores zeros."""
    cells = f"X.data, {target}, {of}.data, {source}, {size}"
    return f"copy_where({guard}, {cells})" if guard else f'T.s_tir.cp_async_raw("float32", {cells})'


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
    return "\n".join([head, *(textwrap.indent(part, "    ") for part in body)])


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


def _short_pipeline(*step: str) -> str:
    """Two tiles are copied ahead, and each of two steps waits for all but the last two groups."""
    body = [*step, wait(2, DYN, "B[k * 32 + tx] = X[k * 32 + 31 - tx]")]
    ahead = (commit(copy(f"tx + {at}", f"tx + {at}")) for at in (0, 32))
    return lines(*ahead, _within("for k in range(2):", *body))


def _two_tiles_reversed(A):
    return A[:64].reshape(2, 32)[:, ::-1].ravel()


COUNTED = (
    right(
        "steps that copy nothing commit empty groups",
        "a wait counts groups, also those without a copy: with one in each step, two behind the "
        "tile's own may be in flight",
        _short_pipeline(commit()),
        inputs=IN,
        outputs=OUT,
        expected=_two_tiles_reversed,
        arch="sm_80",
    ),
    wrong(
        "steps that copy nothing commit no group",
        RACE,
        "the two groups that may be in flight are the only ones there are: the wait is for nothing",
        _short_pipeline(),
        inputs=IN,
        outputs=OUT,
        expected=_two_tiles_reversed,
        arch="sm_80",
    ),
    wrong(
        "steps of which the last commits no group",
        RACE,
        "behind the last tile's group there is one, and two may be in flight",
        _short_pipeline(_within("if k < 1:", commit())),
        inputs=IN,
        outputs=OUT,
        expected=_two_tiles_reversed,
        arch="sm_80",
    ),
)

IN_FLIGHT = (
    wrong(
        "store to a cell that a copy is in flight to",
        RACE,
        "the copy may arrive before the store or behind it",
        lines(commit(copy("tx", "tx")), "X[tx] = T.float32(1)", wait(0, "B[tx] = X[tx]")),
        threads=64,
        inputs=IN,
        outputs=OUT,
        arch="sm_80",
    ),
    right(
        "store to a cell whose copy was waited for",
        "one's own copy has arrived behind the wait",
        lines(commit(copy("tx", "tx")), wait(0, "X[tx] = X[tx] + T.float32(1)", "B[tx] = X[tx]")),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A[:64] + 1,
        arch="sm_80",
    ),
    wrong(
        "two copies to one cell in a group",
        RACE,
        "copies of a group have no order",
        lines(commit(copy("tx", "tx"), copy("tx", "tx + 64")), wait(0, "B[tx] = X[tx]")),
        threads=64,
        inputs=IN,
        outputs=OUT,
        arch="sm_80",
    ),
    right(
        "two copies to one cell with a wait between",
        "the first has arrived before the second begins",
        lines(
            commit(copy("tx", "tx")),
            wait(0),
            commit(copy("tx", "tx + 64")),
            wait(0, "B[tx] = X[tx]"),
        ),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A[64:128],
        arch="sm_80",
    ),
    wrong(
        "store to a cell that a copy in flight reads",
        RACE,
        "the copy may read C before the store or behind it",
        (
            Launch("C[tx] = A[tx]", threads=64),
            Launch(
                lines(
                    commit(copy("tx", "tx", of="C")),
                    "C[tx] = T.float32(0)",
                    wait(0, "B[tx] = X[tx]"),
                ),
                threads=64,
            ),
        ),
        inputs=IN,
        outputs={"C": blank(64), "B": blank(64)},
        arch="sm_80",
    ),
    wrong(
        "own element loaded before the wait",
        RACE,
        "the copy has not arrived",
        lines(commit(copy("tx", "tx")), "B[tx] = X[tx]", wait(0)),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A[:64],
        arch="sm_80",
    ),
    wrong(
        "wait by the first warp alone",
        RACE,
        "the second warp's copies were waited for by nobody",
        lines(
            commit(copy("tx", "tx")),
            _within("if tx < 32:", wait(0)),
            DYN,
            "B[tx] = X[63 - tx]",
        ),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_first_reversed,
        arch="sm_80",
    ),
    right(
        "copies and wait by the first warp alone",
        "who copies waits, and the barrier is for all",
        lines(
            _within(
                "if tx < 32:",
                commit(copy("tx * 2", "tx * 2"), copy("tx * 2 + 1", "tx * 2 + 1")),
                wait(0),
            ),
            DYN,
            "B[tx] = X[63 - tx]",
        ),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_first_reversed,
        arch="sm_80",
    ),
)

SIZES = (
    wrong(
        "copy of 16 bytes from element 2",
        MISALIGNED,
        "16 bytes come from a multiple of 16",
        lines(commit(copy("tx * 4", "tx * 4 + 2", 16)), wait(0, DYN, "B[tx] = X[tx]")),
        inputs=IN,
        outputs={"B": blank(32)},
        expected=lambda A: A[2:34],
        arch="sm_80",
    ),
    right(
        "copies of 8 bytes to even elements",
        "8 bytes go to and come from multiples of 8",
        lines(commit(copy("tx * 2", "tx * 2 + 2", 8)), wait(0, DYN, "B[tx] = X[63 - tx]")),
        inputs=IN,
        outputs={"B": blank(32)},
        expected=lambda A: A[34:66][::-1],
        arch="sm_80",
    ),
    right(
        "guarded copies beyond the end store zeros",
        "where the guard is false nothing is read",
        lines(commit(copy("tx", "tx", guard="tx < 50")), wait(0, DYN, "B[tx] = X[63 - tx]")),
        threads=64,
        inputs={"A": whole(50)},
        outputs=OUT,
        expected=lambda A: np.append(A, np.zeros(14))[::-1],
        arch="sm_80",
    ),
    wrong(
        "copies beyond the end with a guard one too wide",
        BOUNDS,
        "element 50 of 50 is read",
        lines(commit(copy("tx", "tx", guard="tx <= 50")), wait(0, DYN, "B[tx] = X[63 - tx]")),
        threads=64,
        inputs={"A": whole(50)},
        outputs=OUT,
        arch="sm_80",
    ),
    wrong(
        "copy of 16 bytes over the end",
        BOUNDS,
        "the last vector has elements 48 to 51, and A has 50",
        lines(
            commit(copy("tx * 4", "tx * 4", 16, guard="tx * 4 < 50")),
            wait(0, DYN, "B[tx] = X[tx]"),
        ),
        inputs={"A": whole(50)},
        outputs={"B": blank(32)},
        arch="sm_80",
    ),
    wrong(
        "copy to a place beyond the buffer",
        BOUNDS,
        "X has 256 elements, and the last threads copy to 256 and beyond",
        lines(commit(copy("tx + 200", "tx")), wait(0, DYN, "B[tx] = X[200 + tx % 56]")),
        threads=64,
        inputs=IN,
        outputs=OUT,
        arch="sm_80",
    ),
)

PROGRAMS = family("asynchronous copies", (*GROUPS, *COUNTED, *IN_FLIGHT, *SIZES))
