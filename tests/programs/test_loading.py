"""How a place is read: what is parsed and what is run, and under which name."""

import ast
import sys
from pathlib import Path

import pytest
from own_files import HEAD, MODULE, make_function

from tirstep.programs.loading import is_script, load_place
from tirstep.programs.naming import ProgramError, describe_error, is_program, read_spelling


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MODULE, True),
        (HEAD + MODULE, True),
        (f'"""Printed."""\n{HEAD}{MODULE}', True),
        (make_function("main") + MODULE, True),
        (f"# only comments\n\n{make_function('main')}", True),
        ("", False),
        (HEAD, False),
        ("x = 1\n" + MODULE, False),
        ("import os\n" + MODULE, False),
        (MODULE + "\nprint(1)\n", False),
        (MODULE.replace("@I.ir_module", "@decorate"), False),
        (MODULE.replace("@I.ir_module", "@other.ir_module"), False),
        (MODULE.replace("@I.ir_module", "@I.ir_module\n@more"), False),
        (MODULE.replace("@I.ir_module\n", ""), False),
    ],
)
def test_what_has_to_be_run(text: str, expected: bool):
    assert is_script(ast.parse(text)) is expected


def test_every_part_of_a_script_is_there_at_its_line(folder: Path):
    (folder / "several.py").write_text(f"{make_function('one')}\n{MODULE}\n{make_function('two')}")
    loaded = load_place("several.py")
    lines = (folder / "several.py").read_text().splitlines()
    assert list(loaded.values) == ["one", "Mine", "two"]
    for name in loaded.values:
        assert name in lines[int(loaded.locate(name).rpartition(":")[2]) - 1]
    (folder / "several.py").rename(folder / "wrong.py")
    wrong = (folder / "wrong.py").read_text()
    at = wrong.rindex("A[vi] + A[vi]")
    (folder / "wrong.py").write_text(wrong[:at] + "Z[vi]")
    with pytest.raises(ProgramError, match=f"wrong.py:{wrong[:at].count(chr(10)) + 1}: TVM does"):
        load_place("wrong.py")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("with open(__file__):\n    a = 1\n    b: int = 2\n", "ab"),
        ("a, (b, *c) = 1, (2, 3)\n", "abc"),
        ("if True:\n    a = b = 1\nelse:\n    c = 2\n", "ab"),
        ("for a in (1, 2):\n    b = a\n", "ab"),
        ("try:\n    a = 1 / 0\nexcept ZeroDivisionError:\n    b = 1\nfinally:\n    c = 2\n", "bc"),
        ("with open(__file__) as a:\n    def b():\n        x = 1\n", "ab"),
        ("if (a := 1):\n    class b:\n        x = 2\n", "ab"),
        ("a = [x for x in (1, 2)]\nb = lambda x: x\n", "ab"),
    ],
)
def test_what_statements_assign_is_of_the_file(folder: Path, text: str, names: str):
    (folder / "assigns.py").write_text(f"import sys\n{text}")
    sys.modules.pop("assigns", None)
    loaded = load_place("assigns.py")
    assert set(loaded.lines) & set(loaded.values) == set(names)


ILL_FORMED = [
    (
        """@T.prim_func(s_tir=True)
def gathers(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            p: T.int32 = A[v]
            C[v] = A[p]
""",
        "4: TVM does not parse it: 'gathers' is not well-formed: buffer p is used without a prior "
        "DeclBuffer or other declaration; write the block's T.reads and T.writes, or p: T.let = "
        "VALUE",
    ),
    (
        """@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def fine(A: T.Buffer((8,), "int32")):
        A[0] = 1

    @T.prim_func
    def blocks(A: T.Buffer((8,), "int32")):
        A[0] = 1
        with T.sblock("A"):
            A[1] = 2
""",
        "10: TVM does not parse it: 'blocks' is not well-formed: TIR verifier does not support "
        "statement s_tir.SBlockRealize; blocks need @T.prim_func(s_tir=True) above def blocks",
    ),
]


@pytest.mark.parametrize("is_run", [False, True])
@pytest.mark.parametrize(("text", "told"), ILL_FORMED)
def test_a_program_that_is_not_well_formed(folder: Path, text: str, told: str, is_run: bool):
    name = f"ill_formed_{is_run}_{len(text)}.py"
    head = "import sys;from tvm.script import ir as I, tirx as T;" if is_run else ""
    line, _, told = told.partition(": TVM does not parse it")
    text = f"{head}\n{text}" if is_run else text
    (folder / name).write_text(text)
    with pytest.raises(ProgramError) as error:
        load_place(name)
    verb = "it cannot be imported" if is_run else "TVM does not parse it"
    assert str(error.value).startswith(f"{name}:{int(line) + is_run}: {verb}{told}")


def test_a_file_finds_its_neighbours_and_keeps_their_classes(folder: Path):
    (folder / "base_of_these.py").write_text("class Base:\n    pass\n")
    (folder / "first_of_these.py").write_text("from base_of_these import Base\n")
    first = load_place("first_of_these.py")
    base = load_place("base_of_these.py")
    assert first.values["Base"] is base.values["Base"]


def test_a_file_of_a_package_has_relative_imports(folder: Path):
    package = folder / "packed_here" / "deep"
    package.mkdir(parents=True)
    (folder / "packed_here" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "names.py").write_text("x = 1\n")
    (package / "uses.py").write_text("from .names import x\n")
    loaded = load_place("packed_here/deep/uses.py")
    assert (loaded.module, loaded.values["x"]) == ("packed_here.deep.uses", 1)


@pytest.mark.parametrize("name", ["json", "tvm", "with-dash", "two words", "numpy"])
def test_a_file_with_the_name_of_a_package_hides_none(folder: Path, name: str):
    before = sys.modules.get(name)
    (folder / f"{name}.py").write_text("x = 1\n")
    loaded = load_place(f"{name}.py")
    assert loaded.values["x"] == 1
    assert sys.modules.get(name) is before
    assert loaded.module.startswith("_tirstep_")


def test_a_path_may_have_colons(folder: Path):
    (folder / "a:b").mkdir()
    (folder / "a:b" / "c.py").write_text(MODULE)
    assert read_spelling("a:b/c.py").names == ()
    assert read_spelling("a:b/c.py:Mine").names == ("Mine",)
    assert read_spelling(f"{folder}/a:b/c.py:Mine").place == f"{folder}/a:b/c.py"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("matmul_naive", False),
        ("gemm-tutorial", False),
        ("-", True),
        ("-:Module", True),
        ("a.py", True),
        ("package.module", True),
        ("module:name", True),
        ("db/", True),
        ("./db", True),
    ],
)
def test_which_texts_are_programs(text: str, expected: bool):
    assert is_program(text) is expected


def test_an_error_in_one_line():
    assert describe_error(ValueError("one\ntwo")) == "ValueError: one"
    assert describe_error(ZeroDivisionError()) == "ZeroDivisionError"
    schedule = type("ScheduleError", (RuntimeError,), {})
    assert describe_error(schedule("TIR\nError message: no\n")) == "no"


@pytest.mark.parametrize(
    ("head", "encoding"),
    [("", "utf-8-sig"), ("# -*- coding: latin-1 -*-\n# größe\n", "latin-1")],
)
@pytest.mark.parametrize("script", [True, False])
def test_a_file_is_read_as_python_reads_it(folder: Path, head: str, encoding: str, script: bool):
    text = head + ("" if script else "import sys\n") + HEAD + make_function("mine")
    (folder / "marked.py").write_text(text, encoding=encoding)
    assert "mine" in load_place("marked.py").values
