"""Makes a program small that shows something: greedily, one reduction after the other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm

from tirstep.lowering_checks.devices.device import DeviceError
from tirstep.printing import silenced_stderr
from tirstep.strategies.program_text import parse_program

from .editing import Edit
from .emulating import differs_emulated
from .quick import REFUSED, QuickVerdict, try_quickly
from .reductions import REDUCTIONS, Reduction, parse_script, print_script
from .subject import Subject, make_subject

SECONDS = 90.0
Shows = Callable[[Subject], bool]


@dataclass(frozen=True)
class Shrunk:
    """A program that was made small.

    Attributes
    ----------
    text : TVMScript of one function
    lines : of the text, without comments
    tried, kept : reductions
    is_done : nothing smaller shows it; False where the time was over
    """

    text: str
    subject: Subject
    tried: int
    kept: int
    seconds: float
    is_done: bool

    @property
    def lines(self) -> int:
        """Of the text, without comments and empty ones."""
        return count_lines(self.text)


def count_lines(text: str) -> int:
    """The lines of a text, without comments and empty ones."""
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines()
    )


def shows_change(edits: Sequence[Edit], status: str, kind: str) -> Shows:
    """Whether a subject is right without a change, and wrong or refused with it, as it was; wrong
    numbers, too: what only a simulator sees makes no script that fails.
    """

    def shows(subject: Subject) -> bool:
        found = try_quickly(edits, subject)
        if found.status != status or (kind and found.kind != kind):
            return False
        return status == REFUSED or differs_emulated(edits, subject)

    return shows


def shows_at_last(attempt: Callable[[Subject], QuickVerdict], status: str, kind: str) -> Shows:
    """The same by a whole compilation, for changes that the passes alone do not show."""

    def shows(subject: Subject) -> bool:
        found = attempt(subject)
        return found.status == status and (not kind or found.kind == kind)

    return shows


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
    search = _Search(shows, seed, time.monotonic(), seconds)
    text = str(subject.module.script())
    text = print_script(parse_script(text)) if keeps_pipeline else _normalize(text)
    made = search.make(text)
    if made is None:
        return None
    search.text, search.subject = text, made
    is_done = search.run()
    spent = time.monotonic() - search.begin
    return Shrunk(search.text, search.subject, search.tried, search.kept, spent, is_done)


@dataclass
class _Search:
    """A program that gets smaller.

    Attributes
    ----------
    begin : of the time
    text, subject : the smallest program so far
    """

    shows: Shows
    seed: int
    begin: float
    seconds: float
    text: str = ""
    subject: Any = None
    tried: int = 0
    kept: int = 0
    seen: set[str] = field(default_factory=set)

    def run(self) -> bool:
        """Reduce until nothing more can be; False where the time was over before."""
        before = -1
        while before != self.kept:
            before = self.kept
            for reduction in REDUCTIONS:
                if not self.reduce(reduction):
                    return False
        return True

    def reduce(self, reduction: Reduction) -> bool:
        """Try all edits of a kind, on what the ones before left; False where the time is over."""
        place, is_smaller = 0, True
        while is_smaller:
            is_smaller = False
            tree = parse_script(self.text)
            for at, _ in enumerate(reduction(tree)):
                if at < place:
                    continue
                if time.monotonic() - self.begin > self.seconds:
                    return False
                if self.take(print_script(tree)):
                    place, is_smaller = at, True
                    break
        return True

    def take(self, candidate: str) -> bool:
        """Whether a program that was not tried before shows the same: then it goes on from it."""
        if candidate in self.seen:
            return False
        self.seen.add(candidate)
        self.tried += 1
        made = self.make(candidate)
        if made is None:
            return False
        self.text, self.subject = candidate, made
        self.kept += 1
        return True

    def make(self, text: str) -> Subject | None:
        """The program of a text; None where it is none, or does not show the same."""
        made = _make(text, self.seed)
        return made if made is not None and _is_shown(made, self.shows) else None


def _normalize(text: str) -> str:
    """Without the annotation that asks for our pipeline, which TVM alone does not know."""
    text = re.sub(r'"tir_pipeline": "\w+"(, )?', "", text)
    return print_script(parse_script(text))


def _make(text: str, seed: int) -> Subject | None:
    """The program of a text; None where it is none."""
    try:
        with silenced_stderr():
            module: tvm.IRModule = parse_program(text)
        return make_subject("the shrunk program", module, seed)
    except Exception:  # whatever TVM's parser raises of a text that is no program
        return None


def _is_shown(subject: Subject, shows: Shows) -> bool:
    try:
        _ = subject.oracle.arguments, subject.oracle.expected  # type: ignore[attr-defined]
        return shows(subject)
    except DeviceError:
        return False
    except Exception:  # a program that was cut down may be anything, for TVM and for us
        return False
