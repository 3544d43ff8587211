"""Bulk copies, mbarriers and roles of warps: who waits for whom, and what a wait is good for."""

from __future__ import annotations

import textwrap

import numpy as np

from .program import (
    BARRIER,
    DEADLOCK,
    MBARRIER,
    MISALIGNED,
    PROXY,
    RACE,
    TENSOR_MAP,
    UNFINISHED,
    UNINITIALIZED,
    WARP,
    Launch,
    Program,
    blank,
    family,
    right,
    whole,
    wrong,
)

THREADS = 64
IN, OUT = {"A": whole(512)}, {"B": blank(THREADS)}
SYNC = 'T.tvm_storage_sync("shared")'
VISIBLE = 'T.ptx["fence.mbarrier_init.release.cluster"]()'
FENCE_SHARED = 'T.ptx["fence.proxy.async.shared::cta"]()'
FENCE_ALL = 'T.ptx["fence.proxy.async"]()'


def lines(*parts: str) -> str:
    """A body from statements; S has 512 floats of dynamic shared memory, and bar 16 mbarriers."""
    head = (
        'S = T.alloc_buffer((512,), "float32", scope="shared.dyn")',
        'bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")',
    )
    return "\n".join([*head, *parts])


def within(head: str, *body: str) -> str:
    return "\n".join([head, *(textwrap.indent(part, "    ") for part in body)])


def first(*body: str) -> str:
    """What the first thread does."""
    return within("if tx == 0:", *body)


def init(*counts: int) -> str:
    """The first mbarriers, of so many arrivals each, for all to use."""
    made = (
        f'T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset={at}), {count})'
        for at, count in enumerate(counts)
    )
    return "\n".join([first(*made, VISIBLE), SYNC])


def announce(size: int, bar: object = 0) -> str:
    name = "mbarrier.arrive.expect_tx.shared.b64"
    return f'T.ptx["{name}"](bar.access_ptr("r", offset={bar}), {size})'


def arrive(bar: object = 0) -> str:
    return f'T.ptx["mbarrier.arrive.shared.b64"](bar.access_ptr("r", offset={bar}))'


def wait(parity: object = 0, bar: object = 0) -> str:
    return f'T.cuda.mbarrier_wait(bar.access_ptr("r", offset={bar}), {parity})'


def load(to: object, source: object, size: int = 256, bar: object = 0, *, of: str = "A") -> str:
    """A bulk copy of so many bytes of a tensor to elements of S."""
    name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    places = f'S.access_ptr("r", offset={to}), {of}.access_ptr("r", offset={source})'
    return f'T.ptx["{name}"]({places}, {size}, bar.access_ptr("r", offset={bar}))'


TAKE = "B[tx] = S[tx]"


def make(
    text: str | list[Launch], *, status: str, why: str, kind: str = "", name: str, **options: object
) -> Program:
    options = {"inputs": IN, "outputs": OUT, "threads": THREADS, "arch": "sm_90", **options}
    if status == "right":
        options.setdefault("expected", lambda A: A[:THREADS])
        return right(name, why, text, **options)
    return wrong(name, kind, why, text, **options)


def ok(name: str, why: str, *parts: str, **options: object) -> Program:
    return make(lines(*parts), status="right", name=name, why=why, **options)


def bad(name: str, kind: str, why: str, *parts: str, **options: object) -> Program:
    return make(lines(*parts), status="wrong", name=name, kind=kind, why=why, **options)


