"""Programs for an older TVM: what `tirstep modernize` makes of them, what other commands say."""

from pathlib import Path

import old_programs
import pytest

from tirstep.programs.modernizing import Modernized, modernize_text

from .conftest import ROOT, Command

SPELLINGS = [
    # A line, and what it is now, in a file with these imports.
    ("x = tvm.nd.array(y, tvm.gpu(0)).asnumpy()", "x = tvm.runtime.tensor(y, tvm.cuda(0)).numpy()"),
    ("x = tvm.tir.Block, tvm.tir.PrimFunc", "x = tvm.s_tir.SBlock, tvm.tirx.PrimFunc"),
    ("x = tir.Schedule(y).get_block('C')", "x = s_tir.Schedule(y).get_sblock('C')"),
    ("x = T.ptx_mma", "x = T.ptx_legacy.mma"),
    ("x = tvm.tir.TensorIntrin.register(y)", "x = tvm.s_tir.TensorIntrin.register(y)"),
    ("with cfg({'tir.use_async_copy': 1}): pass", "with cfg({'tirx.use_async_copy': 1}): pass"),
    ("x = {'tir.noalias': T.bool(True)}", "x = {'tirx.noalias': True}"),
    ("x = {'other': T.bool(True)}", "x = {'other': T.bool(True)}"),
    ("x = Target('cuda -arch=sm_80')", 'x = Target({"kind": "cuda", "arch": "sm_80"})'),
    ("x = Target('llvm')", "x = Target('llvm')"),
    ("x = tvm.build(m, target=t).entry_name", "x = tvm.compile(m, target=t).mod.entry_name"),
    ("def f(tir): return tir.Schedule", "def f(tir): return tir.Schedule"),
    ("x = self.tir.Schedule, f(tir=1)", "x = self.tir.Schedule, f(tir=1)"),
    ("x = tvm.relax.TensorStructInfo, y.struct_info", "x = tvm.relax.TensorType, y.ty"),
    (
        "x = tvm.relax.call_tir(f, y, out_sinfo=z)",
        "x = tvm.relax.call_tir(f, y, out_ty=z)",
    ),
    ("x = tvm.arith.Analyzer().simplify(y)", "x = tvm.sym.Analyzer().simplify(y)"),
    ("x = tvm.ir.structural_equal(a, b)", "x = tvm_ffi.structural_equal(a, b)"),
]
IMPORTS = [
    ("from tvm import te, tir\nx = tir.Schedule", "from tvm import te, s_tir\nx = s_tir.Schedule"),
    ("from tvm import tir as t\nx = t.Var", "from tvm import tirx as t\nx = t.Var"),
    (
        "import tvm.tir as tir\nx = tir.Var, tir.Schedule",
        "from tvm import s_tir\nimport tvm.tirx as tirx\nx = tirx.Var, s_tir.Schedule",
    ),
    (
        "from tvm.tir import PrimFunc, Schedule\nx = PrimFunc",
        "from tvm.tirx import PrimFunc\nfrom tvm.s_tir import Schedule\nx = PrimFunc",
    ),
    (
        "from tvm import (\n    te,\n    tir,  # both\n)\nx = tir.Var, tir.Schedule",
        "from tvm import (\n    te,\n    s_tir, tirx,  # both\n)\nx = tirx.Var, s_tir.Schedule",
    ),
    (
        "from tvm.tir.schedule import BlockRV\nx: BlockRV = y",
        "from tvm.s_tir.schedule import SBlockRV\nx: SBlockRV = y",
    ),
    (
        "import tvm\nx = tvm.ir.structural_hash(y)",
        "import tvm\nimport tvm_ffi\nx = tvm_ffi.structural_hash(y)",
    ),
    (
        "if x: from tvm import arith; y = arith.Analyzer",
        "if x: from tvm import sym; y = sym.Analyzer",
    ),
    ("import tvm.tir.tensor_intrin.cuda", "import tvm.s_tir.tensor_intrin.cuda"),
    ("from .tvm import tir\nx = tir.Schedule", "from .tvm import tir\nx = tir.Schedule"),
]
TIRX = """
from tvm.script import tirx as T


@T.prim_func
def kernel(A: T.Buffer((64,), "float32")):  # for tvm.tir it was T.block("A")
    T.device_entry()
    tx = T.thread_id([64])
    local = T.alloc_buffer((1,), "float32", scope="local")
    local[0] = A[tx]
    x: T.float32 = local[0]
    A[tx] = x
"""
MODERN = """
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v]
"""
HELPER = "import tvm\n\nx = tvm.nd.array([1.0])\n"
FILES = {
    "old.py": old_programs.HANDLES,
    "printed.py": old_programs.PRINTED,
    "asks.py": "import old\n",
    "runs.py": f"{MODERN}\n\ndef mine(sch):\n    sch.get_block('C')\n",
    "helper.py": HELPER,
    "uses.py": "import sys\nimport helper\n",
    "marked.py": old_programs.SCHEDULED_TENSORS,
    "noalias.py": MODERN.replace(
        "    for i", '    T.func_attr({"tirx.noalias": T.bool(True)})\n    for i'
    ),
    "modern.py": MODERN,
    "python2.py": "import tvm\nprint 'x'\n",
    "windows.py": "import tvm\r\nx = tvm.nd.array\r\n",
}
TOLD = [
    (
        "old.py",
        "old.py:3: it cannot be imported: ImportError: cannot import name 'tir' from 'tvm'",
        "; it is written for an older TVM (tvm.tir -> tvm.s_tir, tvm.script.tir -> "
        "tvm.script.tirx, T.block -> T.sblock, T.prim_func -> T.prim_func(s_tir=True), "
        "tir.Schedule -> s_tir.Schedule, .get_block -> .get_sblock); run: tirstep modernize "
        "old.py --write\n",
    ),
    ("printed.py", "printed.py:14: TVM does not parse it: ", "printed.py --write\n"),
    ("asks.py", "asks.py:1: it cannot be imported", "; run: tirstep modernize old.py --write\n"),
    ("uses:x", "helper.py:3: uses cannot be imp", "run: tirstep modernize helper.py --write\n"),
    (
        "runs.py",
        "runs.py:14: AttributeError: 'Schedule' object has no attribute 'get_block'",
        "(.get_block -> .get_sblock); run: tirstep modernize runs.py --write\n",
    ),
    (
        "noalias.py",
        "noalias.py:6: 'f' has \"tirx.noalias\": T.bool(...), which TVM does not lower; write True",
        "(T.bool(True) -> True); run: tirstep modernize noalias.py --write\n",
    ),
    (
        "marked.py",
        "marked.py:8: it cannot be imported: AttributeError: module 'tvm.te' has no attribute",
        "; run: tirstep modernize marked.py --write\n",
    ),
]


