"""``tirstep export``: a schedule that replays with only TVM."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tirstep.files import made_aside, write_file
from tirstep.processes import REPLAYED, run_alone

from .request import (
    RECIPE_OPTIONS,
    Request,
    argument,
    flag,
    option,
    pick_recipe,
    run_requested,
    with_options,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run

REPLAY, KERNEL = "replay.py", "kernel.py"
_MODULE, _TRACE = "module.json", "trace.json"
_WORKLOAD, _RECORD = "database_workload.json", "database_tuning_record.json"
FILES = {
    "trace": (REPLAY, _MODULE, _TRACE),
    "python": (REPLAY,),
    "database": (REPLAY, _WORKLOAD, _RECORD),
    "tirx": (KERNEL,),
}
"""The files of each form."""
_UNMEASURED = 1.0
"""Seconds of a tuning record, which MetaSchedule passes over without any; nothing was measured."""
_LAMBDA_CONSTANT = re.compile(r"(?<=[(,] )(\d+)(?=,)|(?<=: \()(\d+)(?=,)")
_REPLAYS = "`replay` returns the schedule, and run as a program\nthis prints its module."
_JUDGED = 'It is compiled by\n`tvm.compile(..., tir_pipeline="tirx")`.'
_IMPORT = "from tvm.script import tirx as T"
_BEGIN = f'''"""{{about}}

Written by tirstep export; it needs only TVM. {_REPLAYS}
"""
'''
_END = """

if __name__ == "__main__":
    print(replay().mod.script())
