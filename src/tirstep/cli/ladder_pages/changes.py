"""What a rung changes: the steps that the rung before does not have, and diffs of goldens."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tirstep.lowering_checks import Diff
from tirstep.lowering_checks.diff import diff_texts
from tirstep.lowering_checks.golden import INPUTS, get_input_name
from tirstep.lowering_checks.steps import make_golden_problem
from tirstep.transforms.recipes import Recipe

from ..refusals import UseError

LONGEST_SHOWN = 24
"""Lines of a diff that stand open on the page; longer ones are folded."""
FEWEST_SHARED = 3
"""Programs that two rungs share at least, the input among them, where one goes on from the other:
one step of the same name, "bound", says little."""


@dataclass(frozen=True)
class Program:
    """A step's golden file: its label, ``03_decomposed``, and its text."""

    label: str
    text: str

    @property
    def step(self) -> str:
        """The step's name."""
        return self.label.split("_", 1)[1]


def read_programs(goldens: Path, recipe: Recipe) -> list[Program]:
    """The goldens of a recipe's steps, in order; raises `UseError` where there are none."""
    folder = goldens / recipe.name
    kernel = goldens / INPUTS / get_input_name(make_golden_problem(recipe))
    steps = sorted(folder.glob("[0-9][0-9]_*.py"))
    if not steps or not kernel.is_file():
        raise UseError(f"{folder} has no goldens of {recipe.name}; write them: make golden")
    files = {"00_input": kernel, **{file.stem: file for file in steps}}
    return [Program(label, file.read_text(encoding="utf-8")) for label, file in files.items()]


def find_added(before: Sequence[Program], after: Sequence[Program]) -> list[Program]:
    """The steps that the rung before does not have, by their names."""
    known = {program.step for program in before}
    return [program for program in after if program.step not in known]


def find_diffs(
    before: tuple[str, Sequence[Program]] | None, recipe: str, after: Sequence[Program]
) -> list[Diff]:
    """The diffs that say what a rung adds.

    Where it has all steps of the rung before, two at least, and further ones, these are the diffs
    of the further steps alone, each against the step before it; otherwise the diff of both last
    steps. The first rung is held against the kernel as it was written.
    """
    if before is None:
        return [_diff(recipe, after[0], recipe, after[-1])]
    other, programs = before
    added = {program.label for program in find_added(programs, after)}
    if not added or find_added(after, programs) or len(programs) < FEWEST_SHARED:
        return [_diff(other, programs[-1], recipe, after[-1])]
    pairs = itertools.pairwise(after)
    return [_diff(recipe, one, recipe, two) for one, two in pairs if two.label in added]


def write_diff(diff: Diff) -> str:
    """A diff in Markdown, folded if it is long."""
    block = f"```diff\n{diff}\n```"
    if len(diff.lines) <= LONGEST_SHOWN:
        return block
    title = f"{diff.before} → {diff.after}: +{diff.added} −{diff.removed}"
    return f"<details><summary>{title}</summary>\n\n{block}\n\n</details>"


def _diff(recipe: str, before: Program, other: str, after: Program) -> Diff:
    names = (f"{recipe}/{before.label}", f"{other}/{after.label}")
    return diff_texts(before.text, after.text, names=names)
