"""``tirstep pass --report``: the page of a change, of its modules or of some of the corpus."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .formatting import count
from .pass_screen import list_differences, spell_counts

if TYPE_CHECKING:
    from tirstep.experiments import Experiment, Trial, TryOptions
    from tirstep.experiments.hunting import Counterexample, TrialRecord

    from .pass_ import Change
    from .screen import Screen

MOST = 24
"""Modules of the corpus that a report shows."""


def write_pass_report(
    screen: Screen,
    path: Path,
    change: Change,
    trials: Sequence[Trial],
    found: Counterexample | None,
    records: Sequence[TrialRecord] | None = None,
) -> None:
    """Write the page; `records` has all of the corpus, where `trials` are some of it."""
    from tirstep.files import write_file

    from .report.experiment import build_experiment_report
    from .report.render import render_report

    with screen.working():
        screen.doing("writing the report")
        about = f"{count(len(trials), 'module')}: {spell_counts(t.status for t in trials)}."
        if records is not None:
            told = spell_counts(each.status for each in records)
            about = f"{count(len(records), 'module')} of the corpus: {told}. Shown: {len(trials)}."
        report = build_experiment_report(
            trials,
            [list(list_differences(each)) for each in trials],
            title=change.title,
            about=about,
            small=found,
        )
        write_file(path, render_report(report))
    screen.line(("report  ", "dim"), str(path))


def try_reported(
    screen: Screen,
    experiment: Experiment,
    records: Sequence[TrialRecord],
    options: TryOptions,
    seed: int,
) -> list[Trial]:
    """The trials that the report shows, by all devices: the bad ones first, then right ones."""
    from tirstep.experiments import Corpus, try_change

    order = [each for each in records if each.is_bad and each.status != "crashed"]
    order += [each for each in records if each.status == "right"]
    corpus = Corpus(seed)
    with screen.working():
        screen.doing("writing the report")
        tried = (try_change(experiment, corpus.draw(each.trial), options) for each in order)
        # Some programs of the corpus no compiler for a GPU takes, as vectors of eight float64.
        return list(itertools.islice((each for each in tried if each.lowered), MOST))
