"""``tirstep diff``: unified diffs that other programs read."""

import re
from collections.abc import Iterator

import pytest
from golden_runs import run_golden
from own_files import write_programs

from tirstep.lowering_checks import Run, print_module
from tirstep.transforms.recipes import find_recipe

from .conftest import Command

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def apply_diffs(text: str, patches: str) -> Iterator[str]:
    """The text after each of some unified diffs, one upon the other; other lines are skipped."""
    lines: list[str] = text.splitlines()
    result: list[str] | None = None
    at = 0
    for line in patches.splitlines():
        if line.startswith("--- "):
            if result is not None:
                lines = result + lines[at:]
                yield "\n".join(lines) + "\n"
            result, at = [], 0
        elif result is None or line.startswith(("+++ ", "# ")) or not line:
            continue
        elif hunk := HUNK.fullmatch(line):
            start = int(hunk.group(1)) - (hunk.group(2) != "0")
            result += lines[at:start]
            at = start
        elif line[0] in " -":
            assert lines[at] == line[1:]
            result += [line[1:]] * (line[0] == " ")
            at += 1
        else:
            assert line[0] == "+"
            result.append(line[1:])
    assert result is not None
    yield "\n".join(result + lines[at:]) + "\n"


def texts(run: Run) -> list[str]:
    return [print_module(step.module) for step in run.steps]


@pytest.mark.parametrize("context", ["0", "3", "20"])
def test_diffs_of_all_steps_make_each_step_of_the_one_before(command: Command, context: str):
    result = command("diff", "matmul_shared", "--context", context)
    modules = texts(run_golden(find_recipe("matmul_shared")))
    assert (result.code, result.err) == (0, "")
    assert list(apply_diffs(modules[0], result.out)) == modules[1:]


def test_diffs_have_headings_and_the_source_line(command: Command):
    heading, before, after, *_ = command("diff", "vector_add_bound").out.splitlines()
    assert re.fullmatch(
        r"# vector_add_bound/00_input → vector_add_bound/01_split  \+2 −2  1024  "
        r"transforms/recipes/element_ladders\.py:\d+",
        heading,
    )
    assert before == "--- vector_add_bound/00_input"
    assert after == "+++ vector_add_bound/01_split"


@pytest.mark.parametrize(
    "steps", [("1", "decomposed"), ("tiled_and_bound",), ("4", "01_tiled_and_bound")]
)
def test_diff_of_two_steps_is_a_diff_and_nothing_else(command: Command, steps: tuple[str, ...]):
    modules = texts(run_golden(find_recipe("matmul_shared")))
    before, after = (4, 1) if steps[0] == "4" else (1, 4)
    result = command("diff", "matmul_shared", *steps)
    assert result.out.startswith("--- matmul_shared/")
    assert list(apply_diffs(modules[before], result.out)) == [modules[after]]


def test_diff_of_two_recipes(command: Command):
    tiled, naive = (texts(run_golden(find_recipe(f"matmul_{name}"))) for name in ("tiled", "naive"))
    result = command("diff", "matmul_tiled", "--against", "matmul_naive")
    assert result.out.startswith("--- matmul_tiled/01_tiled_and_bound\n+++ matmul_naive/01_bound\n")
    assert list(apply_diffs(tiled[-1], result.out)) == [naive[-1]]
    steps = ("--step", "0", "--against-step", "input")
    assert command("diff", "matmul_tiled", "--against", "matmul_naive", *steps).out == ""


def test_a_size_goes_to_the_recipe_that_has_it(command: Command):
    options = ("--against", "matmul_naive", "--set", "rows=16", "--json")
    (diff,) = command("diff", "matmul_tiled", *options).document["diffs"]
    assert 'T.thread_binding(2, thread="blockIdx.y")' in diff["diff"]


def test_a_recipe_of_one_step_has_no_diff(command: Command, tmp_path, monkeypatch):
    write_programs(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = command("diff", "mine.py:Mine")
    assert (result.code, result.out) == (0, "")
    assert result.err == (
        "tirstep: Mine has no step but its input, so there is nothing to compare\n"
    )
    assert command("diff", "mine.py:Mine", "--json").document["diffs"] == []
