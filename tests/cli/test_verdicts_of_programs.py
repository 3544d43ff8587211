"""Verdicts that a user sees of programs of kinds on which they were wrong once."""

from pathlib import Path
from typing import NamedTuple

import pytest

from .conftest import Command

HEAD = "from tvm.script import tirx as T\n"
OPEN = """
@T.prim_func(s_tir=True)
def {}(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
"""
COPY = (
    OPEN.format("meant")
    + """\
    for i in range(n):
        B[i] = A[i]
"""
)
SLOTS = (
    OPEN.format("slots")
    + """\
    W = T.alloc_buffer((384,), "float32")
    for bx in T.thread_binding((n + 127) // 128, thread="blockIdx.x"):
        with T.launch_thread("threadIdx.x", 128) as tx:
            if bx * 128 + tx < n:
                W[bx % 3 * 128 + tx] = A[bx * 128 + tx]
                B[bx * 128 + tx] = W[bx % 3 * 128 + tx]
"""
)
FAST_PATH = (
    OPEN.format("fast")
    + """\
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 96) as tx:
            for k in range((n + 95) // 96):
                if n % 96 == 0:
                    B[k * 96 + tx] = A[k * 96 + 95 - tx]
                elif k * 96 + tx < n:
                    B[k * 96 + tx] = A[k * 96 + tx]
"""
)
THREAD_EACH = (
    OPEN.format("each")
    + """\
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", n) as tx:
            B[tx] = A[tx]
"""
)
LAUNCHED = (
    OPEN.format("late")
    + """\
    with T.launch_thread("blockIdx.x", (n + 31) // 32) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            if bx * 32 + tx < n:
                B[bx * 32 + tx] = A[T.max(bx * 32 + tx - 1, 0)]
"""
)
SCALAR = """
@T.prim_func(s_tir=True)
def pairs(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 2,))
    B = T.match_buffer(b, (n * 2,))
    with T.launch_thread("blockIdx.x", n) as bx:
        with T.launch_thread("threadIdx.x", 2) as tx:
            B[bx * 2 + tx] = A[bx * 2 + tx]
"""
SHARE = """
@T.prim_func(s_tir=True)
def share(a: T.handle, c: T.handle, b: T.handle):
    m = T.int32()
    n = T.int32()
    A = T.match_buffer(a, (m, n), "float32")
    C = T.match_buffer(c, (m,), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    for i, j in T.grid(m, n):
        B[i, j] = T.if_then_else(A[i, j] > T.float32(0.5), A[i, j] / C[i], T.float32(0))
"""
SERIAL_ROOT = """
@T.prim_func(s_tir=True)
def gather(A: T.Buffer((9, 4)), at: T.Buffer((5,), "int32"), C: T.Buffer((5, 4))):
    with T.sblock("root"):
        for i in range(5):
            for j in range(4):
                C[i, j] = A[at[i], j]
"""
IN_BRANCH = """
@T.prim_func(s_tir=True)
def branch(A: T.Buffer((64,)), C: T.Buffer((64,))):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("C"):
                v = T.axis.spatial(64, tx)
                S = T.sblock_alloc_buffer((64,), scope="shared")
                C[v] = A[v]
                if v < 40:
                    S[v] = A[v]
                    C[v] = S[39 - v]


@T.prim_func(s_tir=True)
def meant(A: T.Buffer((64,)), C: T.Buffer((64,))):
    for i in range(64):
        C[i] = T.if_then_else(i < 40, A[39 - i], A[i])
"""
TURNED = """
@T.prim_func(s_tir=True)
def turned(A: T.Buffer((64,)), C: T.Buffer((64,))):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_shared((64,), "float32")
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        C[tx] = S[62 - T.min(tx, 62)]


@T.prim_func(s_tir=True)
def meant(A: T.Buffer((64,)), C: T.Buffer((64,))):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_shared((64,), "float32")
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        C[tx] = S[63 - tx]
"""
RARE = """
@T.prim_func(s_tir=True)
def rare(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_shared((64,), "int32")
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        C[tx] = S[63 - tx]
        if A[tx] * 3 + A[63 - tx] * 7 == 987654321:
            C[tx] = 0
"""
RING = """
@T.prim_func(s_tir=True)
def ring(c: T.handle, k: T.handle):
    b, cap, t = T.int32(), T.int32(), T.int32()
    C = T.match_buffer(c, (b, cap), "int32")
    K = T.match_buffer(k, (b, t), "int32")
    bx = T.launch_thread("blockIdx.x", b)
    tx = T.launch_thread("threadIdx.x", t)
    C[bx, tx % cap] = K[bx, tx]
"""
SOFTMAX = """
@T.prim_func(s_tir=True)
def {name}(A: T.Buffer((8, 16)), B: T.Buffer((8, 16))):
    for i in range(8):
        most = T.alloc_buffer((1,), "float32")
        total = T.alloc_buffer((1,), "float32")
        most[0] = T.float32({start})
        for j in range(16):
            most[0] = T.max(most[0], A[i, j])
        total[0] = T.float32(0)
        for j in range(16):
            total[0] = total[0] + T.exp(A[i, j] - most[0])
        for j in range(16):
            B[i, j] = T.exp(A[i, j] - most[0]) / total[0]
"""
SHARED = """
@T.prim_func
def shared(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    S = T.alloc_shared((1,), "int32")
    if tx == 0:
        S[0] = A[0]
    B[tx] = S[0]
"""
NORM = """
@T.prim_func(s_tir=True)
def {name}(A: T.Buffer((4, 64)), B: T.Buffer((4, 64))):
    m = T.alloc_buffer((2,), "float32")
    for i in range(4):
        m[0] = T.float32(0)
        m[1] = T.float32(0)
        for k in range(64):
            m[0] = m[0] + A[i, k] / T.float32(64)
        for k in range(64):
            m[1] = m[1] + {square}
        for k in range(64):
            B[i, k] = (A[i, k] - m[0]) / T.sqrt(T.max(m[1], T.float32(0)) + T.float32(1e-3))
"""
OFF, SQUARES = "(A[i, k] - m[0]) * (A[i, k] - m[0])", "(A[i, k] * A[i, k] - m[0] * m[0])"
LAST_BLOCK = """
@T.prim_func(s_tir=True)
def last(A: T.Buffer((4,)), F: T.Buffer((1,), "uint32"), P: T.Buffer((4,)), C: T.Buffer((1,))):
    with T.launch_thread("threadIdx.x", 1) as tx:
        F[0] = T.uint32(0)
    with T.launch_thread("blockIdx.x", 4) as bx:
        place = T.alloc_local((1,), "uint32")
        P[bx] = A[bx]
        T.evaluate(T.call_extern("int32", "__threadfence"))
        place[0] = T.call_extern("uint32", "atomicAdd", T.address_of(F[0]), T.uint32(1))
        if place[0] == T.uint32(3):
            T.evaluate(T.call_extern("int32", "__threadfence"))
            C[0] = P[0] + P[1] + P[2] + P[3]
"""


