"""Diffs of steps; alignment of planted rewrites, whose lines are known to be of which text."""

from itertools import pairwise

import pytest
from golden_runs import run_golden
from hypothesis import given
from hypothesis import strategies as st

from tirstep.lowering_checks import diff_steps
from tirstep.lowering_checks.diff import align_lines
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


def authors(*texts: str) -> list[int]:
    """Which of some texts, whose lines are parted by /, wrote each line of the last one."""
    wrote = [0] * len(texts[0].split("/"))
    for place, (before, after) in enumerate(pairwise([text.split("/") for text in texts]), 1):
        kept = {to: wrote[at] for at, to in align_lines(before, after)}
        wrote = [kept.get(at, place) for at in range(len(after))]
    return wrote


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (("a/b/c", "a/b/c"), [0, 0, 0]),
        (("a/b/c", "a/x/c"), [0, 1, 0]),
        (("a/c", "a/b/c", "a/b/c/d"), [0, 1, 0, 2]),
        # A loop that is put around a block writes one line; the others only move to the right.
        (("for i/  body", "for i/  for j/    body"), [0, 1, 0]),
        # A line that went away and came back was written by who brought it back.
        (("a/b/c", "a/c", "a/b/c"), [0, 2, 0]),
        # Repeated lines belong to their neighbours: the new block brings its own reads and end.
        (
            ("block A/reads/end", "block N/reads/end/block A/reads/end"),
            [1, 1, 1, 0, 0, 0],
        ),
        (
            ("block A/reads/end", "block A/reads/end/block N/reads/end"),
            [0, 0, 0, 1, 1, 1],
        ),
        # A line changed within the second of two equal neighbourhoods.
        (("A/x/end/B/x/end", "A/x/end/B/y/end"), [0, 0, 0, 0, 1, 0]),
        (("", "a"), [1]),
        (("a/b", ""), [1]),
    ],
)
def test_planted_rewrites(texts: tuple[str, ...], wanted: list[int]):
    assert authors(*texts) == wanted


LINES = st.lists(st.sampled_from(["a", "  a", "b", "end", "", "c"]), max_size=12)


@given(LINES, LINES)
def test_aligned_lines_are_equal_but_for_indentation_and_keep_their_order(before, after):
    pairs = align_lines(before, after)
    assert all(before[at].strip() == after[to].strip() for at, to in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


@given(LINES)
def test_a_text_is_aligned_with_itself(lines):
    assert align_lines(lines, ["    " + line for line in lines]) == [
        (at, at) for at in range(len(lines))
    ]
