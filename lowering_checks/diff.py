"""Diffs of TIR: unified, as they are printed and kept beside findings."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import tvm

from tirstep.transforms.recipes import Step

from .steps import print_module, step_label

CONTEXT = 3


@dataclass(frozen=True)
class Diff:
    """A unified diff, and how many lines it adds and removes."""

    before: str
    after: str
    lines: tuple[str, ...]
    added: int
    removed: int

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        """In a notebook: in colour."""
        from .notebook import render_diff  # needs this class

        return render_diff(self)


def diff_texts(before: str, after: str, *, names: tuple[str, str], context: int = CONTEXT) -> Diff:
    """The unified diff of two texts, empty where they are equal."""
    lines = tuple(
        difflib.unified_diff(
            before.splitlines(), after.splitlines(), *names, lineterm="", n=context
        )
    )
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    return Diff(*names, lines, added, removed)


def diff_modules(
    before: tvm.IRModule,
    after: tvm.IRModule,
    *,
    names: tuple[str, str] = ("before", "after"),
    context: int = CONTEXT,
) -> Diff:
    """The unified diff of two modules' TIR."""
    return diff_texts(print_module(before), print_module(after), names=names, context=context)


def diff_steps(before: Step, after: Step, *, context: int = CONTEXT) -> Diff:
    """The unified diff of the TIR of two steps, of one recipe or of two."""
    names = (step_label(before), step_label(after))
    return diff_modules(before.module, after.module, names=names, context=context)
