"""Which lines belong together: of TIR and CUDA, and of a step and its recipe."""

import re
from pathlib import Path

import pytest
from golden_runs import run_golden

from tirstep.cli.report.origins import find_python, link_source, note_lines
from tirstep.files import show_path
from tirstep.lowering_checks import print_module
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.transforms.recipes import RECIPES

STORE = re.compile(r"^\s*(\w+?)(?:_ptr)?\[.*\] = |^\s*\*\(\w+\*\)\((\w+?)_ptr ")
NAMES = ("matmul_warps", "matmul_split_k", "softmax_online")


def link(name: str) -> tuple[list[str], list[str], tuple[int, ...]]:
    """The lines of a recipe's last TIR and of its CUDA, and the links."""
    module = run_golden(RECIPES[name]).steps[-1].module
    noted, lines = note_lines(module)
    lowering = lower_through_passes(noted)
    assert lowering.source == lower_through_passes(module).source
    tir = print_module(module).splitlines()
    return tir, lowering.source.strip("\n").splitlines(), link_source(lowering, lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_line_of_cuda_comes_from_the_store_of_its_buffer(name: str):
    tir, source, found = link(name)
    assert len(found) == len(source)
    stores = 0
    for line, text in zip(found, source, strict=True):
        if not line:
            continue
        origin = tir[line - 1].strip()
        if text.strip().startswith("for ("):
            variable = re.search(r"int (\w+?)(_\d+)? =", text)[1]  # C renames, too
            assert re.match(rf"for .*\b{variable}\w*\b.* in ", origin)
        elif (stored := STORE.match(text)) is not None:
            buffer = stored[1] or stored[2]
            if "[" in origin and not buffer.startswith("v_"):
                stores += 1
                assert re.match(rf"{re.escape(buffer)}(_\d+)?\[", origin), (text, origin)
    assert stores > 0


def test_barriers_and_the_preamble_come_from_no_line():
    _, source, found = link("matmul_warps")
    first = next(at for at, text in enumerate(source) if "__global__" in text)
    assert not any(found[:first])
    barriers = [line for line, text in zip(found, source, strict=True) if "__sync" in text]
    assert barriers
    assert not any(barriers)


def test_a_source_that_is_written_otherwise_with_marks_is_not_linked(
    monkeypatch: pytest.MonkeyPatch,
):
    noted, lines = note_lines(run_golden(RECIPES["relu_bound"]).steps[-1].module)
    lowering = lower_through_passes(noted)
    assert any(link_source(lowering, lines))
    monkeypatch.setattr(
        "tirstep.cli.report.origins.MARK", "another_name"
    )  # the marks then stay in the source
    assert link_source(lowering, lines) == ()


def test_the_python_of_a_step_is_what_ran_since_the_step_before():
    run = run_golden(RECIPES["matmul_warps"])
    parts = find_python(run)
    assert parts[0]["function"] == "matmul"
    for step, part in zip(run.steps[1:], parts[1:], strict=True):
        lines = Path(step.path).read_text(encoding="utf-8").splitlines()
        assert step.location == f"{show_path(step.path)}:{part['stop']}"
        assert "yield" in lines[part["stop"] - 1]
        text, first = list(part["text"].lines), part["first"] - 1
        assert text == lines[first : first + len(text)]
    assert {part["function"] for part in parts[1:]} == {"schedule", "multiply"}
