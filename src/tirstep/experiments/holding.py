"""Holds a pass to its promises over the corpus: a test in one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir.transform import Pass

from .corpus import KINDS, Corpus, UndrawnError
from .declaring import Declaration, get_declaration, require_declaration
from .editing import ExperimentError
from .hunting import TrialRecord, shrink_subject
from .promises import NUMBERS, PROMISES, UncheckedError
from .quick import LEFT_OUT, UNCHANGED, try_quickly
from .subject import Subject
from .trying import Experiment, Trial, TryOptions, try_change

SECONDS = 30.0


@dataclass(frozen=True)
class PromiseReport:
    """What a pass was held to.

    Attributes
    ----------
    tried, changed, left_out : modules
    unchecked : promises that could not be checked here, each with the reason
    """

    tried: int
    changed: int
    left_out: int
    unchecked: dict[str, str]


def assert_keeps_promises(
    made: Any,
    corpus: int | Sequence[Subject] = 50,
    *,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    declaration: Declaration | None = None,
    shrinks: bool = True,
    may_do_nothing: bool = False,
) -> PromiseReport:
    """Fail where a pass breaks a promise on one of so many modules of the corpus, or of a list.

    The pass is declared by `pass_experiment`, or by `declaration`. The error has the promise, what
    broke it and a small program that shows it. A pass that changes none of the modules was not
    tested, and fails, too, unless it `may_do_nothing`. Raises `ExperimentError` for a pass that is
    not declared.
    """
    declared = declaration or get_declaration(made)
    if declared is None:
        raise ExperimentError("the pass is not declared; decorate it with pass_experiment")
    require_declaration(declared)
    name = str(getattr(made, "__name__", "") or getattr(getattr(made, "info", None), "name", made))
    edit, unchecked = declared.edit(made, name), dict[str, str]()
    counts = {"tried": 0, "changed": 0, "left out": 0}
    with Experiment(name, [edit]) as experiment:
        for trial, subject in _list_subjects(corpus, Corpus(seed, tuple(kinds))):
            counts["tried"] += 1
            found = try_quickly([edit], subject)
            counts["left out"] += found.status == LEFT_OUT
            if found.status in (LEFT_OUT, UNCHANGED):
                continue
            counts["changed"] += 1
            tried = try_change(experiment, subject, TryOptions((), with_facts=False))
            assert edit.made is not None
            promises = [NUMBERS, *declared.promises]  # right numbers are promised by all
            broken = find_broken_promise(tried, edit.made, promises, unchecked)
            if broken is not None:
                record = TrialRecord(trial, "", subject.label, found.status, "", found.kind)
                small = None
                if shrinks and record.is_bad:  # the numbers are wrong
                    small = shrink_subject(experiment, subject, record, seed=seed, seconds=SECONDS)
                shown = subject.module.script() if small is None else small.shrunk.text
                program = f"\n{shown}" if shrinks else ""
                raise AssertionError(
                    f"{name} {edit} breaks the promise '{broken[0]}' on {subject.label} "
                    f"(trial {trial}, seed {seed}): {broken[1]}{program}"
                )
    if not counts["changed"] and not may_do_nothing:
        raise AssertionError(
            f"{name} {edit} changes none of {counts['tried']} modules, so nothing was tested; give "
            "a larger corpus, or may_do_nothing=True"
        )
    return PromiseReport(counts["tried"], counts["changed"], counts["left out"], unchecked)


def _list_subjects(corpus: int | Sequence[Subject], drawn: Corpus) -> Iterator[tuple[int, Subject]]:
    if not isinstance(corpus, int):
        yield from enumerate(corpus)
        return
    for trial in range(corpus):
        with contextlib.suppress(UndrawnError):
            yield trial, drawn.draw(trial)


def find_broken_promise(
    trial: Trial, made: Pass, promises: Sequence[str], unchecked: dict[str, str]
) -> tuple[str, str] | None:
    """The first promise that a pass broke on a module, and how; None where it kept all.

    What cannot be checked here is noted in `unchecked`, with the reason.
    """
    for promise in dict.fromkeys(promises):
        try:
            sentence = PROMISES[promise](trial, made)
        except UncheckedError as error:
            unchecked[promise] = str(error)
            continue
        if sentence:
            return promise, sentence
    return None
