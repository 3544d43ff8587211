"""Scripts hold names as text, show what is wrong or say why not, and compare within bounds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from golden_runs import run_default_example
from kernels import parse_kernel
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import CheckError
from tirstep.lowering_checks.bisect import (
    bisect_run,
    find_bad_pass,
    run_reproducer,
    write_reproducer,
)
from tirstep.lowering_checks.bisect.reproducer import quote
from tirstep.lowering_checks.numeric import compare_outputs, get_default_bound
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.transforms import suggest_unrolling
from tirstep.transforms.recipes import Example, recipe

TEXTS = [
    "plain\n",
    "x''' + __import__('os').system('touch pwned') + r'''\n",
    "no newline at the end",
    "ends with a backslash \\\n",
    "\\",
    'quotes " and \'\'\' and """\n',
    "'\n",
    "line\r\nends\x0c and \x00 others\u2028\n",
    "",
    "''",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_back_as_it_was(text: str) -> None:
    names: dict[str, str] = {}
    exec(quote("TEXT", text), {}, names)
    assert names["TEXT"].removeprefix("\n") == text


Sum = parse_kernel("""
    A (8, 8), C (8,)
    for i, k in T.grid(8, 8):
        with T.sblock("C", "SR", i, k):
            C[vi] += A[vi, vk]
""")


NAME = "x''' + __import__('pathlib').Path('pwned').touch() + r'''"
INPUT = np.arange(64, dtype="float32").reshape(8, 8)


def find_wrong(name: str = "C"):
    """A sum that loses its last term, in a block of any name."""
    text = Sum.script().replace("T.grid(8, 8)", "T.grid(8, 7)")
    wrong = from_source(text.replace('T.sblock("C")', f"T.sblock({name!r})"))
    blank = np.zeros(8, "float32")
    found = find_bad_pass(wrong, [INPUT, blank], [INPUT.sum(axis=1)], "llvm", kernel=Sum)
    assert found is not None
    return found


def test_names_of_blocks_are_no_code(tmp_path: Path) -> None:
    script = tmp_path / "why.py"
    write_reproducer(find_wrong(NAME), script)
    assert "pwned" in script.read_text()
    done = subprocess.run(
        [sys.executable, script.name], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "8 of 8 elements are wrong" in done.stdout
    assert not (tmp_path / "pwned").exists()


def test_a_script_is_seen_to_fail(tmp_path: Path) -> None:
    write_reproducer(find_wrong(), tmp_path / "why.py")
    shown = run_reproducer(tmp_path / "why.py")
    assert (shown.is_shown, shown.text) == (True, "8 of 8 elements are wrong")


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("raise ValueError('no such pass')", "ValueError: no such pass"),
        ("x = (", "SyntaxError: '(' was never closed"),
        ("print('0 of 8 elements are wrong')", "0 of 8 elements are wrong"),
        ("pass", "it ends with 0"),
        ("import time; time.sleep(60)", "it does not end within 0.5 s"),
        ("print('8 of 8 elements are wrong'); raise KeyError(1)", "KeyError: 1"),
    ],
)
def test_another_end_shows_nothing(tmp_path: Path, program: str, text: str) -> None:
    (tmp_path / "why.py").write_text(program)
    shown = run_reproducer(tmp_path / "why.py", seconds=0.5 if "sleep" in program else 60)
    assert (shown.is_shown, shown.text) == (False, text)


Exponential = parse_kernel("""
    A (64,), C (64,)
    for i in range(64):
        with T.sblock("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = T.exp(A[vi])
""")


def test_floats_may_be_off_by_a_bound() -> None:
    inputs = np.linspace(-2, 2, 64, dtype="float32")
    right, blank = np.exp(inputs.astype("float64")).astype("float32"), np.zeros(64, "float32")
    assert find_bad_pass(Exponential, [inputs, blank], [right], "llvm") is None
    near, far = right * np.float32(1 + 2e-6), right * np.float32(1 + 1e-3)
    assert find_bad_pass(Exponential, [inputs, blank], [near], "llvm") is None
    assert find_bad_pass(Exponential, [inputs, blank], [far], "llvm") is not None
    assert find_bad_pass(Exponential, [inputs, blank], [far], "llvm", bounds=[0.1]) is None
    assert find_bad_pass(Exponential, [inputs, blank], [right], "llvm", bounds=[0.0]) is not None
    with pytest.raises(CheckError, match="1 outputs are expected and 2 bounds given"):
        find_bad_pass(Exponential, [inputs, blank], [right], "llvm", bounds=[0.1, 0.1])


@pytest.mark.parametrize(
    ("got", "expected", "is_right"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0000002], [1.0, 2.0], False),
        ([1.5, 2.0000002], [1.5, 2.0], True),
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([np.nan, 1.0], [1.0, 1.0], False),
        ([1.0, 1.0], [np.nan, 1.0], False),
        ([np.inf, 0.5], [np.inf, 0.5], True),
        ([-np.inf, 0.5], [np.inf, 0.5], False),
        ([1.0, 0.5], [np.inf, 0.5], False),
        # Beyond 2^24 every float32 is a whole number, and rounded.
        ([2.0**30 + 64, 3.0], [2.0**30, 3.0], True),
        ([], [], True),
    ],
)
def test_whole_numbers_are_exact_and_floats_are_near(
    got: list[float], expected: list[float], is_right: bool
) -> None:
    arrays = [np.array(one, "float32") for one in (got, expected)]
    found = compare_outputs([arrays[0]], [arrays[1]], names=["C"], where="main")
    assert (found == []) == is_right


def test_large_integers_are_compared_exactly() -> None:
    one = np.array([2**60 + 1], "int64")
    assert get_default_bound(one) == 0
    (finding,) = compare_outputs([one], [one - 1], names=["C"], where="main")
    assert finding.message.startswith(f"C[0] is {2**60 + 1}, and the expected output has {2**60};")
    assert compare_outputs([one], [one], names=["C"], where="main") == []


QUOTIENTS = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((32,), "float32"), Y: T.Buffer((32,), "float32")):
    for i in range(32):
        with T.sblock("Y"):
            vi = T.axis.spatial(32, i)
            Y[vi] = A[(31 - vi) // 4 + 8]
"""
"""TVM's FlattenBuffer takes other elements of A."""


@recipe(
    kernel=ModuleKernel(tvm.IRModule({"main": from_source(QUOTIENTS)}), "Quotients"),
    blocks=("Y",),
    default_example=Example({}),
    golden=Example({}),
)
def quotients(sch: Schedule) -> Iterator[str]:
    suggest_unrolling(sch, sch.get_loops(sch.get_sblock("Y"))[0])
    yield "unrolled"


def test_a_kernel_that_tvm_spoils_as_it_was_written_is_held_against_its_reference(
    tmp_path: Path,
) -> None:
    """What LLVM makes of the kernel is as wrong as what it makes of the step."""
    found = bisect_run(run_default_example(quotients)).first_bad
    assert (found.kind, found.name, found.step.index) == ("pass", "tirx.FlattenBuffer", 0)
    path = tmp_path / "quotients.py"
    write_reproducer(found, path)
    shown = run_reproducer(path)
    assert (shown.is_shown, shown.text) == (True, "24 of 32 elements are wrong")
