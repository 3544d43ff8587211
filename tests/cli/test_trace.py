"""``tirstep trace``: apps that know nothing of it, and what commands make of the folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tirstep.tracing import INDEX, read_rows

from .conftest import Command

HEAD = """
import os, sys
import numpy as np
import tvm
from tvm.script import tirx as T
"""
GATHER = (
    HEAD
    + """
@T.prim_func(s_tir=True)
def gather(
    pool: T.Buffer((8, 16), "float32"),
    at: T.Buffer((4,), "int32"),
    out: T.Buffer((4, 16), "float32"),
):
    for i, j in T.grid(4, 16):
        with T.sblock("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = pool[at[vi] * at[vi] - 100, vj]

def run(at):
    pool, out = np.ones((8, 16), "float32"), np.zeros((4, 16), "float32")
    given = [tvm.runtime.tensor(it) for it in (pool, np.array(at, "int32"), out)]
    tvm.compile(gather, "llvm")["gather"](*given)
    return given[-1].numpy().sum()
"""
)
STORE = (
    HEAD
    + """
@T.prim_func
def store(
    new: T.Buffer((4, 16), "float32"),
    slots: T.Buffer((4,), "int32"),
    cache: T.Buffer((32, 16), "float32"),
):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            cache[slots[b], t] = new[b, t]

if __name__ == "__main__":
    built = tvm.compile(store, tvm.target.Target("nvidia/nvidia-h100"))
    new, cache = (np.ones((rows, 16), "float32") for rows in (4, 32))
    given = new, np.array([3, 7, 3, 1], "int32"), cache
    try:
        built["store"](*map(tvm.runtime.tensor, given))  # not on a GPU
    except Exception:
        print("refused")
"""
)

FAILED = (
    HEAD
    + """
@T.prim_func
def repeated(a: T.handle, b: T.handle):
    k, l, m, n = T.int32(), T.int32(), T.int32(), T.int32()
    o, p, q = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (k, l, m, n, o, p), "float32")
    B = T.match_buffer(b, (q,), "float32")
    T.device_entry()
    bx = T.cta_id([k])
    tx = T.thread_id([4])
    B[bx * 4 + tx] = A[bx, 0, 0, 0, 0, 0]

@tvm.ir.instrument.pass_instrument
class Broken:
    def run_before_pass(self, module, info):
        if len(sys.argv) > 1:
            raise RuntimeError("it failed:\\nx.cu(3): warning\\nx.cu(4): error: no\\n1\\n\\0\\0")

with tvm.transform.PassContext(instruments=[Broken()]):
    made = tvm.IRModule({"main": repeated})
    try:
        built = tvm.compile(made, tvm.target.Target("nvidia/nvidia-h100"), tir_pipeline="tirx")
        shapes = (8, 1, 1, 1, 1, 1), (32,)
        built(*(tvm.runtime.tensor(np.ones(it, "float32")) for it in shapes))
    except Exception:
        print("failed")
