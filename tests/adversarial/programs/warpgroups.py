"""wgmma: whole warpgroups, descriptors, groups in flight, sums, and tails of tiles."""

from __future__ import annotations

import textwrap

from .program import (
    BOUNDS,
    FENCE,
    NUMBERS,
    RACE,
    UNINITIALIZED,
    WARP,
    Program,
    blank,
    family,
    right,
    whole,
    wrong,
)

ROWS, COLUMNS, DEPTH = 64, 8, 16
IN = {"A": whole(ROWS * DEPTH, "float16"), "B": whole(COLUMNS * DEPTH, "float16", seed=8)}
OUT = {"C": blank(ROWS * COLUMNS)}
PROXY = 'T.ptx["fence.proxy.async.shared::cta"]()'
SYNC = 'T.tvm_storage_sync("shared")'
REGISTERS = "T.ptx.wgmma.fence.sync.aligned()"
COMMIT = "T.ptx.wgmma.commit_group.sync.aligned()"
WAIT = "T.ptx.wgmma.wait_group.sync.aligned({})"
CLEAR = "for i in range(4):\n    c[i] = T.float32(0)"
ALLOCATE = """
S = T.alloc_buffer((1152,), "float16", scope="shared.dyn")
c = T.alloc_local((4,), "float32")
d = T.alloc_local((2,), "uint64")
"""
# Core matrices of 8 rows of 16 bytes, 128 bytes from one to the next along k, 256 along rows.
STORE_A = """
for i in range(8):
    if STORED:
        S[i * 128 + lane // 8 % 2 * 64 + lane // 16 * 8 + lane % 8] = A[
            (i * 8 + lane // 16) * 16 + lane // 8 % 2 * 8 + lane % 8]
"""
STORE_B = """
S[1024 + lane // 8 % 2 * 64 + lane // 16 * 8 + lane % 8] = B[lane // 16 * 16 + lane % 16]
"""
ENCODE = """
T.cuda.wgmma.encode_matrix_descriptor(
    T.address_of(d[0]), S.access_ptr("r", offset=START), LEADING, STRIDE, 0)
T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[1]), S.access_ptr("r", offset=1024), 8, 16, 0)
"""
MULTIPLY = """
T.ptx["wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"](
    c[0], c[1], c[2], c[3], d[0], d[1], IS_ADDED, 1, 1, 0, 0)
"""
TAKE = """
for i in range(4):
    C[(lane // 32 * 16 + lane % 32 // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]
"""


def body(
    *,
    lane: str = "tx",
    store: str = STORE_A + STORE_B,
    stored: str = "T.bool(True)",
    visible: str = f"{PROXY}\n{SYNC}",
    clear: str = CLEAR,
    start: str = "0",
    strides: tuple[int, int] = (8, 16),
    fence: str = REGISTERS,
    is_added: str = "T.bool(True)",
    guard: str = "",
    multiply: str = "",
    end: str = f"{COMMIT}\n{WAIT.format(0)}",
    take: str = TAKE,
) -> str:
    """C (64, 8) = A (64, 16) × B (8, 16) transposed, by one wgmma of a warpgroup."""
    encode = ENCODE.replace("START", start)
    encode = encode.replace("LEADING", str(strides[0])).replace("STRIDE", str(strides[1]))
    product = multiply or MULTIPLY.replace("IS_ADDED", is_added)
    parts = "\n".join([encode, fence, product, end])
    if guard:
        parts = f"if {guard}:\n{textwrap.indent(parts, '    ')}"
    text = "\n".join([ALLOCATE, store.replace("STORED", stored), clear, visible, parts, take])
    return text.replace("lane", f"({lane})")


def _multiply(A, B):
    return (A.reshape(ROWS, DEPTH).astype("f8") @ B.reshape(COLUMNS, DEPTH).T.astype("f8")).ravel()


def ok(name: str, why: str, text: str, **options: object) -> Program:
    usual = {"inputs": IN, "outputs": OUT, "threads": 128, "arch": "sm_90a", "expected": _multiply}
    return right(name, why, text, **{**usual, **options})


def bad(name: str, kind: str, why: str, text: str, **options: object) -> Program:
    usual = {"inputs": IN, "outputs": OUT, "threads": 128, "arch": "sm_90a", "expected": _multiply}
    return wrong(name, kind, why, text, **{**usual, **options})


LATER = """
for i in range(8):
    S[i * 128 + tx] = T.float16(0)
"""
"""The tile of A is filled anew."""
TWO_GROUPS = {
    "threads": 256,
    "outputs": {"C": blank(ROWS * COLUMNS), "D": blank(ROWS * COLUMNS)},
    "expected": lambda A, B: (_multiply(A, B), _multiply(A, B)),
}


