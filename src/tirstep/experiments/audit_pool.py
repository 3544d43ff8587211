"""The audit in processes: a program with which TVM ends one is a finding, and the others go on.

Each process writes down what it is at, so that the finding says which pass did not survive.
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path

import pebble

from tirstep.files import write_file

from .audit import AuditedTrial, audit_trial
from .corpus import Corpus
from .quick import CRASHED

TASKS_OF_A_PROCESS = 200
"""So many trials, then a new process: TVM keeps memory."""
Work = Callable[[int, int, str], AuditedTrial]
"""From the seed, the number of a trial, and the file for what it is at."""


def audit_in_processes(
    seed: int, trials: Sequence[int], jobs: int, work: Work | None = None
) -> Iterator[AuditedTrial]:
    """Audit trials of a corpus in some processes, as they come."""
    if not trials:
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        pebble.ProcessPool(
            max_workers=min(jobs, len(trials)),
            max_tasks=TASKS_OF_A_PROCESS,
            context=multiprocessing.get_context("spawn"),  # TVM's threads do not survive a fork
        ) as pool,
    ):
        try:
            notes = {trial: Path(folder, str(trial)) for trial in trials}
            futures: dict[Future[AuditedTrial], int] = {
                pool.schedule(work or audit_one, (seed, trial, str(notes[trial]))): trial
                for trial in trials
            }
            for future in as_completed(futures):
                trial = futures[future]
                yield _read(future, seed, trial, notes[trial])
        except BaseException:
            pool.stop()
            raise


def audit_one(seed: int, trial: int, note: str) -> AuditedTrial:
    """One trial, in this process; `note` is the file for what it is at."""

    def tell(*words: str) -> None:
        write_file(Path(note), "\n".join(words), durable=False)

    found = audit_trial(Corpus(seed), trial, tell)
    Path(note).unlink(missing_ok=True)
    return found


def _read(future: Future[AuditedTrial], seed: int, trial: int, note: Path) -> AuditedTrial:
    try:
        return future.result()
    except pebble.ProcessExpired as error:
        words = note.read_text("utf-8").split("\n") if note.exists() else []
        label, target, at = words if len(words) == 3 else ("", "", "")
        reason = f"TVM ends the process ({_spell_end(error.exitcode)}) in {at or 'drawing it'}"
        kind = Corpus(seed).get_kind(trial)
        return AuditedTrial(trial, kind, label, target, CRASHED, at=at, what="crash", reason=reason)


def _spell_end(code: int | None) -> str:
    """``SIGSEGV`` of a negative exit code."""
    if code is not None and code < 0 and -code in set(signal.Signals):
        return signal.Signals(-code).name
    return f"exit code {code}"
