"""Makes a module small with which TVM ends the process; each attempt is in another process."""

from __future__ import annotations

import functools
import multiprocessing
import os
from typing import TYPE_CHECKING

import pebble
import tvm

from .pass_ import Tried, load_change

if TYPE_CHECKING:
    from tirstep.experiments import Experiment, Subject
    from tirstep.experiments.hunting import Counterexample

    from .pass_ import Change

SECONDS = 90.0
"""Of the whole; a process that was ended takes some two seconds to begin anew."""
SECONDS_OF_ONE = 20.0


def shrink_crash(
    subject: Subject, reason: str, experiment: Experiment, tried: Tried, change: Change
) -> Counterexample | None:
    """A small program with which TVM ends the process with the change and not without it, and its
    script; None where none does.
    """
    from tirstep.experiments.editing import DEFAULT, is_reached, list_passes
    from tirstep.experiments.hunting import Counterexample, TrialRecord, write_counterexample
    from tirstep.experiments.quick import CRASHED, QuickVerdict, is_quick
    from tirstep.experiments.shrinking import shrink

    is_of_ours = not is_reached(experiment.edits, list_passes(DEFAULT))
    with pebble.ProcessPool(
        max_workers=1, context=multiprocessing.get_context("spawn")
    ) as pool:  # TVM's threads do not survive a fork

        def ends(module: str, *, is_changed: bool) -> bool:
            future = pool.schedule(lower_alone, (tried, module, is_changed), timeout=SECONDS_OF_ONE)
            try:
                future.result()
            except pebble.ProcessExpired:
                return True
            except TimeoutError:
                return False
            return False

        def shows(candidate: Subject) -> bool:
            text = tvm.ir.save_json(candidate.module)
            return ends(text, is_changed=True) and not ends(text, is_changed=False)

        shrunk = shrink(subject, shows, seed=tried.seed, seconds=SECONDS, keeps_pipeline=is_of_ours)
        pool.stop()
    if shrunk is None:
        return None
    record = TrialRecord(0, "", subject.label, CRASHED, reason, CRASHED)
    is_scripted = not is_of_ours and is_quick(experiment.edits, DEFAULT)
    found = Counterexample(record, shrunk, QuickVerdict(CRASHED, reason, CRASHED), is_scripted)
    return write_counterexample(found, experiment.edits, change.source, change.title, tried.path)


def lower_alone(tried: Tried, module: str, is_changed: bool) -> None:
    """Try a module, given as JSON, with the change or without it, in this process. It may end, and
    what TVM writes then is lost.
    """
    with open(os.devnull, "ab") as nothing:
        os.dup2(nothing.fileno(), 2)
    from tirstep.experiments import Experiment
    from tirstep.experiments.hunting import try_subject
    from tirstep.experiments.subject import make_subject

    change = _load(tried)
    subject = make_subject("the shrunk program", tvm.ir.load_json(module))
    edits, whole = (change.edits, change.whole) if is_changed else ((), None)
    with Experiment(tried.name, edits, whole) as experiment:
        try_subject(experiment, subject)


@functools.lru_cache
def _load(tried: Tried) -> Change:
    """The change, loaded once in a process."""
    return load_change(tried)
