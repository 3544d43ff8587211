"""The database that a project without tirstep applies."""

from pathlib import Path

import pytest
import tuned_programs
import tvm
from tvm import relax
from tvm.ir import assert_structural_equal
from tvm.s_tir.meta_schedule.database import JSONDatabase
from tvm.s_tir.schedule import Trace

from tirstep.bench import BenchError
from tirstep.programs.naming import ProgramError
from tirstep.tuning import database
from tirstep.tuning.database import RECORD_FILE, WORKLOAD_FILE, add_record, require_database
from tirstep.tuning.tuner import NORMALIZE, schedule

LLVM = tvm.target.Target("llvm")


def make_workload(n: int) -> tvm.IRModule:
    return NORMALIZE(tuned_programs.twice_plus_one.problem(n=n).module["main"])


def make_trace(workload: tvm.IRModule, inner: int = 4) -> Trace:
    sch, reason = schedule(tuned_programs.folded, workload, {"inner": inner, "fold": 1})
    assert reason == ""
    return sch.trace


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] != "."}


@pytest.fixture
def unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the process that replays, which takes seconds."""
    monkeypatch.setattr(database, "_verify", lambda *_: None)


def test_tvm_alone_applies_the_fastest_record(tmp_path: Path) -> None:
    """The last of these is verified in a process of its own, as all are."""
    workload = make_workload(64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_verify", lambda *_: None)
        assert add_record(tmp_path, workload, make_trace(workload, 2), [3e-6, 5e-6], LLVM)
    assert add_record(tmp_path, workload, make_trace(workload, 8), [1e-6, 2e-6], LLVM)
    found = JSONDatabase(work_dir=str(tmp_path), allow_missing=False)
    assert len(found) == 2
    module = found.query_ir_module(workload, LLVM, "main")
    expected = tuned_programs.folded.steps(workload, inner=8)[-1].module
    assert_structural_equal(module, expected)


@pytest.mark.usefixtures("unverified")
def test_other_workloads_and_records_stay(tmp_path: Path) -> None:
    for n in (64, 32):
        workload = make_workload(n)
        require_database(tmp_path, workload, LLVM)
        assert add_record(tmp_path, workload, make_trace(workload), [1e-6], LLVM)
        assert not add_record(tmp_path, workload, make_trace(workload), [1e-6], LLVM)
    found = JSONDatabase(work_dir=str(tmp_path), allow_missing=False)
    assert len(found) == 2
    for n in (64, 32):
        module = found.query_ir_module(make_workload(n), LLVM, "main")
        expected = tuned_programs.folded.steps(make_workload(n), inner=4)[-1].module
        assert_structural_equal(module, expected)


@pytest.mark.usefixtures("unverified")
def test_a_relax_model_has_its_function_scheduled(tmp_path: Path) -> None:
    workload = make_workload(64)
    add_record(tmp_path, workload, make_trace(workload), [1e-6], LLVM)
    # As Relax makes its functions: private, and without a word on aliases.
    function = tuned_programs.twice_plus_one.problem(n=64).module["main"]
    builder = relax.BlockBuilder()
    called = builder.add_func(function.without_attr("global_symbol"), "twice_plus_one")
    given = relax.Var("x", relax.TensorType((64,), "float32"))
    with builder.function("forward", [given]):
        result = relax.call_tir(called, (given,), relax.TensorType((64,), "float32"))
        builder.emit_func_output(builder.emit(result))
    with LLVM:
        module = relax.transform.MetaScheduleApplyDatabase(str(tmp_path))(builder.get())
    scheduled = module["twice_plus_one"]
    assert scheduled.attrs["tirx.is_scheduled"]
    expected = tuned_programs.folded.steps(workload, inner=4)[-1].module["main"]
    assert_structural_equal(scheduled.body, expected.body, map_free_vars=True)


@pytest.mark.usefixtures("unverified")
def test_records_for_another_target_are_kept_apart(tmp_path: Path) -> None:
    """TVM takes the fastest of a workload, whatever it was for."""
    workload = make_workload(64)
    add_record(tmp_path, workload, make_trace(workload), [1e-6], LLVM)
    before = read(tmp_path)
    cuda = tvm.target.Target("nvidia/nvidia-h100")
    with pytest.raises(BenchError, match=r"records of this workload for the target llvm .* give"):
        require_database(tmp_path, workload, cuda)
    require_database(tmp_path, make_workload(32), cuda)
    assert read(tmp_path) == before


def test_what_does_not_replay_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the process that replays makes another module than this one expects."""
    workload = make_workload(64)
    other = database._REPLAY.replace("return found", "return tvm.s_tir.Schedule(workload)")
    assert other != database._REPLAY
    monkeypatch.setattr(database, "_REPLAY", other)
    with pytest.raises(BenchError, match=r"does not replay with only TVM: .*; the database is as"):
        add_record(tmp_path, workload, make_trace(workload), [1e-6], LLVM)
    assert read(tmp_path) == {}


@pytest.mark.parametrize(
    ("files", "error", "sentence"),
    [
        ({RECORD_FILE: "[0, []]\n"}, BenchError, f"has {RECORD_FILE} and no {WORKLOAD_FILE}"),
        ({WORKLOAD_FILE: "[1, 2"}, ProgramError, f"{WORKLOAD_FILE}:1: no JSON"),
        ({WORKLOAD_FILE: '["1", "x"]\n'}, ProgramError, f"{WORKLOAD_FILE}:1: TVM does not read it"),
    ],
)
def test_a_broken_database_stays_as_it_is(
    tmp_path: Path, files: dict[str, str], error: type[Exception], sentence: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = read(tmp_path)
    with pytest.raises(error, match=sentence):
        require_database(tmp_path, make_workload(64), LLVM)
    assert read(tmp_path) == before


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("mine")
    with pytest.raises(BenchError, match="is not a folder; give a folder for the database"):
        require_database(tmp_path / "db", make_workload(64), LLVM)
    assert (tmp_path / "db").read_text() == "mine"
