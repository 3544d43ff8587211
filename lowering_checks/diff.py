"""Diffs of TIR, and which lines of two programs belong together, whatever their indentation.

A loop that is put around a block writes one line, and moves the others to the right. Lines that
occur once in both texts are aligned first, and only between those the repeated ones (``T.reads()``,
``}``), so that a repeated line belongs to its neighbourhood. That is Bram Cohen's patience diff,
with Python's `difflib` where nothing is unique.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tvm

from tirstep.transforms.recipes import Step

from .steps import print_module, step_label

CONTEXT = 3
Pairs = list[tuple[int, int]]


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


def align_lines(before: Sequence[str], after: Sequence[str]) -> Pairs:
    """The places of lines that two texts share but for their indentation, rising in both."""
    old = [line.strip() for line in before]
    new = [line.strip() for line in after]
    return list(_align(old, new, (0, len(old)), (0, len(new))))


def _align(
    old: list[str], new: list[str], old_range: tuple[int, int], new_range: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Equal ends first, then unique lines and what lies between them, then whatever is equal."""
    (low, high), (start, stop) = old_range, new_range
    while low < high and start < stop and old[low] == new[start]:
        yield low, start
        low, start = low + 1, start + 1
    tail = 0
    while (
        low < high - tail and start < stop - tail and old[high - tail - 1] == new[stop - tail - 1]
    ):
        tail += 1
    high, stop = high - tail, stop - tail
    anchors = _find_anchors(old, new, (low, high), (start, stop))
    if anchors:
        for at, to in anchors:
            yield from _align(old, new, (low, at), (start, to))
            yield at, to
            low, start = at + 1, to + 1
        yield from _align(old, new, (low, high), (start, stop))
    else:
        matcher = difflib.SequenceMatcher(None, old[low:high], new[start:stop], autojunk=False)
        for block in matcher.get_matching_blocks():
            for offset in range(block.size):
                yield low + block.a + offset, start + block.b + offset
    for offset in range(tail):
        yield high + offset, stop + offset


def _find_anchors(
    old: list[str], new: list[str], old_range: tuple[int, int], new_range: tuple[int, int]
) -> Pairs:
    """Lines that occur once on both sides: the longest run of them that keeps its order."""
    there = _find_unique(old, *old_range)
    here = _find_unique(new, *new_range)
    pairs = sorted((place, here[line]) for line, place in there.items() if line in here)
    return _longest_rising(pairs)


def _find_unique(lines: list[str], start: int, stop: int) -> dict[str, int]:
    counts = Counter(lines[start:stop])
    return {lines[at]: at for at in range(start, stop) if counts[lines[at]] == 1 and lines[at]}


def _longest_rising(pairs: Pairs) -> Pairs:
    """The longest subsequence whose second places rise (patience sorting)."""
    tops: list[int] = []
    piles: list[int] = []  # the pair on top of each pile
    below = [-1] * len(pairs)
    for at, (_, to) in enumerate(pairs):
        pile = bisect_left(tops, to)
        below[at] = piles[pile - 1] if pile else -1
        tops[pile : pile + 1] = [to]
        piles[pile : pile + 1] = [at]
    chain: Pairs = []
    at = piles[-1] if piles else -1
    while at >= 0:
        chain.append(pairs[at])
        at = below[at]
    return chain[::-1]