ARRIVALS = (
    ok(
        "bulk copy for which all threads wait",
        "each thread's wait makes the copy's bytes visible to it",
        init(1),
        first(announce(256), load(0, 0)),
        wait(),
        TAKE,
    ),
    bad(
        "bulk copy for which its thread alone waits",
        RACE,
        "the others know nothing of the copy",
        init(1),
        first(announce(256), load(0, 0), wait()),
        TAKE,
    ),
    ok(
        "bulk copy for which one thread waits, and a barrier",
        "the barrier makes known to the others what the first knows",
        init(1),
        first(announce(256), load(0, 0), wait()),
        SYNC,
        TAKE,
    ),
    ok(
        "bulk copy for which a lane of each warp waits, and a barrier of the warp",
        "the barrier of a warp orders memory among its lanes",
        init(1),
        first(announce(256), load(0, 0)),
        within("if tx % 32 == 0:", wait()),
        "T.cuda.warp_sync()",
        TAKE,
    ),
    bad(
        "bulk copy for which a lane of the first warp waits, and a barrier of each warp",
        RACE,
        "a barrier of a warp tells the other warp nothing",
        init(1),
        first(announce(256), load(0, 0), wait()),
        "T.cuda.warp_sync()",
        TAKE,
    ),
    ok(
        "bytes announced behind the copy",
        "the phase lacks the arrival until then, so that it cannot end before",
        init(1),
        first(load(0, 0), announce(256)),
        wait(),
        TAKE,
    ),
    ok(
        "two bulk copies, announced together",
        "the bytes of both are one sum",
        init(1),
        first(announce(256), load(0, 0, 128), load(32, 32, 128)),
        wait(),
        TAKE,
    ),
    ok(
        "announcement and arrival apart",
        "expect_tx adds bytes, and the arrival comes behind it",
        init(1),
        first(
            'T.ptx["mbarrier.expect_tx.relaxed.cta.shared::cta.b64"](bar.access_ptr("r"), 256)',
            load(0, 0),
            arrive(),
        ),
        wait(),
        TAKE,
    ),
    bad(
        "arrival in front of the announcement",
        RACE,
        "the arrival ends the phase, which lacks no bytes yet",
        init(1),
        first(
            arrive(),
            'T.ptx["mbarrier.expect_tx.relaxed.cta.shared::cta.b64"](bar.access_ptr("r"), 256)',
            load(0, 0),
        ),
        wait(),
        TAKE,
    ),
    bad(
        "two bulk copies in flight to one place",
        RACE,
        "either may arrive last",
        init(1),
        first(announce(512), load(0, 0), load(0, 64)),
        wait(),
        TAKE,
    ),
    bad(
        "two bulk copies in flight that overlap by 16 bytes",
        RACE,
        "either may arrive last there",
        init(1),
        first(announce(256), load(0, 0, 128), load(28, 32, 128)),
        wait(),
        TAKE,
    ),
    bad(
        "bulk copy of 250 floats",
        MISALIGNED,
        "1000 bytes are no multiple of 16",
        init(1),
        first(announce(1000), load(0, 0, 1000)),
        wait(),
        TAKE,
    ),
    bad(
        "bulk copy from the second float on",
        MISALIGNED,
        "a tensor's part begins at a multiple of 16 bytes",
        init(1),
        first(announce(256), load(0, 1)),
        wait(),
        TAKE,
    ),
    bad(
        "bulk copy to the second float",
        MISALIGNED,
        "its place in shared memory is at a multiple of 16 bytes",
        init(1),
        first(announce(256), load(1, 0)),
        wait(),
        "B[tx] = S[tx + 1]",
    ),
)
COUNTED = within(
    "for round in range(2):",
    within(
        "for k in range(3):",
        first(announce(256, "WHICH % 2"), load("WHICH % 2 * 64", "k * 64", 256, "WHICH % 2")),
        wait("PARITY", "WHICH % 2"),
        "f[0] = f[0] + S[WHICH % 2 * 64 + tx]",
        FENCE_SHARED,
        SYNC,
    ),
)


def rounds(which: str, parity: str) -> tuple[str, ...]:
    return (
        'f = T.alloc_local((1,), "float32")',
        "f[0] = T.float32(0)",
        init(1, 1),
        COUNTED.replace("WHICH", which).replace("PARITY", parity),
        "B[tx] = f[0]",
    )


def _sum_twice(A):
    return 2 * (A[:64] + A[64:128] + A[128:192])


