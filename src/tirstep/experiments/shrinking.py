"""Makes a program small that shows something: greedily, one reduction after the other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from tirstep.printing import silenced_stderr
from tirstep.strategies.drawn_programs import parse_program

from .editing import is_of_ours
from .reductions import REDUCTIONS, parse_script, print_script
from .subject import ModuleOracle, Subject, make_subject
from .trying import Experiment, Trial, try_change

SECONDS = 90.0


@dataclass(frozen=True)
class Shrunk:
    """A program that was made small: TVMScript of one function, after so many tried reductions.

    `trial` is of that program.
    """

    text: str
    trial: Trial
    tried: int

    @property
    def lines(self) -> int:
        """Of the text, without comments and empty ones."""
        lines = [line.lstrip() for line in self.text.splitlines()]
        return sum(bool(line) and not line.startswith("#") for line in lines)


def shrink_trial(
    experiment: Experiment, trial: Trial, *, seed: int = 0, seconds: float = SECONDS
) -> Shrunk | None:
    """The smallest program found that a change makes wrong as it does the module of a trial.

    None where that shows it only against its kernel's own reference.
    """

    def attempt(subject: Subject) -> Trial | None:
        found = try_change(experiment, subject)
        return found if (found.status, found.what) == (trial.status, trial.what) else None

    keeps = is_of_ours(experiment.edit)
    return shrink(trial.subject, attempt, seed=seed, seconds=seconds, keeps_pipeline=keeps)


def shrink(
    subject: Subject,
    attempt: Callable[[Subject], Trial | None],
    *,
    seed: int = 0,
    seconds: float = SECONDS,
    keeps_pipeline: bool = False,
) -> Shrunk | None:
    """The smallest program found of which an attempt gives a trial, its reference being itself.

    Without `keeps_pipeline` it does not ask for tirstep's, which TVM alone does not know.
    """

    def try_text(candidate: str) -> Trial | None:
        """None where it is no program, too: one that was cut down may be anything."""
        try:
            with silenced_stderr():
                made = make_subject("the shrunk program", parse_program(candidate), seed)
            assert isinstance(made.oracle, ModuleOracle)
            _ = made.oracle.arguments, made.oracle.expected
            return attempt(made)
        except Exception:
            return None

    end = time.monotonic() + seconds
    text = str(subject.module.script())
    if not keeps_pipeline:
        text = re.sub(r'"tir_pipeline": "\w+"(, )?', "", text)
    text = print_script(parse_script(text))
    small = try_text(text)
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
                    if (made := try_text(candidate)) is not None:
                        small, last, place = made, candidate, at
                        break
    return Shrunk(last, small, len(seen) - 1)
