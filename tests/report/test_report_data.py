"""The values of a report, and the page as a file."""

import dataclasses
import json
import re
from pathlib import Path

from golden_runs import run_golden
from report_data import unpack_document

from tirstep.cli.report.document import SCRIPTS, Report, Text, as_document, render_report
from tirstep.cli.report.jobs import do_job
from tirstep.cli.request import make_request
from tirstep.cli.screen import Screen
from tirstep.lowering_checks import print_module
from tirstep.transforms.recipes import RECIPES

PAGE = Path(__file__).resolve().parents[2] / "src/tirstep/cli/report/page"


def test_a_document_gives_every_text_back_and_keeps_it_once(report: Report):
    document = as_document(report)
    assert json.loads(json.dumps(document)) == document
    assert len(set(document["lines"])) == len(document["lines"])
    assert len(set(map(tuple, document["texts"]))) == len(document["texts"])
    for part, recipe in zip(report.recipes, document["recipes"], strict=True):
        run = run_golden(RECIPES[part.name])
        for step, keys in zip(run.steps, recipe["steps"], strict=True):
            lines = [document["lines"][line] for line in document["texts"][keys["tir"]]]
            assert lines == print_module(step.module).splitlines()
            assert keys["label"] == f"{step.index:02d}_{step.name}"
    assert Text.of("\na\nb\n\n") == Text(("a", "b"))


def test_passes_follow_each_other(report: Report):
    step = report.recipes[1].steps[-1]
    assert step.passes[0]["before"] == step.tir
    assert step.pass_count > len(step.passes)
    sync = next(entry for entry in step.passes if entry["name"] == "s_tir.ThreadSync")
    new = set(sync["after"].lines) - set(sync["before"].lines)
    assert any("tvm_storage_sync" in line for line in new)


def test_facts_counts_and_verdicts_are_there_where_a_step_can_run(report: Report):
    first, *_, last = report.recipes[1].steps
    assert first.facts["rows"] == ()
    assert first.facts["missing"]
    assert first.device_source["missing"]
    values = {row.key: row.value for row in last.facts["rows"]}
    assert values["barriers_executed"] == values["counted_barriers"] >= 1
    assert values["sectors"] > 0
    assert values["bank_conflicts"] == 0
    assert last.checks["numbers"] == "right"
    assert last.checks["checked_on"].startswith("simulator ")
    assert "device" not in as_document(dataclasses.replace(report, device=None))


def test_the_page_is_one_file_that_names_no_other(report: Report):
    page = render_report(report)
    assert unpack_document(page) == as_document(report)
    assert re.findall(r'\b(?:src|href)="([^"]*)"', page) == ["data:,", "#main"]
    assert not re.search(r"https?://|@import|url\(", page)
    assert page == render_report(report)
    named = {*(f"{name}.js" for name in SCRIPTS), "page.css", "page.html"}
    assert {path.name for path in PAGE.iterdir()} == named


MODULE = """from tvm.script import tirx as T

@T.prim_func
def own(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for i in T.thread_binding(64, thread="threadIdx.x"):
        C[i] = A[i]
"""


def test_a_module_without_a_shape_is_counted_too(tmp_path: Path):
    file = tmp_path / "own.py"
    file.write_text(MODULE)
    request = make_request(None, None, None, None, device="simulator")
    part = do_job(f"{file}:own", [f"{file}:own"], request, "cuda", True, Screen())
    assert part.shape == ""
    (step,) = part.steps
    assert {row.key: row.value for row in step.facts["rows"]}["sectors"] == 16
    assert step.checks["reference"] == "the program in float64"