PHASES = (
    ok(
        "two rounds of three tiles in two stages, counted through",
        "each use of a stage waits for a phase of its own",
        *rounds("(round * 3 + k)", "(round * 3 + k) // 2 % 2"),
        expected=_sum_twice,
    ),
    bad(
        "two rounds of three tiles in two stages, parities counted anew",
        RACE,
        "a round ends in the middle of the stages: the second one's waits are for phases long past",
        *rounds("k", "k // 2 % 2"),
        expected=_sum_twice,
    ),
    bad(
        "store over an mbarrier that is in use",
        MBARRIER,
        "an mbarrier is opaque: what threads store there is another state of it",
        init(1),
        within("if tx == 5:", "bar[0] = T.uint64(0)"),
        SYNC,
        first(announce(256), load(0, 0)),
        wait(),
        TAKE,
    ),
    bad(
        "mbarrier that is read as a number",
        MBARRIER,
        "what the bits of an mbarrier are is nobody's business",
        init(1),
        first(announce(256), load(0, 0)),
        wait(),
        'B[tx] = S[tx] + T.Cast("float32", bar[0])',
    ),
    ok(
        "place of an mbarrier that is invalidated",
        "its memory is memory again",
        init(1),
        first(announce(256), load(0, 0)),
        wait(),
        SYNC,
        first('T.ptx["mbarrier.inval.shared.b64"](bar.access_ptr("r"))', "bar[0] = T.uint64(3)"),
        SYNC,
        'B[tx] = S[tx] + T.Cast("float32", bar[0])',
        expected=lambda A: A[:THREADS] + 3,
    ),
    bad(
        "mbarrier that is initialized twice",
        MBARRIER,
        "it must be invalidated first",
        init(1),
        init(1),
        first(announce(256), load(0, 0)),
        wait(),
        TAKE,
    ),
)
PRODUCE = within(
    "if tx == 0:",
    within(
        "for k in range(4):",
        wait("(k // 2 + 1) % 2", "k % 2 + 2"),
        announce(256, "k % 2"),
        load("k % 2 * 64", "k * 64", 256, "k % 2"),
    ),
)
USE = "f[0] = f[0] + S[k % 2 * 64 + (tx - 32) % 64]"


def roles(*, count: int = 2, consume: tuple[str, ...] = (), threads: int = 96) -> tuple[str, ...]:
    """One warp copies four tiles, the other ones use them; stages have full and empty mbarriers."""
    usual = (
        USE,
        FENCE_SHARED,
        "T.cuda.warp_sync()",
        within("if tx % 32 == 0:", arrive("k % 2 + 2")),
    )
    body = within("for k in range(4):", wait("k // 2 % 2", "k % 2"), *(consume or usual))
    return (
        'f = T.alloc_local((1,), "float32")',
        "f[0] = T.float32(0)",
        init(1, 1, count, count),
        "\n".join([within("if tx < 32:", PRODUCE), within("else:", body)]),
        within("if tx >= 32:", "B[tx - 32] = f[0]"),
    )


def _sum_tiles(A):
    return A[:256].reshape(4, 64).sum(0)


