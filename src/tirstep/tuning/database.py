"""A database of MetaSchedule's that a project without tirstep applies.

Two files of JSON lines in one folder. A record is replayed first, by TVM alone in a process of its
own; then it is put into copies of the two files, which take their places.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord
from tvm.s_tir.schedule import Trace
from tvm_ffi import structural_equal

from tirstep.bench import BenchError
from tirstep.files import locked, require_writable, write_file
from tirstep.processes import REPLAYED, run_alone
from tirstep.programs.databases import load_database, mark_bools

WORKLOAD_FILE, RECORD_FILE = "database_workload.json", "database_tuning_record.json"
_REPLAY = """
import sys
from pathlib import Path

import tvm
from tvm.s_tir.meta_schedule.database import JSONDatabase

HERE = Path(__file__).parent


def replay():
    database = JSONDatabase(work_dir=str(HERE), allow_missing=False)
    workload = tvm.ir.load_json((HERE / "workload.json").read_text(encoding="utf-8"))
    target = tvm.target.Target("llvm")  # databases are not asked for a target
    found = database.query_schedule(workload, target, "main")
    return found or sys.exit("TVM finds no schedule for the workload")
"""


def require_database(folder: Path, workload: tvm.IRModule, target: Any) -> None:
    """Refuse, before anything is tuned, a folder into which `add_record` cannot put its record.

    Raises `BenchError` or `ProgramError` for files that are no database, and for one that has
    records of the workload for another target: TVM takes the fastest, whatever it was for.
    """
    if folder.exists() and not folder.is_dir():
        raise BenchError(f"{folder} is not a folder; give a folder for the database")
    workloads, records = folder / WORKLOAD_FILE, folder / RECORD_FILE
    if _read(records).strip() and not _read(workloads).strip():
        raise BenchError(
            f"{folder} has {RECORD_FILE} and no {WORKLOAD_FILE}, which says what its records are "
            "of; give another folder, or put that file back"
        )
    if _read(workloads).strip():
        load_database(workloads)
        with tempfile.TemporaryDirectory(prefix="tirstep-") as scratch:
            known = _copy(folder, Path(scratch)).get_all_tuning_records()
        for other in [it.target for it in known if structural_equal(it.workload.mod, workload)]:
            if other is not None and str(other) != str(target):
                raise BenchError(
                    f"{folder} has records of this workload for the target {other.kind.name} "
                    f"({other}), and TVM would take the fastest of any target; give another folder"
                )
    folder.mkdir(parents=True, exist_ok=True)
    for file in (workloads, records):
        require_writable(file)


def add_record(
    folder: Path, workload: tvm.IRModule, trace: Trace, seconds: Sequence[float], target: Any
) -> bool:
    """Add a record to a folder's database, after TVM alone has replayed it; False where it is
    there already, with these times.

    Other processes may do the same at the same time. Raises `BenchError` where it does not replay,
    and leaves the folder as it was.
    """

    def commit(place: Path) -> str:
        """Put the record into the files of a database; its line."""
        info = ArgInfo.from_entry_func(workload, remove_preproc=True)
        database = JSONDatabase(work_dir=str(place))
        committed = database.commit_workload(workload)
        record = TuningRecord(trace, committed, [*map(float, seconds)], target, info)
        database.commit_tuning_record(record)
        *others, last = _read(place / RECORD_FILE).splitlines(keepends=True)
        line = mark_bools(last, trace)
        write_file(place / RECORD_FILE, "".join([*others, line]), durable=False)
        return line

    with tempfile.TemporaryDirectory(prefix="tirstep-") as alone:
        commit(Path(alone))
        _verify(Path(alone), workload, trace)
    with locked(folder / RECORD_FILE), tempfile.TemporaryDirectory(prefix="tirstep-") as scratch:
        made, before = Path(scratch), _read(folder / RECORD_FILE)
        _copy(folder, made)
        line = commit(made)
        if line in before.splitlines(keepends=True):
            return False
        # A workload without a record is no harm, where this ends between the two.
        write_file(folder / WORKLOAD_FILE, _read(made / WORKLOAD_FILE))
        write_file(folder / RECORD_FILE, before + line)
    return True


def _copy(folder: Path, scratch: Path) -> JSONDatabase:
    """A copy of the database of a folder, in another one."""
    for name in (WORKLOAD_FILE, RECORD_FILE):
        write_file(scratch / name, _read(folder / name), durable=False)
    return JSONDatabase(work_dir=str(scratch))


def _read(file: Path) -> str:
    """The lines of a file, each with its end; "" where there is none."""
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return text if text.endswith("\n") or not text else f"{text}\n"


def _verify(folder: Path, workload: tvm.IRModule, trace: Trace) -> None:
    """Replay the one record of a database in a process without tirstep."""
    expected = tvm.s_tir.Schedule(workload)
    trace.apply_to_schedule(expected, remove_postproc=False)
    for name, text in (("replay.py", _REPLAY), ("workload.json", tvm.ir.save_json(workload))):
        write_file(folder / name, text, durable=False)
    if reason := run_alone(REPLAYED, str(folder), given=tvm.ir.save_json(expected.mod)):
        raise BenchError(
            f"the fastest does not replay with only TVM: {reason}; the database is as it "
            "was, and the trials are kept"
        )
