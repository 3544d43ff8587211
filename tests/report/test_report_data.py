"""The values of a report, and the page as a file."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
from golden_runs import run_golden

from tirstep.cli.report.jobs import RecipeJob, do_job
from tirstep.cli.report.loops import Nest, find_buffers, find_nests
from tirstep.cli.report.model import Report, Text, TextTable, as_document
from tirstep.cli.report.render import SCRIPTS, STYLES, render_report, unpack_document
from tirstep.cli.request import make_request
from tirstep.cli.screen import Screen
from tirstep.lowering_checks import print_module
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.transforms.recipes import RECIPES

PAGE = Path(__file__).resolve().parents[2] / "src/tirstep/cli/report/page"
SHARED = run_golden(RECIPES["matmul_shared_blocking"])


def test_texts_are_kept_once_by_their_lines():
    table = TextTable()
    assert [table.add(Text.of(text)) for text in ("a\nb\n", "b\na\na\n", "\na\nb")] == [0, 1, 0]
    assert table.as_document() == {"lines": ["a", "b"], "texts": [[0, 1], [1, 0, 0]]}


def test_a_document_gives_every_text_back(report: Report):
    document = as_document(report)
    assert json.loads(json.dumps(document)) == document
    for part, recipe in zip(report.recipes, document["recipes"], strict=True):
        run = run_golden(RECIPES[part.name])
        for step, keys in zip(run.steps, recipe["steps"], strict=True):
            lines = [document["lines"][line] for line in document["texts"][keys["tir"]]]
            assert lines == print_module(step.module).splitlines()
            assert len(keys["authors"]) == len(lines)
            assert keys["label"] == f"{step.index:02d}_{step.name}"


def test_passes_follow_each_other_and_are_blamed(report: Report):
    step = report.recipes[1].steps[-1]
    known = {step.tir}
    for one in step.passes:
        assert len(one.authors) == len(one.after.lines)
        assert all(author >= 0 or -author <= one.number for author in one.authors)
        known |= {one.before, one.after}
    assert any(entry.name == "s_tir.ThreadSync" for entry in step.passes)
    assert step.pass_count > len(step.passes)
    # The barrier is ThreadSync's, and stays its line.
    sync = next(entry for entry in step.passes if entry.name == "s_tir.ThreadSync")
    at = next(at for at, line in enumerate(sync.after.lines) if "tvm_storage_sync" in line)
    assert sync.authors[at] == -sync.number


def test_counts_facts_and_verdicts_are_there_where_a_step_can_run(report: Report):
    first, *_, last = report.recipes[1].steps
    assert first.counts is None
    assert first.facts.rows == ()
    assert first.facts.missing
    assert first.device_source.missing
    assert last.counts.barriers >= 1
    assert last.counts.sectors > 0
    values = {row.key: row.value for row in last.facts.rows}
    assert values["blocks"] == last.counts.blocks
    assert values["barriers_executed"] == values["counted_barriers"] == last.counts.barriers
    assert (values["sectors"], values["bank_conflicts"]) == (last.counts.sectors, 0)
    assert last.checks.numbers == "ok"
    assert last.checks.checked_on.startswith("simulator ")


def flatten(nest: Nest) -> list[Nest]:
    return [nest, *(row for child in nest.children for row in flatten(child))]


def test_the_loop_nest_of_a_step():
    (function,) = find_nests(SHARED.steps[-1].module)
    nodes = flatten(function)
    loops = {node.name: node for node in nodes if node.kind == "loop"}
    assert (loops["i_0"].extent, loops["i_0"].binding) == ("4", "blockIdx.y")
    assert loops["ax0_ax1_fused_2"].binding == "vectorized"
    assert [name for name, node in loops.items() if node.reduces] == ["k_0", "k_1"]
    blocks = {node.name: node for node in nodes if node.kind == "block"}
    assert blocks["C_update"].reads == ("C_local", "A_shared", "B_shared")
    assert blocks["root"].allocates == ("C_local", "A_shared", "B_shared")
    assert next(node.name for node in nodes if node.kind == "guard").startswith("where ")


def test_buffers_know_what_tvm_keeps_of_them():
    module = SHARED.steps[-1].module
    compacted = lower_through_passes(module).get_pass("CompactBufferAllocation").module
    buffers = {buffer.name: buffer for buffer in find_buffers(module, compacted)}
    assert (buffers["A"].scope, buffers["A"].size, buffers["A"].is_argument) == (
        "global",
        8192,
        True,
    )
    # 16 rows of 4 floats for a block of threads, and 4 by 2 sums for each of them.
    assert (buffers["A_shared"].scope, buffers["A_shared"].kept) == ("shared", 256)
    assert (buffers["C_local"].scope, buffers["C_local"].kept) == ("local", 32)


def test_the_page_is_one_file_that_names_no_other(report: Report):
    page = render_report(report)
    assert unpack_document(page) == as_document(report)
    assert re.findall(r'\b(?:src|href)="([^"]*)"', page) == ["data:,", "#main"]
    outside = page.replace("http://www.w3.org/2000/svg", "")  # the name of SVG, which is no address
    assert not re.search(r"https?://|@import|url\(", outside)
    assert page == render_report(report)


def test_every_file_of_the_page_is_in_it():
    files = {path.name for path in PAGE.iterdir()}
    named = {f"{name}.js" for name in SCRIPTS} | {f"{name}.css" for name in STYLES} | {"page.html"}
    assert files == named
    long = [path.name for path in PAGE.iterdir() if len(path.read_text().splitlines()) >= 250]
    assert long == []


def test_a_page_without_data_is_no_report():
    with pytest.raises(ValueError, match="the page is no report"):
        unpack_document("<html></html>")


def test_what_was_not_checked_says_so(report: Report):
    unchecked = dataclasses.replace(report, device=None)
    assert "device" not in as_document(unchecked)


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
    part = do_job(RecipeJob(f"{file}:own", (f"{file}:own",), request, "cuda", True), Screen())
    assert part.shape == ""
    assert part.steps[0].counts.sectors == 16
    assert part.steps[0].checks.reference == "the program in float64"
    assert part.steps[0].example_counts is None  # it has no other shape


def test_the_last_step_is_counted_at_the_recipes_own_example_too():
    request = make_request(None, None, None, None, device="simulator")
    part = do_job(RecipeJob("relu_bound", ("relu_bound",), request, "cuda", True), Screen())
    assert part.shape != part.example_shape
    first, last = part.steps
    assert first.example_counts is None
    assert last.example_counts.blocks > last.counts.blocks