ROLES = (
    ok(
        "two warps use what a third one copies",
        "each warp lets go of a stage by one lane behind a barrier of the warp",
        *roles(),
        threads=96,
        expected=_sum_tiles,
    ),
    bad(
        "one of two warps lets go of a stage for both",
        RACE,
        "the other one may still read it when it is copied to again",
        *roles(
            count=1,
            consume=(
                USE,
                FENCE_SHARED,
                "T.cuda.warp_sync()",
                within("if tx == 32:", arrive("k % 2 + 2")),
            ),
        ),
        threads=96,
        expected=_sum_tiles,
    ),
    bad(
        "stage that is let go before it is read",
        RACE,
        "the next copy to it may arrive before",
        *roles(
            consume=(
                FENCE_SHARED,
                "T.cuda.warp_sync()",
                within("if tx % 32 == 0:", arrive("k % 2 + 2")),
                USE,
            )
        ),
        threads=96,
        expected=_sum_tiles,
    ),
    bad(
        "stage that is let go by a lane, with no barrier of its warp",
        RACE,
        "the other lanes may still read it: since Volta the lanes of a warp are not in step",
        *roles(consume=(USE, FENCE_SHARED, within("if tx % 32 == 0:", arrive("k % 2 + 2")))),
        threads=96,
        expected=_sum_tiles,
    ),
    bad(
        "stages that wait for three warps, of which there are two",
        DEADLOCK,
        "the third arrival never comes",
        *roles(count=3),
        threads=96,
        expected=_sum_tiles,
    ),
    bad(
        "barrier of the block within a role",
        BARRIER,
        "the warp that copies never comes there",
        *roles(consume=(USE, FENCE_SHARED, SYNC, within("if tx % 32 == 0:", arrive("k % 2 + 2")))),
        threads=96,
        expected=_sum_tiles,
    ),
    bad(
        "lane elected in a part of its warp",
        WARP,
        "all lanes that the mask names must run it together",
        init(1),
        within(
            "if tx < 16:",
            within("if T.cuda.elect_sync() != T.uint32(0):", announce(256), load(0, 0)),
        ),
        wait(),
        TAKE,
    ),
    bad(
        "registers asked for that there are not",
        DEADLOCK,
        "three warpgroups of 240 registers a thread are 92,160, and a multiprocessor has 65,536: "
        "setmaxnreg waits until there are enough",
        'T.ptx["setmaxnreg.inc.sync.aligned.u32"](240)',
        "S[tx] = A[tx]",
        "B[tx] = S[tx]",
        threads=384,
        outputs={"B": blank(384)},
    ),
    ok(
        "registers handed from one warpgroup to two others",
        "40 and twice 232 of 128 threads are 64,512",
        within("if tx < 128:", 'T.ptx["setmaxnreg.dec.sync.aligned.u32"](40)'),
        within("if tx >= 128:", 'T.ptx["setmaxnreg.inc.sync.aligned.u32"](232)'),
        "S[tx] = A[tx]",
        "B[tx] = S[tx]",
        threads=384,
        outputs={"B": blank(384)},
        expected=lambda A: A[:384],
    ),
)
ROWS, COLUMNS = 32, 36
TENSOR = {"A": whole(ROWS * COLUMNS)}
TILES = {"B": blank(256)}


def encode(buffer: str = "A", *, dtype: str = "float32") -> str:
    """A tensor map of 32 rows of 36 floats, in boxes of 8 rows of 32."""
    return (
        'tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)\n'
        f"T.evaluate(T.tensormap_encode_tiled(tm, {buffer}.data, 36, 32, 144, 32, 8, 1, 1, "
        f'descriptor_dtype="{dtype}", rank=2))'
    )


def load_tile(column: object, row: object, to: object = 0) -> str:
    name = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    place = f'S.access_ptr("r", offset={to})'
    return f'T.ptx["{name}"]({place}, T.address_of(tm), {column}, {row}, bar.access_ptr("r"))'


def store_tile(column: object, row: object, of: object = 0) -> str:
    name = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
    place = f'S.access_ptr("r", offset={of})'
    return f'T.ptx["{name}"](T.address_of(tm), {column}, {row}, {place})'


COMMIT = 'T.ptx["cp.async.bulk.commit_group"]()'
READ = 'T.ptx["cp.async.bulk.wait_group.read"]({})'
WRITTEN = 'T.ptx["cp.async.bulk.wait_group"]({})'
FILL = within("for i in range(4):", "S[i * 64 + tx] = A[i * 64 + tx]")
FILL_TWO = within("for i in range(8):", "S[i * 64 + tx] = A[i * 64 + tx]")
TAKE_TILE = within("for i in range(4):", "B[i * 64 + tx] = S[i * 64 + tx]")
TILED = {"threads": THREADS, "inputs": TENSOR, "outputs": TILES, "host": encode()}
STORED = {
    "inputs": {"A": whole(512)},
    "outputs": {"C": blank(ROWS * COLUMNS), "B": blank(THREADS)},
    "host": encode("C"),
}


def _take_box(A, row: int = 0):
    padded = np.pad(A.reshape(ROWS, COLUMNS), ((8, 8), (0, 28)))
    return padded[row + 8 : row + 16, :32].ravel()