"""
_FROM_TRACE = '''
from pathlib import Path

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

HERE = Path(__file__).resolve().parent


def replay() -> Schedule:
    """The module of module.json, with the instructions of trace.json applied."""
    sch = Schedule(tvm.ir.load_json((HERE / "module.json").read_text(encoding="utf-8")))
    trace = tvm.ir.load_json((HERE / "trace.json").read_text(encoding="utf-8"))
    Trace.apply_json_to_schedule(trace, sch)
    return sch
'''
_FROM_DATABASE = '''
from pathlib import Path

from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.database import JSONDatabase

HERE = Path(__file__).resolve().parent


def replay() -> Schedule:
    """The one record of the database, on its workload; its time was not measured."""
    database = JSONDatabase(
        str(HERE / "database_workload.json"), str(HERE / "database_tuning_record.json")
    )
    (record,) = database.get_all_tuning_records()
    sch = Schedule(record.workload.mod)
    record.trace.apply_to_schedule(sch, remove_postproc=False)
    return sch
'''


@with_options(*RECIPE_OPTIONS)
def command(
    *,
    recipe: str,
    folder: Path = argument("DIR", "A new or empty folder."),
    form: str = option("--as", "|".join(FILES), "What to write.", default=...),
    request: Request,
    force: bool = flag("--force", "Replace DIR, if an export made it."),
    json: bool,
) -> int:
    """Write a recipe as a schedule for projects without tirstep.

    Writes its trace as JSON, as Python, or as a record in a MetaSchedule database, with a replay.py
    that applies it and was run once; or one TIRx kernel, kernel.py, whose numbers were checked.
    """
    from .formats import print_document, run_keys
    from .screen import Screen

    if form not in FILES:
        raise UseError(f"--as {form}: choose {' or '.join(FILES)}")
    picked = pick_recipe(recipe, request)
    if not folder.absolute().parent.is_dir():
        raise UseError(f"there is no folder {folder.parent}; create it, or give another DIR")
    if folder.exists() and not folder.is_dir():
        raise UseError(f"{folder} is not a folder; give another DIR")
    there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if there - set(FILES[form]):
        raise UseError(f"{folder} has files that are not from such an export; give another DIR")
    if there and not force:
        raise UseError(f"{folder} is an export already; replace it with --force")
    run, screen = run_requested(picked, request), Screen(quiet=json)
    with screen.working():
        screen.doing(f"replaying {run.recipe.name}")
        files = make_files(run, form)
        _verify(run, files, form)
        with made_aside(folder) as made:
            for name, text in files.items():
                write_file(made / name, text)
    how = "its numbers right on the simulator" if form == "tirx" else "replayed with only TVM"
    shape = run.problem.shape_text
    about = f"  {run.recipe.name}{shape and f' at {shape}'} as {form}, {how}"
    screen.line((str(folder), "bold"), about)
    if json:
        keys = {"folder": folder, "as": form, "files": [*files]}
        print_document("export", **run_keys(run), **keys)
    return 0


def make_files(run: Run, form: str) -> dict[str, str]:
    """The files of a form by their names."""
    import tvm
    from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord

    from tirstep.lowering_checks import print_module
    from tirstep.programs.databases import mark_bools
    from tirstep.programs.tirx_form import write_as_tirx

    module, trace = run.steps[0].module, run.steps[-1].trace
    shape = run.problem.shape_text
    begin = _BEGIN.format(about=f"{run.recipe.name} of {run.recipe.kernel_name} at {shape}.")
    if form == "tirx":
        kernel = write_as_tirx(run.steps[-1].module, run.recipe.name)
        return {KERNEL: f"{begin.replace(_REPLAYS, _JUDGED)}\n{_IMPORT}\n\n\n{kernel}\n"}
    if form == "trace":
        return {
            REPLAY: begin + _FROM_TRACE + _END,
            _MODULE: tvm.ir.save_json(module),
            _TRACE: tvm.ir.save_json(trace.as_json()),
        }
    if form == "database":
        with tempfile.TemporaryDirectory(prefix="tirstep-") as scratch:
            files = [Path(scratch) / name for name in (_WORKLOAD, _RECORD)]
            database = JSONDatabase(*map(str, files))
            workload = database.commit_workload(module)
            database.commit_tuning_record(TuningRecord(trace, workload, run_secs=[_UNMEASURED]))
            workloads, records = (file.read_text(encoding="utf-8") for file in files)
        rows = {_WORKLOAD: workloads, _RECORD: mark_bools(records, trace)}
        return {REPLAY: begin + _FROM_DATABASE + _END, **rows}
    # The module as TVMScript, and the trace as calls of TVM's schedule, in whose text a bool is 1,
    # and an index map has constants that it refuses.
    script, lines = print_module(module), list[str]()
    named = re.search(r"^class (\w+):", script, re.MULTILINE)
    values = [item.inputs[-1] for item in trace.insts if str(item.kind.name) == "Annotate"]
    for line in str(trace).splitlines():
        if line.lstrip().startswith("sch.annotate("):
            value = values.pop(0)
            if isinstance(value, bool):
                line = re.sub(r"ann_val=[01]\)$", f"ann_val={value})", line)
        if "index_map=lambda" in line:
            before, _, rest = line.partition("index_map=lambda")
            mapping, mark, after = rest.partition(", pad_value=")
            mapping = _LAMBDA_CONSTANT.sub(lambda found: f"const({found[0]})", mapping)
            line = f"{before}index_map=lambda{mapping}{mark}{after}"
        if not line.startswith("#"):
            lines.append(line)
    calls = "\n".join(lines)
    if named is None or "def apply_trace" not in calls:
        raise UseError("TVM cannot print this trace as Python; export it --as trace")
    replay = (
        f'def replay() -> s_tir.Schedule:\n    """The module, with all calls applied."""\n'
        f"    sch = s_tir.Schedule({named[1]})\n    apply_trace(sch)\n    return sch\n"
    )
    imports = (
        "\nfrom tvm import s_tir\nfrom tvm.script import ir as I\n"
        "from tvm.script import tirx as T\nfrom tvm.tirx import const\n\n\n"
    )
    parts = [begin + imports + script.rstrip(), calls.rstrip(), replay + _END]
    return {REPLAY: "\n\n\n".join(parts)}


def _verify(run: Run, files: dict[str, str], form: str) -> None:
    """Replay the files in a process without tirstep, or judge the kernel; raises `UseError` where
    that fails.
    """
    import tvm

    if form == "tirx":
        _judge(run, files[KERNEL])
        return
    with tempfile.TemporaryDirectory(prefix="tirstep-") as scratch:
        for name, text in files.items():
            write_file(Path(scratch, name), text)
        reason = run_alone(REPLAYED, scratch, given=tvm.ir.save_json(run.steps[-1].module))
    if reason:
        told = f"{run.recipe.name} does not replay with only TVM as {form}: {reason}"
        raise UseError(f"{told}; export it --as trace" if form == "python" else told)


def _judge(run: Run, text: str) -> None:
    """Raise `UseError` unless a kernel of TIRx has the right numbers at the run's shape."""
    import tvm
    from tvm.script import from_source

    from tirstep.lowering_checks.device import get_reason
    from tirstep.lowering_checks.devices.simulator import SimulatorDevice
    from tirstep.lowering_checks.judgement import Status, judge_numbers
    from tirstep.printing import silenced_stderr

    reason = ""
    try:
        with silenced_stderr():
            function = from_source(f"# {text[text.index(_IMPORT) :]}")
            module = tvm.IRModule({"main": function})
            judged = judge_numbers(run.problem, module, SimulatorDevice(), where=run.recipe.name)
        if judged.status is not Status.RIGHT:
            reason = str(judged.findings[0]) if judged.findings else judged.reason
    except Exception as error:  # of TVM's parser, which may refuse what TVM prints
        reason = get_reason(error)
    if reason:
        raise UseError(f"{run.recipe.name} has no TIRx form that TVM lowers: {reason}")