@pytest.mark.share(5)
@pytest.mark.parametrize("name", old_programs.COMPILED)
def test_an_old_program_is_rewritten_compiles_and_is_judged(
    folder: Path, command: Command, name: str
):
    file = folder / f"old_{name}.py"
    file.write_text(old_programs.COMPILED[name])
    done = command("modernize", "--write", file.name)
    assert (done.code, done.out) == (0, "1 file: 1 rewritten; 0 places left to you\n")
    judged = command("check", file.name, "--runs", 0)
    assert judged.code == 0, judged.out + judged.err
    assert "numbers right" in judged.out or "numbers clean" in judged.out
    assert modernize_text(file.read_text()).renames == {}


@pytest.mark.parametrize("name", old_programs.MARKED)
def test_what_needs_a_decision_is_listed(folder: Path, command: Command, name: str):
    text, marks = old_programs.MARKED[name]
    (folder / "old.py").write_text(text)
    for options in (
        ["modernize", "old.py"],
        ["modernize", "old.py", "--write"],
        ["modernize", "old.py"],
    ):
        done = command(*options)
        assert done.code == 1
        assert [it for it in done.out.splitlines() if it.startswith("old.py:")] == [
            f"old.py:{mark}" for mark in marks
        ]


@pytest.mark.parametrize(("old", "new"), SPELLINGS)
def test_a_spelling(old: str, new: str):
    head = "import tvm\nfrom tvm import tir\nfrom tvm.script import tir as T\n"
    done = modernize_text(f"{head}from tvm.target import Target\n{old}")
    assert done.text.splitlines()[-1] == new
    assert done.marks == []


@pytest.mark.parametrize(("old", "new"), IMPORTS)
def test_imports_are_those_that_are_used(old: str, new: str):
    assert modernize_text(old).text == new


@pytest.mark.parametrize(
    "text",
    [
        TIRX,
        MODERN,
        *(
            (ROOT / name).read_text()
            for name in (
                "tests/golden/matmul_mma/07_tensorized.py",  # T.ptx_legacy
                "tests/conformance/originals/matmul_sum_over_threads_lowered.py",  # other T.bool
                "lowering_checks/reference/evaluation.py",  # a function hides its module in TVM
            )
        ),
    ],
)
def test_what_is_spelt_for_this_tvm_stays(text: str):
    assert modernize_text(text) == Modernized(text, {}, [])


def test_a_method_of_the_file_is_not_renamed():
    text = "import tvm\n\ndef get_block(x):\n    return x.get_block()\n"
    done = modernize_text(text)
    assert done.text == text
    assert [it.message for it in done.marks] == ["this is .get_sblock now where it is TVM's"]


def test_a_diff_is_printed_and_nothing_written(folder: Path, command: Command):
    before = (folder / "helper.py").read_bytes()
    done = command("modernize", "helper.py", "modern.py")
    assert done.code == 0
    assert "-x = tvm.nd.array([1.0])\n+x = tvm.runtime.tensor([1.0])\n" in done.out
    assert done.out.endswith("2 files: 1 to rewrite, by --write; 0 places left to you\n")
    assert (folder / "helper.py").read_bytes() == before


def test_line_ends_and_encodings_stay(folder: Path, command: Command):
    latin = folder / "latin.py"
    latin.write_bytes(
        "# -*- coding: latin-1 -*-\nimport tvm\nx = tvm.nd.array, 'ä'\n".encode("latin-1")
    )
    (folder / "windows.py").write_bytes(b"import tvm\r\nx = tvm.nd.array\r\n")
    assert command("modernize", "--write", "latin.py", "windows.py").code == 0
    assert latin.read_bytes().endswith("x = tvm.runtime.tensor, 'ä'\n".encode("latin-1"))
    assert (folder / "windows.py").read_bytes() == b"import tvm\r\nx = tvm.runtime.tensor\r\n"


def test_where_a_file_is_not_python_none_is_written(folder: Path, command: Command):
    done = command("modernize", "--write", "helper.py", "python2.py")
    assert (done.code, done.out) == (2, "")
    assert "tirstep: python2.py: it is not valid Python, so nothing is written: " in done.err
    assert (folder / "helper.py").read_text() == HELPER
    assert (
        command("modernize", "missing.py").err == "tirstep: missing.py: No such file or directory\n"
    )


@pytest.mark.parametrize(("program", "begin", "end"), TOLD)
def test_a_command_says_the_new_names_and_what_to_run(
    folder: Path,
    command: Command,
    program: str,
    begin: str,
    end: str,
):
    done = command("check", program)
    assert done.code == 2
    assert done.err.startswith(f"tirstep: {begin}"), done.err
    assert done.err.endswith(end), done.err
