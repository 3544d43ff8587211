"""Clusters of thread blocks: barriers of theirs, each other's shared memory, multicast.

Two thread blocks are a cluster, unless a program says otherwise; `cx` is a block's rank in it.
"""

from __future__ import annotations

from .bulk_copies import IN, SYNC, announce, arrive, first, init, lines, wait, within
from .program import (
    DEADLOCK,
    MBARRIER,
    RACE,
    UNDEFINED,
    Program,
    blank,
    family,
    right,
    wrong,
)

THREADS = 64
OUT = {"B": blank(2 * THREADS)}
ARRIVE = 'T.ptx["barrier.cluster.arrive"]()'
RELAXED = 'T.ptx["barrier.cluster.arrive.relaxed"]()'
WAIT = 'T.ptx["barrier.cluster.wait"]()'
MEET = "T.cuda.cluster_sync()"
STORE = "S[tx] = A[bx * 64 + tx]"
TAKE = "B[bx * 64 + tx] = S[tx]"


def of_other(memory: str, at: object = 0, rank: str = "1 - cx") -> str:
    """Where an element of the other block's shared memory is, in `place`."""
    own = f'T.cuda.cvta_generic_to_shared({memory}.access_ptr("r", offset={at}))'
    name = "mapa.shared::cluster.u32"
    return f'T.evaluate(T.ptx["{name}"](place[0], {own}, T.cast({rank}, "uint32")))'


LOAD = "\n".join(
    [
        of_other("S", "tx"),
        'T.evaluate(T.ptx["ld.shared::cluster.f32"](value[0], place[0]))',
        "B[bx * 64 + tx] = value[0]",
    ]
)
GIVE = "\n".join(
    [
        of_other("S", "tx"),
        'T.evaluate(T.ptx["st.shared::cluster.f32"](place[0], A[bx * 64 + tx]))',
    ]
)


def meet_at(rank: str) -> str:
    """An arrival at the first mbarrier of a block of the cluster."""
    name = "mbarrier.arrive.release.cluster.shared::cluster.b64"
    return f'{of_other("bar", rank=rank)}\nT.evaluate(T.ptx["{name}"](place[0]))'


def multicast(mask: int, size: int = 256) -> str:
    """A bulk copy of the first elements of A to S of the blocks of a mask."""
    kind = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    places = 'S.access_ptr("r"), A.access_ptr("r")'
    return f'T.ptx["{kind}"]({places}, {size}, bar.access_ptr("r"), T.uint16({mask}))'


def make(*parts: str, clusters: int = 2) -> str:
    memory = (
        'place = T.alloc_buffer((1,), "uint32", scope="local")',
        'value = T.alloc_buffer((1,), "float32", scope="local")',
    )
    text = lines(*memory, *parts)
    head = f'with T.launch_thread("clusterCtaIdx.x", {clusters}) as cx:'
    return within(head, text) if clusters > 1 else text


def ok(name: str, why: str, *parts: str, expected: object, clusters: int = 2) -> Program:
    return right(
        name,
        why,
        make(*parts, clusters=clusters),
        inputs=IN,
        outputs=OUT,
        expected=expected,
        threads=THREADS,
        blocks=2,
        arch="sm_90",
    )


def bad(name: str, kind: str, why: str, *parts: str) -> Program:
    options = {"threads": THREADS, "blocks": 2, "arch": "sm_90"}
    return wrong(name, kind, why, make(*parts), inputs=IN, outputs=OUT, **options)


def other_half(A):
    """What the other block of the cluster has."""
    return A[:128].reshape(2, 64)[::-1].reshape(-1)


def first_half(A):
    """The same for both blocks."""
    return A[:128].reshape(2, 64)[[0, 0]].reshape(-1)


