"""MetaSchedule's databases: two files of JSON lines, workloads and the tuning records of these."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir.schedule import Trace

from .naming import ProgramError, describe_error

WORKLOADS, RECORDS = "workload", "tuning_record"
"""Parts of the names of the two files; a folder has ``database_workload.json`` and so on."""


@dataclass(frozen=True)
class Record:
    """A tuning record: how one workload was scheduled.

    Attributes
    ----------
    workload : the name of its workload
    is_best : whether it is the fastest of its workload
    """

    workload: str
    module: tvm.IRModule
    trace: Trace
    is_best: bool


def load_database(path: Path) -> dict[str, Any]:
    """Workloads by name, ``workload_0``, and their records, ``workload_0_record_0``, fastest first.

    `path` is a folder with the two files, or one of them; workloads need no records.
    """
    if path.is_dir():
        files = sorted(path.glob(f"*{WORKLOADS}*.json"))
        if len(files) != 1:
            raise ProgramError(
                f"{path} is not a MetaSchedule database: it has {len(files)} files "
                f"*{WORKLOADS}*.json; give one that has database_workload.json, or a file"
            )
        (path,) = files
    workloads_file = path.with_name(path.name.replace(RECORDS, WORKLOADS))
    if WORKLOADS not in workloads_file.name or not workloads_file.is_file():
        raise ProgramError(
            f"{path} has JSON lines, and no file of workloads beside it; give MetaSchedule's "
            "database_workload.json with its database_tuning_record.json beside it"
        )
    records_file = path.with_name(workloads_file.name.replace(WORKLOADS, RECORDS))
    from tvm.s_tir.meta_schedule.database import TuningRecord, Workload

    workloads = [_read(Workload.from_json, line, at) for line, at in _read_lines(workloads_file)]
    values: dict[str, Any] = {}
    found: dict[int, list[tuple[float, Any]]] = {number: [] for number in range(len(workloads))}
    for (number, row), at in _read_lines(records_file) if records_file.is_file() else ():
        if number not in found:
            raise ProgramError(f"{at}: there is no workload {number} in {workloads_file}")
        record = _read(lambda row: TuningRecord.from_json(row, workloads[number]), row, at)  # noqa: B023
        times = sorted(float(it) for it in record.run_secs or ())
        found[number].append((times[len(times) // 2] if times else float("inf"), record))
    for number, workload in enumerate(workloads):
        values[f"workload_{number}"] = workload.mod
        ranked = sorted(found[number], key=lambda pair: pair[0])
        for place, (_, record) in enumerate(ranked):
            name = f"workload_{number}"
            made = Record(name, workload.mod, record.trace, is_best=place == 0)
            values[f"{name}_record_{place}"] = made
    return values


def mark_bools(record: str, trace: Trace) -> str:
    """A record whose annotations are bools where they were, which TVM writes as 1 and 0."""
    number, row = json.loads(record)
    (instructions, _), *_ = row
    for written, item in zip(instructions, trace.insts, strict=True):
        if str(item.kind.name) == "Annotate" and isinstance(item.inputs[-1], bool):
            written[1][-1] = bool(item.inputs[-1])
    return json.dumps([number, row]) + "\n"


def _read_lines(file: Path) -> Iterator[tuple[Any, str]]:
    """Each line, with its place."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ProgramError(f"{file}:{number}: no JSON: {error}") from None
        if not isinstance(row, list) or len(row) != 2:
            raise ProgramError(f"{file}:{number}: a line of MetaSchedule's is a list of two")
        yield row, f"{file}:{number}"


def _read(make: Any, row: object, place: str) -> Any:
    try:
        return make(row)
    except Exception as error:  # TVM's errors are of many kinds
        raise ProgramError(f"{place}: TVM does not read it: {describe_error(error)}") from None
