"""Functions in other people's files: found, respelt and held against the rules, and not run."""

from __future__ import annotations

from pathlib import Path

import pytest
import run_published
from published import read_published

TEXT = '''
"""Nothing of this file runs."""
from tvm.script import tir as T, ir as I
import a_package_that_nobody_has

raise SystemExit("this file was run")


def test_something():
    @I.ir_module
    class Before:
        @T.prim_func
        def twice(var_A: T.handle, B: T.Buffer[(8, 16), "float32"]):
            T.func_attr({"tir.noalias": True})
            A = T.match_buffer(var_A, (8, 16))
            C = T.alloc_buffer((8, 16))
            for i, j in T.grid(8, 16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * T.float32(2)
            for i, j in T.grid(8, 16):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    more: T.float32 = C[vi, vj] + T.float32(1)
                    B[vi, vj] = more

        @T.prim_func(private=True)
        def bound(A: T.Buffer((8,)), B: T.Buffer((8,))):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi]


@T.prim_func(s_tir=True)
def place_of_the_largest(A: T.Buffer((8, 16)), at: T.Buffer((8,), "int32"), B: T.Buffer((8,))):
    for i, j in T.grid(8, 16):
        with T.sblock("largest"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                at[vi] = -1
                B[vi] = T.min_value("float32")
            place: T.let[T.int32] = T.Select(B[vi] >= A[vi, vj], at[vi], vj)
            value: T.let[T.float32] = T.Select(B[vi] >= A[vi, vj], B[vi], A[vi, vj])
            at[vi] = place
            B[vi] = value


@T.prim_func
def sized(A: T.Buffer((SIZE,), "float32")):
    T.evaluate(0)
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "theirs.py").write_text(TEXT)
    (tmp_path / "again.py").write_text(TEXT)
    (tmp_path / "broken.py").write_text("def (:\n")
    return tmp_path


def test_functions_are_read_without_running_the_file(place: Path) -> None:
    found = list(read_published(place))
    functions = {each.name: each for each in found if each.function is not None}
    assert set(functions) == {"test_something.Before.twice", "place_of_the_largest"}
    assert len([each for each in found if each.function is not None]) == 2  # each program once
    assert "more: T.let[T.float32]" in str(functions["test_something.Before.twice"].function)
    reasons = {each.name: each.reason for each in found if each.function is None}
    assert reasons["test_something.Before.bound"] == "it is scheduled already"
    assert "SIZE" in reasons["sized"]


def test_coverage_has_counts_and_reasons(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["run_published.py", str(place), "--left"])
    assert run_published.main() == 0
    printed = capsys.readouterr().out
    assert f"{place}: 1 of 2 functions: flat 1, left 1" in printed
    assert "not tried: it is scheduled already 2, not parsed 2" in printed
    assert "place_of_the_largest: no matmul: " in printed
    assert "1: no rows: block '..' reduces to N results at a time" in printed
