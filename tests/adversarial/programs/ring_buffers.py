"""Rings of 2 to 4 slots, filled by stores and by asynchronous copies, with one barrier a round."""

from __future__ import annotations

from .async_copies import commit, copy, lines, wait
from .program import RACE, UNINITIALIZED, blank, family, right, whole, wrong

TILES = 8
IN, OUT = {"A": whole(64 * TILES)}, {"B": blank(64)}
DYN = 'T.tvm_storage_sync("shared.dyn")'


def sum_of_tiles(A):
    return A.reshape(TILES, 64).sum(0)[::-1]


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


STORED = (
    right(
        "ring of three slots, loads one round behind",
        "a slot is stored to again two rounds behind its loads' barrier",
        stored_ring(3, 1),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
    ),
    wrong(
        "ring of two slots, loads one round behind",
        RACE,
        "the next round stores to the slot that others still load from",
        stored_ring(2, 1),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
    ),
    right(
        "ring of four slots, loads two rounds behind",
        "a slot is stored to again two rounds behind its loads",
        stored_ring(4, 2),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
    ),
    wrong(
        "ring of three slots, loads two rounds behind",
        RACE,
        "the next round stores to the slot that others still load from",
        stored_ring(3, 2),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
    ),
)


def copied_ring(
    slots: int,
    ahead: int,
    in_flight: int,
    *,
    commit_always: bool = True,
    copies_first: bool = False,
    last: str = "T.evaluate(0)",
) -> str:
    """Copies `ahead` tiles before their sums; each round waits for its own tile."""
    guard = f"if k + {ahead} < {TILES}:"
    begun = copy(f"(k + {ahead}) % {slots} * 64 + tx", f"(k + {ahead}) * 64 + tx")
    if commit_always:
        issue = commit(f"{guard}\n    {begun}")
    else:
        issue = f"{guard}\n" + "\n".join("    " + line for line in commit(begun).splitlines())
    arrive = wait(in_flight, DYN)
    add = f"r[0] = r[0] + X[k % {slots} * 64 + 63 - tx]"
    rounds = [issue, arrive, add, last] if copies_first else [arrive, issue, add, last]
    body = "\n".join(rounds)
    return lines(
        "r = T.alloc_local((1,))",
        "r[0] = T.float32(0)",
        *(commit(copy(f"{slot * 64} + tx", f"{slot * 64} + tx")) for slot in range(ahead)),
        f"for k in range({TILES}):\n" + "\n".join("    " + line for line in body.splitlines()),
        "B[tx] = r[0]",
    )


COPIED = (
    right(
        "ring of two slots, copies one tile ahead",
        "copies begin behind the barrier that ends the loads of their slot",
        copied_ring(2, 1, 0),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
        arch="sm_80",
    ),
    right(
        "ring of three slots, copies two tiles ahead",
        "one group may be in flight: the next tile's",
        copied_ring(3, 2, 1),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
        arch="sm_80",
    ),
    right(
        "ring of four slots, copies three tiles ahead",
        "two groups may be in flight, and empty groups keep the count at the end",
        copied_ring(4, 3, 2),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
        arch="sm_80",
    ),
    wrong(
        "ring of three slots, wait for one group too few",
        RACE,
        "two groups may be in flight, and one is this round's tile",
        copied_ring(3, 2, 2),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
        arch="sm_80",
    ),
    wrong(
        "ring of three slots, copies three tiles ahead",
        RACE,
        "copies go to the slot that this round loads from",
        copied_ring(3, 3, 2),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
        arch="sm_80",
    ),
    wrong(
        "ring of three slots, no groups at the end",
        RACE,
        "without empty groups the last wait leaves the last tile in flight",
        copied_ring(3, 2, 1, commit_always=False),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
        arch="sm_80",
    ),
    wrong(
        "ring of two slots, copies before the barrier",
        RACE,
        "copies go to the slot that others still load from",
        copied_ring(2, 1, 1, copies_first=True),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
        arch="sm_80",
    ),
    right(
        "ring of two slots, a second barrier behind the loads",
        "copies begin behind the second barrier",
        copied_ring(2, 1, 1, copies_first=True, last=DYN),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
        arch="sm_80",
    ),
    wrong(
        "ring of four slots whose first tile is never copied",
        UNINITIALIZED,
        "round 0 loads slot 0, to which nothing was copied",
        copied_ring(4, 3, 2).replace(commit(copy("0 + tx", "0 + tx")), commit()),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=sum_of_tiles,
        arch="sm_80",
    ),
)

PROGRAMS = family("ring buffers", (*STORED, *COPIED))