SHARED = (
    ok(
        "cluster's barriers around loads of the other block's memory",
        "the first comes behind all stores, and no block ends before the second",
        STORE,
        MEET,
        LOAD,
        MEET,
        expected=other_half,
    ),
    bad(
        "loads of the other block's memory behind a barrier of one's own block",
        RACE,
        "nothing orders them behind the other block's stores",
        STORE,
        SYNC,
        LOAD,
        MEET,
    ),
    bad(
        "block that ends while the other one loads from its memory",
        UNDEFINED,
        "its shared memory lasts as long as it does",
        STORE,
        MEET,
        LOAD,
    ),
    ok(
        "cluster's barriers around stores to the other block's memory",
        "both blocks run when the first store comes, and all have come when one loads",
        MEET,
        GIVE,
        MEET,
        TAKE,
        expected=other_half,
    ),
    bad(
        "stores to the other block's memory that it does not wait for",
        RACE,
        "a block loads what the other one may not have stored",
        MEET,
        GIVE,
        SYNC,
        TAKE,
    ),
    bad(
        "stores to a block that may not have begun",
        UNDEFINED,
        "its shared memory begins when it does, and nothing waits for that",
        GIVE,
        MEET,
        TAKE,
    ),
    bad(
        "block that ends while the other one stores to its memory",
        UNDEFINED,
        "one block ends behind the first barrier, and the other one stores to it",
        MEET,
        within("if cx == 0:", GIVE),
        "B[bx * 64 + tx] = A[tx]",
    ),
)
BARRIERS = (
    ok(
        "cluster's barrier in two parts",
        "what is between arrival and wait concerns one's own block alone",
        STORE,
        ARRIVE,
        "value[0] = A[tx]",
        WAIT,
        LOAD,
        MEET,
        expected=other_half,
    ),
    bad(
        "load between a cluster's arrival and its wait",
        RACE,
        "the wait is what orders it behind the other block's stores",
        STORE,
        ARRIVE,
        LOAD,
        WAIT,
        MEET,
    ),
    bad(
        "arrivals at a cluster's barrier that release nothing",
        RACE,
        "a relaxed arrival orders no store in front of it, and there is no fence",
        STORE,
        RELAXED,
        WAIT,
        LOAD,
        MEET,
    ),
    bad(
        "cluster's barrier at which one warp does not arrive",
        DEADLOCK,
        "all threads of the cluster must",
        STORE,
        within("if tx < 32:", ARRIVE),
        WAIT,
        TAKE,
    ),
    ok(
        "cluster of one block",
        "a kernel without clusters has those, and their barrier is one of the block",
        STORE,
        MEET,
        "B[bx * 64 + tx] = S[63 - tx]",
        expected=lambda A: A[:128].reshape(2, 64)[:, ::-1].reshape(-1),
        clusters=1,
    ),
)
MULTICAST = (
    ok(
        "multicast for which both blocks announce and wait",
        "the bytes arrive at each block's own mbarrier",
        init(1),
        first(announce(256)),
        MEET,
        within("if cx == 0:", first(multicast(3))),
        wait(),
        TAKE,
        MEET,
        expected=first_half,
    ),
    bad(
        "multicast to one block, for which two wait",
        DEADLOCK,
        "the other one gets no bytes",
        init(1),
        first(announce(256)),
        MEET,
        within("if cx == 0:", first(multicast(1))),
        wait(),
        TAKE,
        MEET,
    ),
    bad(
        "multicast to two blocks, which one announces",
        RACE,
        "the other one's phase ends with its arrival, whatever has come by then",
        init(1),
        within("if cx == 0:", first(announce(256))),
        within("if cx == 1:", first(arrive())),
        MEET,
        within("if cx == 0:", first(multicast(3))),
        wait(),
        TAKE,
        MEET,
    ),
    bad(
        "multicast of which each block announces the bytes of both",
        DEADLOCK,
        "256 arrive in each",
        init(1),
        first(announce(512)),
        MEET,
        within("if cx == 0:", first(multicast(3))),
        wait(),
        TAKE,
        MEET,
    ),
    bad(
        "multicast to a third block of a cluster of two",
        UNDEFINED,
        "there is none",
        init(1),
        first(announce(256)),
        MEET,
        within("if cx == 0:", first(multicast(7))),
        wait(),
        TAKE,
        MEET,
    ),
    bad(
        "multicast to a block that may not have made its mbarrier",
        MBARRIER,
        "the barrier behind the initialization is one of a block",
        init(1),
        first(announce(256)),
        within("if cx == 0:", first(multicast(3))),
        wait(),
        TAKE,
        MEET,
    ),
    ok(
        "arrivals of both blocks at the mbarrier of one",
        "it expects two, and the last is behind both blocks' stores",
        init(2),
        STORE,
        MEET,
        first(meet_at("0")),
        within("if cx == 0:", wait()),
        MEET,
        LOAD,
        MEET,
        expected=other_half,
    ),
    bad(
        "mbarrier of two arrivals at which each block arrives for itself",
        DEADLOCK,
        "each has one",
        init(2),
        MEET,
        first(meet_at("cx")),
        wait(),
        "B[bx * 64 + tx] = A[tx]",
        MEET,
    ),
)
PROGRAMS = family("clusters", (*SHARED, *BARRIERS, *MULTICAST))