"""
)


def trace(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Of an app as a user begins it; what it prints is its own."""
    return subprocess.run(
        [sys.executable, "-m", "tirstep", "trace", "traced", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


@pytest.mark.share(5)
@pytest.mark.parametrize(
    ("rest", "code", "printed", "told"),
    [
        ("print(run([10, 10, 10, 10]), sys.argv[1:])", 0, "64.0 ['--json', '-h']\n", ""),
        ("run([10, 10, 10, 10]); raise SystemExit(7)", 7, "", ""),
        ("run([10, 10, 10, 10]); raise KeyError('mine')", 1, "", "KeyError: 'mine'\n"),
        ("run([10, 10, 10, 10]); os.kill(os.getpid(), 9)", 137, "", ""),
        ("os.system(f'{sys.executable} -c \"import app; app.run([10] * 4)\"')", 0, "", ""),
    ],
)
def test_an_app_is_as_without_it_and_its_functions_are_checked_as_they_were_called(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rest: str,
    code: int,
    printed: str,
    told: str,
):
    """No random draw fits what it is called with."""
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(f"{GATHER}\nif __name__ == '__main__':\n    {rest}\n")
    Path("plain.py").write_text(GATHER)
    done = trace(tmp_path, "--", sys.executable, "app.py", "--json", "-h")
    assert (done.returncode, done.stdout) == (code, printed)
    summary = "tirstep: traced: 1 build, 1 function, 1 with arguments; "
    assert done.stderr.endswith(f"{told}{summary}next: tirstep report traced -o report.html\n")
    assert "not judged" in command("check", "plain.py:gather", "--device", "cpu").out
    checked = command("check", "traced/:gather", "--device", "cpu")
    assert (checked.code, "numbers right on cpu" in checked.out) == (0, True)
    listed = command("list", "traced").out.splitlines()[0]
    assert (listed[:15], listed[-20:]) == ("capture  gather", "tvm.compile for llvm")


@pytest.mark.share(3)
def test_a_gpu_s_function_is_wrong_with_the_integers_that_it_was_called_with(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(STORE)
    assert trace(tmp_path, "--", sys.executable, "app.py").stdout == "refused\n"
    assert "numbers right on simulator" in command("check", "app.py").out
    found = command("check", "traced")
    assert (found.code, "race: store to cache[3, 0]" in found.out) == (1, True)
    explained = command("why", "traced/:store")
    assert (explained.code, "the script shows it: tirstep finds: " in explained.out) == (1, True)
    assert "cache[slots[b], t]" in command("steps", "traced/:store").out
    assert "s_tir.ThreadSync" in command("lower", "traced/:store").out
    assert "threads per block" in command("facts", "traced/:store").out
    compared = command("diff", "traced/:store", "--against", "app.py:store", "--numbers")
    assert "the same up to names" in compared.out
    page = command("report", "traced", "--no-checks", "-o", "page.html")
    assert (page.code, "1 program" in page.out) == (0, True)


@pytest.mark.parametrize("words", [(), ("fail",)])
def test_a_function_has_its_author_s_name_and_the_sizes_that_it_was_called_with(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    """One that was put into a module as ``main``, of more open sizes than are at hand, of which one
    must be four times another: no other sizes are tried. A build that fails is listed, too.
    """
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(FAILED)
    assert trace(tmp_path, "--", sys.executable, "app.py", *words).stdout == "failed\n"
    (listed, *_) = command("list", "traced").out.splitlines()
    assert listed.startswith("capture  repeated")
    assert not words or listed.endswith("failed: RuntimeError: x.cu(4): error: no")
    checked = command("check", "traced/:repeated")
    assert words or (checked.code, "clean on simulator 8x1x1x1x1x1x32" in checked.out) == (0, True)
    if words:
        assert checked.code == 2
        assert checked.err.endswith(
            "it was not called while it was traced, and nothing says how its sizes k, l, m, n, o, "
            "p, q belong together; give --shape\n"
        )
        checked = command("check", "traced", "--shape", "8x1x1x1x1x1x32")
        assert (checked.code, "clean on simulator 8x1x1x1x1x1x32" in checked.out) == (0, True)


@pytest.mark.share(2)
def test_an_index_that_left_its_buffer_is_a_finding(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(f"{GATHER}\nrun([10, 11, 10, 10])\n")
    trace(tmp_path, "--", sys.executable, "app.py")
    result = command("check", "traced", "--device", "cpu")
    told = "gather: with at as recorded, an index leaves its buffer; guard it with a condition"
    assert (result.code, told in " ".join(result.out.split())) == (1, True)


SCHEDULED = """
import tvm
from tvm import relax
from tvm.relax.frontend import nn

class Model(nn.Module):
    def forward(self, x):
        return nn.op.softmax(x, axis=-1)

for rows in ("n", 6):
    spec = {"forward": {"x": nn.spec.Tensor((rows, 40), "float32")}}
    relax.build(Model().export_tvm(spec)[0], tvm.target.Target("nvidia/nvidia-h100"))
"""


@pytest.mark.share(3)
def test_a_schedule_of_tvm_s_own_is_a_step(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With open sizes at others, too; with sizes in its text there alone."""
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(SCHEDULED)
    trace(tmp_path, "--", sys.executable, "app.py")
    result = command("check", "traced/:softmax", "--shape", "5", "--runs", "0")
    assert (result.code, "01_ApplyDefaultSchedule   golden none" in result.out) == (0, True)
    assert "numbers right on simulator 5" in result.out
    result = command("check", "traced/:softmax_2", "--runs", "0")
    assert (result.code, "numbers right on simulator" in result.out) == (0, True)
    assert "threadIdx.x" in command("diff", "traced/:softmax_2").out
    result = command("check", "traced/:softmax_2", "--shape", "20")
    told = "softmax_2: passes made it for the sizes in its text; leave --shape out"
    assert (result.code, result.err) == (2, f"tirstep: {told}\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("mine", "--", "touch", "ran"),
            "mine: it is not a trace of tirstep's, and stays as it is",
        ),
        (("mine/file", "--", "touch", "ran"), "mine/file: it is not a trace of tirstep's"),
        (("new/deep", "--", "touch", "ran"), "new/deep: No such file or directory"),
        (("new", "--", "nosuch"), "there is no program nosuch; give it after --"),
        (("new",), "Missing argument 'COMMAND'"),
    ],
)
def test_wrong_use_runs_nothing(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    sentence: str,
):
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/file").write_text("mine")
    result = command("trace", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"tirstep: {sentence}")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "file"]


def test_an_app_that_compiles_nothing_is_told(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    result = command("trace", "traced", "--", "true")
    assert result.code == 0
    assert result.err == (
        "tirstep: traced: nothing was compiled, or only by a Python without tirstep; a Python "
        "started with -I, -E or -S is not recorded\n"
    )
    result = command("check", "traced")
    told = "tirstep: traced is a trace without functions of TIR: nothing was compiled in it"
    assert (result.code, result.err.startswith(told)) == (2, True)


def test_a_row_that_is_not_whole_is_none_and_a_lost_file_is_told(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(f"{GATHER}\nrun([10, 10, 10, 10])\n")
    trace(tmp_path, "--", sys.executable, "app.py")
    rows = read_rows(Path("traced"))
    with open(Path("traced", INDEX), "a") as index:
        index.write(json.dumps(rows[0])[:100])
    assert read_rows(Path("traced")) == rows
    (file,) = Path("traced", "functions").iterdir()
    file.write_text("{")
    result = command("check", "traced")
    assert (result.code, result.err.startswith("tirstep: traced: 'gather' cannot be read: ")) == (
        2,
        True,
    )


@pytest.mark.share(3)
def test_another_sitecustomize_runs_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.mine = 5\n")
    (tmp_path / "app.py").write_text(f"{GATHER}\nprint(sys.mine, run([10] * 4), len(sys.path))\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    plain = subprocess.run(
        [sys.executable, "app.py"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert plain.stdout.startswith("5 64.0 ")
    assert trace(tmp_path, "--", sys.executable, "app.py").stdout == plain.stdout
