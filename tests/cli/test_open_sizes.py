"""Programs whose sizes stay open: checked so, and bisected with `why --open`."""

import sys
from pathlib import Path

import pytest
import warm_python

from .conftest import Command

PROGRAM = """
@I.ir_module
class Open:
    @T.prim_func(s_tir=True)
    def main(a: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 8))
        C = T.match_buffer(c, (n, 8))
        B = T.sblock_alloc_buffer((n, 8))
        for i, j in T.grid(n, 8):
            with T.sblock("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[v, w] + T.float32(1)
        for i, j in T.grid(n, 8):
            with T.sblock("C"):
                v, w = T.axis.remap("SS", [i, j])
                C[v, w] = B[v, w] * T.float32(2)


def bound(sch):
    sch.compute_inline(sch.get_sblock("B"))
    rows, columns = sch.get_loops(sch.get_sblock("C"))
    outer, inner = sch.split(rows, [None, 4])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.y")
    sch.bind(columns, "threadIdx.x")


def lanes(sch):  # docs/tvm-findings.md, vectorized_buffer
    columns = sch.get_loops(sch.get_sblock("C"))[-1]
    sch.compute_at(sch.get_sblock("B"), columns)
    sch.vectorize(columns)
"""

NUMBERED = PROGRAM.replace("(a: T.handle, c: T.handle)", "(a: T.handle, n: T.int32, c: T.handle)")
NUMBERED = NUMBERED.replace("        n = T.int32()\n", "")
NUMBERED = NUMBERED.replace("match_buffer(a, (n, 8))", "match_buffer(a, (n + 1, 8))")
NUMBERED = NUMBERED.replace("A[v, w] + T.float32(1)", "A[v + 1, w] + T.Cast('float32', n)")
FILES = {"open.py": PROGRAM, "numbered.py": NUMBERED}
pytestmark = pytest.mark.usefixtures("folder")


def test_a_program_is_checked_with_its_sizes_open_too(command: Command):
    document = command("check", "open.py:bound", "--runs", "4", "--json").document
    (others,) = [each["other_runs"] for each in document["recipes"]]
    (run,) = [each for each in others if each["about"] == "with open sizes"]
    assert (run["symbolic"], run["numbers"]) == (["n"], "right")
    assert run["checked_on"].startswith("simulator ")
    assert document["ok"]


@pytest.mark.share(2)
def test_why_with_open_sizes_finds_the_pass_and_its_script_shows_it(command: Command, folder: Path):
    result = command("why", "open.py:lanes", "--open", "n", "--shape", "6")
    assert result.code == 1
    assert "after pass" in result.out
    assert "tirx.VectorizeLoop" in result.out
    assert "for i in range(n):" in result.out
    assert "run     the script shows it: " in result.out
    script = (folder / "why_lanes.py").read_text()
    assert "SHAPES = [[6, 8], [6, 8]]" in script
    done = warm_python.run([sys.executable, "why_lanes.py"], capture_output=True, cwd=folder)
    assert done.returncode == 1


def test_why_with_open_sizes_says_that_all_is_well(command: Command):
    for size in ("n", "all"):
        result = command("why", "open.py:bound", "--open", size, "--shape", "6")
        assert (result.code, "nothing is wrong" in result.out) == (0, True)
        assert "judged  by interpreter: 2 steps as scheduled" in result.out
        assert "not run" not in result.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["open.py:bound", "--open", "q"], "there is no size 'q' that could be symbolic"),
        (["softmax_vectors", "--open", "all"], "softmax_vectors has no sizes that can be symb"),
        (["vector_add_bound", "--open", "n,n"], "names a size twice"),
    ],
)
def test_what_cannot_be_left_open_is_a_sentence(command: Command, words: list[str], sentence: str):
    result = command("why", *words)
    assert (result.code, sentence in result.err) == (2, True), result.err


def test_a_parameter_that_is_a_size_too_is_given_and_left_open(command: Command):
    words = ("numbered.py:bound", "--shape", "n=37", "--runs", "4", "--device", "simulator")
    result = command("check", *words, "--json")
    assert result.code == 0
    (recipe,) = result.document["recipes"]
    (run,) = [each for each in recipe["other_runs"] if each["about"] == "with open sizes"]
    assert (run["symbolic"], run["numbers"]) == (["n"], "right")
    step = command("steps", "numbered.py:bound", "--shape", "n=37").out
    assert 'main(A: T.Buffer((38, 8), "float32"), n: T.int32, C: T.Buffer((37, 8)' in step


def test_a_wrong_program_with_such_a_parameter_has_a_script(command: Command, folder: Path):
    words = ("--shape", "n=5", "--open", "n", "--script", "shows.py")
    result = command("why", "numbered.py:lanes", *words)
    assert (result.code, "tirx.VectorizeLoop" in result.out) == (1, True)
    ran = warm_python.run(
        [sys.executable, "shows.py"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert (ran.returncode, "assert is_right.all()" in ran.stderr) == (1, True), ran.stderr


def test_such_programs_are_lowered_and_compared(command: Command):
    shape = ("--shape", "n=37")
    facts = command("facts", "numbered.py:bound", *shape, "--json")
    assert facts.code == 0
    assert command("lower", "numbered.py:bound", *shape).code == 0
    assert command("diff", "numbered.py:bound", *shape).code == 0
    numbers = ("--numbers", *shape)
    same = command("diff", "numbered.py:bound", "--against", "numbered.py:Open", *numbers)
    assert (same.code, "numbers  bitwise equal, and right, on" in same.out) == (0, True)
    other = command("diff", "numbered.py:bound", "--against", "open.py:bound", *numbers)
    assert (other.code, "compare programs with the same arguments, in" in other.err) == (2, True)
