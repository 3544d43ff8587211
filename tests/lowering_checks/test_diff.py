"""Diffs of steps."""

from golden_runs import run_golden

from tirstep.lowering_checks import diff_steps
from tirstep.transforms.recipes import RECIPES

RUN = run_golden(RECIPES["matmul_naive"])


def test_a_diff_shows_what_a_step_changed() -> None:
    diff = diff_steps(*RUN.steps)
    assert diff.lines[:2] == ("--- 00_input", "+++ 01_bound")
    assert '+        for i in T.thread_binding(64, thread="blockIdx.y"):' in diff.lines
    removed = [line for line in diff.lines[2:] if line.startswith("-")]
    added = [line for line in diff.lines[2:] if line.startswith("+")]
    assert (len(removed), len(added)) == (diff.removed, diff.added)
    assert diff.removed > 0


def test_context_is_chosen() -> None:
    assert len(diff_steps(*RUN.steps, context=0).lines) < len(diff_steps(*RUN.steps).lines)


def test_equal_steps_have_an_empty_diff() -> None:
    diff = diff_steps(RUN.steps[0], RUN.steps[0])
    assert (str(diff), diff.added, diff.removed) == ("", 0, 0)


def test_steps_of_two_recipes_are_compared() -> None:
    other = run_golden(RECIPES["matmul_rows_on_blocks"])
    diff = diff_steps(RUN.steps[-1], other.steps[-1])
    assert '+            for j in T.thread_binding(48, thread="threadIdx.x"):' in diff.lines
