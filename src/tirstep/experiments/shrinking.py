"""Makes a program small that shows something: greedily, one reduction after the other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.tirx import BufferStore, For

from tirstep.printing import silenced_stderr
from tirstep.strategies.program_text import parse_program
from tirstep.transforms.tir import constant, find_all, is_among

from .editing import Edit
from .emulator import emulate
from .quick import REFUSED, QuickVerdict, lower_quickly
from .reductions import REDUCTIONS, parse_script, print_script
from .subject import Subject, make_subject

SECONDS = 90.0
MOST_STORES = 2000
"""That the emulator does within a second."""
Shows = Callable[[Subject], bool]


@dataclass(frozen=True)
class Shrunk:
    """A program that was made small: TVMScript of one function, after so many tried reductions."""

    text: str
    subject: Subject
    tried: int

    @property
    def lines(self) -> int:
        """Of the text, without comments and empty ones."""
        lines = [line.lstrip() for line in self.text.splitlines()]
        return sum(bool(line) and not line.startswith("#") for line in lines)


def shows_as(
    attempt: Callable[[Subject], QuickVerdict],
    status: str,
    kind: str,
    edits: Sequence[Edit] | None = None,
) -> Shows:
    """Whether an attempt at a subject ends as it did: with a status, and one kind of wrong.

    With `edits` what is wrong shows in numbers, too, of the passes that a script runs: what only a
    simulator sees makes no script that fails.
    """

    def shows(subject: Subject) -> bool:
        found = attempt(subject)
        if found.status != status or (kind and found.kind != kind):
            return False
        return edits is None or status == REFUSED or differs_emulated(edits, subject)

    return shows


def differs_emulated(edits: Sequence[Edit], subject: Subject) -> bool:
    """Whether the emulator sees other numbers with the edits than without, the first thread first
    or the last one.

    A program that is too large to emulate counts as one where it does: it is to be made smaller.
    """
    if _count_stores(subject.module["main"].body) > MOST_STORES:
        return True
    without = lower_quickly(subject.module, subject.target)
    found = lower_quickly(subject.module, subject.target, edits)

    def compute(module: tvm.IRModule, order: int) -> list[Any]:
        arrays = [np.array(array) for array in subject.oracle.arguments]
        emulate(module["main"], arrays, order)
        return [array.astype("f8") for array in arrays]

    def is_right(module: tvm.IRModule, order: int) -> bool:
        pairs = zip(right, compute(module, order), strict=True)
        return all(np.array_equal(*pair, equal_nan=True) for pair in pairs)

    right = compute(without, 1)
    if not is_right(without, -1):
        return False
    try:
        return not (is_right(found, 1) and is_right(found, -1))
    except IndexError:
        return True


def _count_stores(body: Any) -> int:
    """How often a program stores; loops of extents that are not known count once."""
    loops = find_all(body, For)
    times = 0
    for store in find_all(body, BufferStore):
        around = [loop for loop in loops if is_among(store, find_all(loop, BufferStore))]
        times += int(np.prod([constant(loop.extent) or 1 for loop in around], dtype="int64"))
    return times


def shrink(
    subject: Subject,
    shows: Shows,
    *,
    seed: int = 0,
    seconds: float = SECONDS,
    keeps_pipeline: bool = False,
) -> Shrunk | None:
    """The smallest program found that shows the same, its reference being the program itself.

    Without `keeps_pipeline` it does not ask for tirstep's, which TVM alone does not know. None
    where the subject shows it only against its kernel's own reference.
    """
    end = time.monotonic() + seconds
    text = str(subject.module.script())
    if not keeps_pipeline:
        text = re.sub(r'"tir_pipeline": "\w+"(, )?', "", text)
    text = print_script(parse_script(text))
    small = _make_shown(text, shows, seed)
    if small is None:
        return None
    seen = {text}
    before, last = "", text
    while before != last and time.monotonic() < end:
        before = last
        for reduction in REDUCTIONS:
            place: int | None = 0
            while place is not None:
                tree, begin, place = parse_script(last), place, None
                for at, _ in enumerate(reduction(tree)):
                    if time.monotonic() > end:
                        return Shrunk(last, small, len(seen) - 1)
                    candidate = print_script(tree) if at >= begin else last
                    if candidate in seen:
                        continue
                    seen.add(candidate)
                    if (made := _make_shown(candidate, shows, seed)) is not None:
                        small, last, place = made, candidate, at
                        break
    return Shrunk(last, small, len(seen) - 1)


def _make_shown(text: str, shows: Shows, seed: int) -> Subject | None:
    """The program of a text; None where it is none, or does not show the same.

    A program that was cut down may be anything, for TVM and for us.
    """
    try:
        with silenced_stderr():
            made = make_subject("the shrunk program", parse_program(text), seed)
        _ = made.oracle.arguments, made.oracle.expected  # type: ignore[attr-defined]
        return made if shows(made) else None
    except Exception:
        return None