def both(*, between: str = "", after: str = "") -> str:
    """Two warpgroups multiply the same tile; the first one fills it anew."""
    first = TAKE.replace("lane", "tx")
    second = TAKE.replace("C[", "D[").replace("lane", "(tx - 128)")
    store = textwrap.indent((STORE_A + STORE_B).strip(), "    ")
    filled = textwrap.indent(LATER.strip(), "    ")
    taken = (
        f"{between}\nif tx < 128:\n{filled}\n{after}\n"
        f"if tx < 128:\n{textwrap.indent(first.strip(), '    ')}\n"
        f"else:\n{textwrap.indent(second.strip(), '    ')}"
    )
    return body(lane="tx", store=f"if tx < 128:\n{store}", take=taken)


PROGRAMS = family(
    "warpgroups",
    (
        ok("wgmma of one tile", "fences, barrier, group and wait are there", body()),
        ok(
            "wgmma over sums that nobody cleared, with scale-d 0",
            "it stores the product alone",
            body(clear="", is_added="T.bool(False)"),
        ),
        bad(
            "wgmma that adds to sums that nobody cleared",
            UNINITIALIZED,
            "what was in the registers is added",
            body(clear=""),
        ),
        bad(
            "wgmma with its strides exchanged",
            NUMBERS,
            "core matrices along k and along rows are taken for one another",
            body(strides=(16, 8)),
        ),
        bad(
            "wgmma by three warps",
            WARP,
            "a warpgroup has four",
            body(guard="tx < 96"),
        ),
        bad(
            "wgmma by four warps of two warpgroups",
            WARP,
            "a warpgroup begins at a multiple of four warps",
            body(lane="tx % 128", guard="tx >= 64 and tx < 192"),
            threads=256,
        ),
        bad(
            "wgmma with a descriptor of each lane's own",
            WARP,
            "a warpgroup has one descriptor",
            body(start="lane // 64 * 64"),
        ),
        bad(
            "wgmma of a tile that ends behind its buffer",
            BOUNDS,
            "its last rows begin at the 1024th element of 1152 and end behind",
            body(start="256"),
        ),
        bad(
            "wgmma of a tile whose last columns nobody stored",
            UNINITIALIZED,
            "a tail of k counts: what lies there is multiplied",
            body(stored="lane // 8 % 2 < 1"),
        ),
        ok(
            "wgmma of a tile whose last columns are zeros",
            "zeros times numbers add nothing",
            body(
                store=(STORE_A + STORE_B)
                .replace("= A[", "= T.Select(lane % 16 < 12, A[")
                .replace(
                    "lane // 8 % 2 * 8 + lane % 8]", "lane // 8 % 2 * 8 + lane % 8], T.float16(0))"
                )
            ),
            expected=lambda A, B: (
                A.reshape(ROWS, DEPTH)[:, :12].astype("f8")
                @ B.reshape(COLUMNS, DEPTH)[:, :12].T.astype("f8")
            ).ravel(),
        ),
        bad(
            "wgmma in front of the barrier behind its tile",
            RACE,
            "other threads store the tile",
            body(visible=PROXY, end=f"{COMMIT}\n{WAIT.format(0)}\n{SYNC}"),
        ),
        bad(
            "wgmma whose tile half of the threads make visible",
            FENCE,
            "each thread that stores passes the fence of the asynchronous proxy",
            body(visible=f"if tx < 64:\n    {PROXY}\n{SYNC}"),
        ),
        bad(
            "sums changed between their fence and the wgmma",
            FENCE,
            "the fence stands behind the last use of the registers",
            body(multiply="c[0] = c[0] + T.float32(0)\n" + MULTIPLY.replace("IS_ADDED", "True")),
        ),
        bad(
            "sums read behind a wait that leaves a group in flight",
            RACE,
            "the group that adds to them is the last one",
            body(end=f"{COMMIT}\n{WAIT.format(1)}", take=TAKE + WAIT.format(0)),
        ),
        bad(
            "wait for a group that is committed behind it",
            RACE,
            "it waits for none",
            body(end=f"{WAIT.format(0)}\n{COMMIT}", take=TAKE + WAIT.format(0)),
        ),
        bad(
            "tile filled anew by threads that have waited, with no barrier",
            RACE,
            "the other warpgroup may still multiply it",
            both(),
            **TWO_GROUPS,
        ),
        ok(
            "tile filled anew by threads that have waited, behind a barrier",
            "both warpgroups have waited by then",
            both(between=SYNC),
            **TWO_GROUPS,
        ),
    ),
)