def _store(A, row: int = 0, part: int = 0):
    C = np.full((ROWS, COLUMNS), np.nan, "float32")
    C[row : row + 8, :32] = A[part : part + 256].reshape(8, 32)
    return C


def _store_and_take(A):
    C = _store(A)
    return C.ravel(), C[0:2, :32].ravel()


def _store_and_fill(A):
    C = _store(A)
    return C.ravel(), np.full(THREADS, 5, "float32")


TENSORS = (
    ok(
        "tile that begins four rows above its tensor",
        "rows outside are zeros, and all of the box's bytes arrive",
        init(1),
        first(announce(1024), load_tile(0, -4)),
        wait(),
        TAKE_TILE,
        **{**TILED, "expected": lambda A: _take_box(A, -4)},
    ),
    bad(
        "tile of which the bytes inside of its tensor alone are announced",
        DEADLOCK,
        "zeros outside count, too: 512 bytes more arrive",
        init(1),
        first(announce(512), load_tile(0, -4)),
        wait(),
        TAKE_TILE,
        **TILED,
    ),
    bad(
        "tensor map of halves for a tensor of floats",
        TENSOR_MAP,
        "a box of 8 by 32 halves is 512 bytes, and 1,024 are announced",
        init(1),
        first(announce(1024), load_tile(0, 0)),
        wait(),
        TAKE_TILE,
        **{**TILED, "host": encode(dtype="float16")},
    ),
    bad(
        "tile stored, and read back by all threads",
        RACE,
        "no statement stores to C, and TVM says of every kernel that buffers do not alias: the "
        "compiler takes C for constant, and an H100 loaded what was there before",
        FILL,
        FENCE_SHARED,
        SYNC,
        first(store_tile(0, 0), COMMIT, WRITTEN.format(0)),
        SYNC,
        "B[tx] = C[tx // 32 * 36 + tx % 32]",
        **{**STORED, "expected": _store_and_take},
    ),
    make(
        [
            Launch(
                lines(FILL, FENCE_SHARED, SYNC, first(store_tile(0, 0), COMMIT, WRITTEN.format(0))),
                THREADS,
            ),
            Launch("B[tx] = C[tx // 32 * 36 + tx % 32]", THREADS),
        ],
        name="tile stored, and read in the next kernel",
        status="right",
        why="a kernel begins when all that the one before wrote is there",
        **{**STORED, "expected": _store_and_take},
    ),
    bad(
        "tile stored, and read back behind a wait for its reading alone",
        RACE,
        "wait_group.read is until shared memory was read, not until the tensor is written",
        FILL,
        FENCE_SHARED,
        SYNC,
        first(store_tile(0, 0), COMMIT, READ.format(0)),
        SYNC,
        "B[tx] = C[tx // 32 * 36 + tx % 32]",
        **{**STORED, "expected": _store_and_take},
    ),
    ok(
        "tile stored, and its place used again behind a wait for its reading",
        "that is what wait_group.read is for",
        FILL,
        FENCE_SHARED,
        SYNC,
        first(store_tile(0, 0), COMMIT, READ.format(0)),
        SYNC,
        "S[tx] = T.float32(5)",
        "B[tx] = S[tx]",
        **{**STORED, "expected": _store_and_fill},
    ),
    bad(
        "wait for a bulk store by another thread than its own",
        RACE,
        "groups are a thread's own: the second one waits for none",
        FILL,
        FENCE_SHARED,
        SYNC,
        first(store_tile(0, 0), COMMIT),
        within("if tx == 1:", READ.format(0)),
        SYNC,
        "S[tx] = T.float32(5)",
        "B[tx] = S[tx]",
        first(READ.format(0)),
        **{**STORED, "expected": _store_and_fill},
    ),
    ok(
        "place of the first of two stores used again, the second in flight",
        "one group may be in flight, and the first is not",
        FILL_TWO,
        FENCE_SHARED,
        SYNC,
        first(store_tile(0, 0), COMMIT, store_tile(0, 8, 256), COMMIT, READ.format(1)),
        SYNC,
        "S[tx] = T.float32(5)",
        "B[tx] = S[tx]",
        first(READ.format(0)),
        **{
            **STORED,
            "expected": lambda A: (
                np.where(np.isnan(_store(A)), _store(A, 8, 256), _store(A)).ravel(),
                np.full(THREADS, 5, "float32"),
            ),
        },
    ),
    bad(
        "place of the second of two stores used again, the second in flight",
        RACE,
        "one group may be in flight, and that is the second",
        FILL_TWO,
        FENCE_SHARED,
        SYNC,
        first(store_tile(0, 0), COMMIT, store_tile(0, 8, 256), COMMIT, READ.format(1)),
        SYNC,
        "S[tx + 256] = T.float32(5)",
        "B[tx] = S[tx + 256]",
        first(READ.format(0)),
        **STORED,
    ),
    bad(
        "tile stored of which half was written",
        UNINITIALIZED,
        "what nobody wrote is stored to the tensor",
        within("for i in range(2):", "S[i * 64 + tx] = A[i * 64 + tx]"),
        FENCE_SHARED,
        SYNC,
        first(store_tile(0, 0), COMMIT, WRITTEN.format(0)),
        "B[tx] = T.float32(0)",
        **STORED,
    ),
    bad(
        "tile stored for which nobody waits",
        UNFINISHED,
        "shared memory may be another block's before it is read",
        FILL,
        FENCE_SHARED,
        SYNC,
        first(store_tile(0, 0), COMMIT),
        "B[tx] = T.float32(0)",
        **STORED,
    ),
    bad(
        "two GPU blocks store tiles that share rows",
        RACE,
        "rows 4 to 7 are both blocks'",
        within("for i in range(4):", "S[i * 64 + tx] = A[bx * 256 + i * 64 + tx]"),
        FENCE_SHARED,
        SYNC,
        first(store_tile(0, "bx * 4"), COMMIT, WRITTEN.format(0)),
        "B[tx] = T.float32(0)",
        blocks=2,
        **STORED,
    ),
)
PARTS = {"inputs": {"A": whole(512)}, "outputs": {"C": blank(512), "B": blank(THREADS)}}


