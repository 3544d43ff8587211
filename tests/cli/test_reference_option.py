"""``--reference``: what a module of barriers must compute, by the program that it was made from."""

from pathlib import Path

import pytest

from .conftest import Command

PROGRAMS = """
@T.prim_func
def plain(X: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
    for i in range(64):
        Y[i] = X[63 - i] + T.float32(1)


@T.prim_func
def turned(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_buffer((64,), "float32", scope="shared")
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        C[tx] = S[63 - tx] + T.float32(1)


@T.prim_func
def wrong(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_buffer((64,), "float32", scope="shared")
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        C[tx] = S[tx] + T.float32(1)


@T.prim_func
def narrow(A: T.Buffer((32,), "float32"), C: T.Buffer((64,), "float32")):
    for i in range(64):
        C[i] = A[i // 2]


@T.prim_func
def unturned(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        C[tx] = A[tx] + T.float32(1)


@T.prim_func
def doubled(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    C = T.match_buffer(c, (n,))
    for i in range(n):
        C[i] = A[i] * T.float32(2)


@T.prim_func
def launched(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    with T.launch_thread("blockIdx.x", (n + 31) // 32) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            if bx * 32 + tx < n:
                B[bx * 32 + tx] = A[bx * 32 + tx] * T.float32(2)
"""
FILES = {"pair.py": PROGRAMS}
pytestmark = pytest.mark.usefixtures("folder")


def test_what_cannot_judge_itself_is_sent_to_a_reference(command: Command) -> None:
    result = command("check", "pair.py:turned")
    assert (result.code, "numbers clean on simulator" in result.out) == (0, True)
    assert "name a plain program that computes the same: --reference FILE:NAME" in result.out
    assert "tirstep check pair.py:turned --reference FILE:NAME" in result.out
    assert "tirstep why" not in result.out
    # Facts need no reference, nor does a page.
    facts = command("facts", "pair.py:turned")
    assert (facts.code, "512" in facts.out) == (0, True)
    page = command("report", "pair.py:turned", "-o", "page.html")
    assert (page.code, Path("page.html").is_file()) == (0, True)
    assert "turned clean: " in page.out


def test_a_reference_judges_it(command: Command) -> None:
    right = command("check", "pair.py:turned", "--reference", "pair.py:plain")
    assert (right.code, "numbers right on simulator" in right.out) == (0, True)
    wrong = command("check", "pair.py:wrong", "--reference", "pair.py:plain")
    assert wrong.code == 1
    assert "63 of 64 elements are wrong" in wrong.out or "64 of 64" in wrong.out
    assert "tirstep why pair.py:wrong --reference pair.py:plain" in wrong.out
    found = command("why", "pair.py:wrong", "--reference", "pair.py:plain")
    assert (found.code, "step 0 input" in found.out) == (1, True)


def test_the_reference_s_parameters_are_taken_by_their_places(command: Command) -> None:
    """Its output is Y, and the program's is C; the script has no threads."""
    found = command("why", "pair.py:unturned", "--reference", "pair.py:plain")
    assert (found.code, "the script shows it: " in found.out) == (1, True), found.out


def test_threads_are_launched_over_an_open_size(command: Command) -> None:
    result = command("check", "pair.py:launched", "--reference", "pair.py:doubled")
    assert (result.code, "numbers right on simulator 65 n open" in result.out) == (0, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["pair.py:turned", "--reference", "pair.py:narrow"],
            "its reference narrow takes A float32",
        ),
        (["pair.py:turned", "--reference", "pair.py"], "has 7 programs, and a reference is one"),
        (["relu_bound", "--reference", "pair.py:plain"], "--reference is for modules of your own"),
        (["pair.py:turned", "--reference", "gone.py:f"], "there is no file gone.py"),
    ],
)
def test_wrong_use(command: Command, words: list[str], sentence: str) -> None:
    result = command("check", *words)
    assert result.code == 2
    assert sentence in result.out + result.err
