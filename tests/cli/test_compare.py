"""`tirstep diff --numbers`: two programs side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

AGAINST = ("--numbers", "--against")
HEAD = """
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

"""
MODULE = """
@I.ir_module
class {name}:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer(({size},), "float32"), B: T.Buffer(({size},), "float32")):
        for i in range({size}):
            with T.sblock("{block}"):
                v = T.axis.spatial({size}, i)
                B[v] = {value}
"""


def write(file: Path, name: str, value: str, *, size: int = 24, block: str = "B") -> str:
    """A file of one module; its spelling for a command."""
    file.write_text(HEAD + MODULE.format(name=name, value=value, size=size, block=block))
    return str(file)


@pytest.fixture
def first(tmp_path: Path) -> str:
    return write(tmp_path / "first.py", "First", "A[v] * T.float32(3) + T.float32(1)")


def test_two_schedules_of_one_kernel(command):
    done = command("diff", "matmul_naive", *AGAINST, "matmul_shared")
    assert done.code == 0
    assert "+                                    for ax1_0 in T.thread_binding(16" in done.out
    assert "numbers  bitwise equal, and right, on simulator" in done.out
    row = next(line for line in done.out.splitlines() if "barriers, executed" in line)
    assert row.split()[-2:] == ["0", "8"]


def test_the_second_runs_at_the_shape_of_the_first(command):
    document = command("diff", "relu_bound", *AGAINST, "relu_vectors", "--json").document
    first, second = (program["shape"] for program in document["programs"])
    assert first == second


def test_steps_of_one_recipe(command):
    document = command(
        "diff",
        "matmul_shared",
        *AGAINST,
        "matmul_shared",
        "--step",
        "1",
        "--against-step",
        "0",
        "--json",
    ).document
    assert [program["step"] for program in document["programs"]][1] == "input"
    assert document["same_numbers"]
    assert not document["same_structure"]


def test_other_names_are_the_same_structure(command, first: str, tmp_path: Path):
    second = write(
        tmp_path / "second.py", "Second", "A[v] * T.float32(3) + T.float32(1)", block="Other"
    )
    done = command("diff", first, *AGAINST, second)
    assert done.code == 0
    assert "structure  the same up to names" in done.out
    assert '-            with T.sblock("B"):' in done.out


@pytest.mark.parametrize(
    ("value", "code", "sentence"),
    [
        ("A[v] * T.float32(3) + T.float32(1.5)", 1, "Second/00_input wrong, on cpu"),
        (
            "T.if_then_else(v < 23, A[v] * T.float32(3) + T.float32(1), A[v])",
            1,
            "Second/00_input wrong",
        ),
        ("A[v] * T.float32(2) + (A[v] + T.float32(1))", 0, "rounded differently: B in "),
        ("(A[v] + T.float32(1) / T.float32(3)) * T.float32(3)", 1, "Second/00_input wrong, on cpu"),
    ],
)
def test_numbers_decide(command, first: str, tmp_path: Path, value: str, code: int, sentence: str):
    done = command("diff", first, *AGAINST, write(tmp_path / "second.py", "Second", value))
    assert done.code == code, done.out
    assert sentence in done.out


def test_other_arguments_are_refused(command, first: str, tmp_path: Path):
    second = write(tmp_path / "second.py", "Second", "A[v]", size=25)
    done = command("diff", first, *AGAINST, second)
    assert done.code == 2
    assert "takes A float32[25], B float32[25], and First/00_input A float32[24]" in done.err


def test_a_program_that_is_not_lowered_is_wrong(command, first: str, tmp_path: Path):
    second = tmp_path / "second.py"
    text = Path(first).read_text().replace("class First", "class Second")
    second.write_text(
        text.replace("for i in range(24)", 'for i in T.thread_binding(24, thread="threadIdx.x")')
    )
    document = command("diff", first, *AGAINST, str(second), "--json").document
    assert [program["checked_on"] for program in document["programs"]] == ["cpu", "simulator"]
    assert document["same_bits"]


def test_functions_of_two_modules_are_compared_by_name(command, tmp_path: Path):
    text = HEAD + MODULE.format(name="M", value="A[v]", size=8, block="B").replace("main", "same")
    both = text + text.partition("class M:\n")[2].replace("same", "other").replace(
        "A[v]", "A[v] * A[v]"
    )
    files = [tmp_path / f"{name}.py" for name in ("both", "wrong", "less")]
    for file, content in zip(files, (both, both.replace("* A[v]", "+ A[v]"), text), strict=True):
        file.write_text(content.replace("import tvm\n", ""))
    both_file, wrong, less = map(str, files)
    done = command("diff", both_file, *AGAINST, wrong)
    assert done.code == 1
    assert done.out.index("wrong, on cpu") < done.out.index("numbers  bitwise equal, and right, on")
    result = command("diff", both_file, *AGAINST, less)
    assert result.code == 2
    assert f"{both_file}:M.other is only in one of {both_file} and {less}" in result.err