class Case(NamedTuple):
    """A program, its command, the exit code, and what is told and what is not."""

    text: str
    words: tuple[str, ...]
    code: int
    told: str
    untold: str = "Traceback"


REFERENCE = ("--reference", "own.py:meant")
CASES = {
    "slots that every third block uses": Case(
        SLOTS + COPY, ("check", "own.py:slots", *REFERENCE), 1, "race: "
    ),
    "a fast path of multiples of 96": Case(
        FAST_PATH + COPY, ("check", "own.py:fast", *REFERENCE), 1, "elements are wrong"
    ),
    "a thread for each of 1,025": Case(
        THREAD_EACH + COPY, ("check", "own.py:each", *REFERENCE), 1, "1025 threads exceeds a GPU's"
    ),
    "a scalar that launches blocks": Case(
        SCALAR, ("check", "own.py:pairs"), 0, "clean on simulator 65 n open"
    ),
    "nothing to say at one element": Case(
        SHARE, ("check", "own.py:share"), 0, "1 module: all good", "finding"
    ),
    "a serial block named root": Case(
        SERIAL_ROOT, ("check", "own.py:gather"), 0, "numbers right on cpu"
    ),
    "an exchange that TVM refuses": Case(
        IN_BRANCH, ("check", "own.py:branch", *REFERENCE), 1, "1 finding", "on cpu"
    ),
    "a reference that cannot be used": Case(
        TURNED,
        ("check", "own.py:turned", *REFERENCE),
        3,
        "the reference of turned: its numbers cannot be judged",
        "clean",
    ),
    "a maximum that begins at 0": Case(
        SOFTMAX.format(name="zero", start="0") + SOFTMAX.format(name="meant", start='"-inf"'),
        ("check", "own.py:zero", *REFERENCE),
        1,
        "is nan, and",
    ),
    "a script of launched threads": Case(
        LAUNCHED + COPY,
        ("why", "own.py:late", *REFERENCE),
        1,
        "run     the script shows it: tirstep finds: ",
    ),
    "more rows than places": Case(RING, ("check", "own.py:ring"), 1, "race: "),
    "a cell that all threads share, in a script": Case(
        SHARED, ("why", "own.py:shared"), 1, "shows it: tirstep finds: main: race: load of S[0]"
    ),
    "a variance that cancels, in a script": Case(
        NORM.format(name="unstable", square=SQUARES) + NORM.format(name="meant", square=OFF),
        ("why", "own.py:unstable", *REFERENCE),
        1,
        "run     the script shows it: tirstep finds: ",
    ),
    "a variance that cancels, beside one that does not": Case(
        NORM.format(name="unstable", square=SQUARES) + NORM.format(name="meant", square=OFF),
        ("diff", "own.py:meant", "--against", "own.py:unstable", "--numbers"),
        1,
        "numbers  meant/00_input right, unstable/00_input wrong, on cpu",
    ),
    "CUDA's own fence": Case(LAST_BLOCK, ("check", "own.py:last"), 0, "clean on simulator"),
    "no fence": Case(
        LAST_BLOCK.replace('T.call_extern("int32", "__threadfence")', "0", 1),
        ("check", "own.py:last"),
        1,
        "race: ",
    ),
    "a line that never ran": Case(
        RARE, ("why", "own.py:rare"), 3, "never ran", "nothing is wrong\n"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_of_a_kind_that_was_judged_wrongly(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(HEAD + case.text)
    result = command(*case.words)
    said = result.out + result.err
    assert (result.code, case.told in said, case.untold in said) == (case.code, True, False), said
