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
