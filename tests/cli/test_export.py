"""``tirstep export --as trace|python|database|tirx``: what is written needs TVM alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import warm_python
from tvm.ir import assert_structural_equal
from tvm.script import from_source

from tirstep.cli import export
from tirstep.modules import softmax
from tirstep.processes import run_alone
from tirstep.transforms.recipes import find_recipe

from .conftest import Command

IMPORTS = """from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Model:"""
FUNCTION = """
    @T.prim_func(s_tir=True)
    def {name}(A: T.Buffer((8, 32)), B: T.Buffer((8, 32))):
        for i, j in T.grid(8, 32):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""
SCHEDULE = """

def on_threads(sch: Schedule):
    i, j = sch.get_loops(sch.get_sblock("B"))
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
"""
SMALL = ("--shape", "m=6,n=64", "--set", "threads=8")


def replay(folder: Path) -> str:
    """What the export prints in a process of its own, which has TVM alone; the command has run it
    with ``python -I``.
    """
    return warm_python.run(
        [sys.executable, folder / "replay.py"], text=True, check=True, cwd=folder.parent
    ).stdout


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("form", "files"),
    [
        ("trace", {"replay.py", "module.json", "trace.json"}),
        ("python", {"replay.py"}),
        ("database", {"replay.py", "database_workload.json", "database_tuning_record.json"}),
    ],
)
def test_a_schedule_replays(command: Command, tmp_path: Path, form: str, files: set[str]) -> None:
    """With options of passes that are bools, an index map, and a copy for several readers."""
    folder = tmp_path / "out"
    result = command("export", "softmax_vectors", folder, "--as", form, *SMALL)
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith(f"softmax_vectors at 6x64 as {form}, replayed with only TVM\n")
    assert {path.name for path in folder.iterdir()} == files
    module = softmax.problem(m=6, n=64).module
    expected = find_recipe("softmax_vectors").steps(module, threads=8)[-1].module
    assert_structural_equal(from_source(replay(folder)), expected)


def test_one_function_of_a_module_replays(command: Command, tmp_path: Path) -> None:
    """As those of a Relax model: it is the export's `main`, where the trace looks for blocks."""
    file, folder = tmp_path / "model.py", tmp_path / "out"
    functions = "".join(FUNCTION.format(name=name) for name in ("first", "second"))
    file.write_text(f"{IMPORTS}{functions}{SCHEDULE}", encoding="utf-8")
    result = command("export", file, folder, "--as", "trace", "--function", "second")
    assert (result.code, result.err) == (0, "")
    scheduled = from_source(replay(folder))
    assert [str(name.name_hint) for name in scheduled.get_global_vars()] == ["main"]
    assert 'thread="blockIdx.x"' in scheduled.script()


@pytest.mark.usefixtures("nothing_is_run_again")
def test_an_export_is_replaced_only_when_asked(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert command("export", "vector_add_bound", folder, "--as", "python").code == 0
    before = (folder / "replay.py").read_text(encoding="utf-8")
    again = command("export", "relu_bound", folder, "--as", "python")
    assert "is an export already; replace it with --force" in again.err
    assert (folder / "replay.py").read_text(encoding="utf-8") == before
    assert command("export", "relu_bound", folder, "--as", "python", "--force").code == 0
    assert "relu_bound" in (folder / "replay.py").read_text(encoding="utf-8")


def test_what_needs_tirstep_is_not_written(command: Command, tmp_path: Path) -> None:
    result = command(
        "export", "matmul_mma", tmp_path / "out", "--as", "trace", "--shape", "m=256,n=256,k=64"
    )
    assert result.code == 2
    assert "matmul_mma does not replay with only TVM as trace: " in result.err
    assert result.err.endswith("is not registered\n")
    assert not (tmp_path / "out").exists()


def test_a_wrong_replay_is_not_written(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_END", "\ndef replay():\n    return s_tir.Schedule(Module)\n")
    result = command("export", "vector_add_bound", tmp_path / "out", "--as", "python")
    assert "does not replay with only TVM as python: it makes a different module;" in result.err
    assert not (tmp_path / "out").exists()


def test_other_files_stay(command: Command, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine", encoding="utf-8")
    result = command("export", "vector_add_bound", tmp_path, "--as", "trace", "--force")
    assert "has files that are not from such an export; give another DIR" in result.err
    assert (
        "is not a folder"
        in command("export", "vector_add_bound", tmp_path / "notes", "--as", "trace").err
    )
    missing = tmp_path / "a" / "b"
    assert "there is no folder" in command("export", "relu_bound", missing, "--as", "python").err


@pytest.mark.usefixtures("nothing_is_run_again")
@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("error", [OSError(5, "broken disk"), KeyboardInterrupt()])
def test_an_export_is_not_lost_while_it_is_replaced(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: int,
    error: BaseException,
):
    folder = tmp_path / "out"
    assert command("export", "vector_add_bound", folder, "--as", "python").code == 0
    before = (folder / "replay.py").read_text()
    calls, replace = 0, os.replace

    def fail(*paths: object) -> None:
        nonlocal calls
        if os.path.isdir(paths[0]):
            calls += 1
        if calls == failing and os.path.isdir(paths[0]):
            raise error
        replace(*paths)

    monkeypatch.setattr(os, "replace", fail)
    code = command("export", "relu_bound", folder, "--as", "python", "--force").code
    assert code == (2 if isinstance(error, OSError) else 130)
    assert (folder / "replay.py").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.usefixtures("nothing_is_run_again")
def test_an_empty_folder_is_taken(command: Command, tmp_path: Path) -> None:
    assert command("export", "vector_add_bound", tmp_path, "--as", "python").code == 0


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("name", "shape", "barrier"),
    [
        ("matmul_prefetched", "", "T.cuda.cta_sync()"),
        ("softmax_best", "6x65536", 'T.ptx.barrier("cluster", "wait", "acquire", "aligned", "")'),
    ],
)
def test_a_kernel_of_tirx_stands_alone_and_is_taken_further(
    command: Command, tmp_path: Path, name: str, shape: str, barrier: str
) -> None:
    folder = tmp_path / "out"
    done = command("export", name, folder, "--as", "tirx", *["--shape", shape] * bool(shape))
    assert done.code == 0, done.err
    assert "its numbers right on the simulator" in done.out
    text = (folder / "kernel.py").read_text("utf-8")
    assert "tirstep." not in text
    compiled = "import sys; sys.path.insert(0, sys.argv[1]); import kernel, tvm; " + (
        f"tvm.compile(tvm.IRModule({{'main': kernel.{name}}}), tir_pipeline='tirx', "
        "target={'kind': 'cuda', 'arch': 'sm_90a'})"
    )
    assert not run_alone(compiled, str(folder))
    assert command("check", folder / "kernel.py").code == 0
    (folder / "racy.py").write_text(text.replace(barrier, "pass"), "utf-8")
    racy = command("check", folder / "racy.py")
    assert racy.code == 1
    assert "race: " in racy.out


@pytest.mark.share(2)
def test_what_has_no_form_in_tirx_is_refused(command: Command, tmp_path: Path) -> None:
    for name, why in (
        ("matmul_wgmma", "has no TIRx form that TVM lowers: "),
        ("decode_attention_split", "launches more than one kernel, or has statements after it"),
    ):
        refused = command("export", name, tmp_path / "out", "--as", "tirx")
        assert refused.code == 2
        assert why in refused.err
        assert not (tmp_path / "out").exists()