def _copy_and_take(A):
    C = np.full(512, np.nan, "float32")
    C[:64] = A[:64]
    return C, A[:64]


GLOBAL = (
    ok(
        "bulk copy of what threads stored, behind their fences",
        "each makes its store visible to the asynchronous proxy, and the barrier to the first",
        init(1),
        "C[tx] = A[tx]",
        FENCE_ALL,
        SYNC,
        first(announce(256), load(0, 0, of="C")),
        wait(),
        TAKE,
        **PARTS,
        expected=_copy_and_take,
    ),
    bad(
        "bulk copy of what threads stored, behind a barrier alone",
        PROXY,
        "a bulk copy does not see what threads stored without a fence of the asynchronous proxy",
        init(1),
        "C[tx] = A[tx]",
        SYNC,
        first(announce(256), load(0, 0, of="C")),
        wait(),
        TAKE,
        **PARTS,
        expected=_copy_and_take,
    ),
    bad(
        "bulk copy of what threads stored, behind fences of shared memory",
        PROXY,
        "those are of stores to shared memory, and these went to global memory",
        init(1),
        "C[tx] = A[tx]",
        FENCE_SHARED,
        SYNC,
        first(announce(256), load(0, 0, of="C")),
        wait(),
        TAKE,
        **PARTS,
        expected=_copy_and_take,
    ),
    right(
        "bulk copy of what an earlier kernel stored",
        "a launch begins when the one before it has ended",
        [
            Launch("C[tx] = A[tx]", THREADS),
            Launch(lines(init(1), first(announce(256), load(0, 0, of="C")), wait(), TAKE), THREADS),
        ],
        **PARTS,
        expected=_copy_and_take,
        arch="sm_90",
    ),
)
PROGRAMS = family("bulk copies and roles", (*ARRIVALS, *PHASES, *ROLES, *TENSORS, *GLOBAL))
