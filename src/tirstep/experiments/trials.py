"""Trials of a search over the corpus, and the file that keeps them: a head, then a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tirstep.files import KeptRows

from .corpus import Corpus, UndrawnError
from .editing import ExperimentError
from .subject import Subject
from .trying import BAD

UNDRAWN = "undrawn"


@dataclass(frozen=True)
class TrialRecord:
    """What one trial of the corpus gave.

    Attributes
    ----------
    status : one of `trying.STATUSES`, or ``"undrawn"``
    what : the kind of wrong: ``"numbers"``, ``"race"``, ``"refused"``
    at : in an audit, the first pass after which it is wrong, or the one that refuses it
    changed : in an audit, the passes that changed the module
    """

    trial: int
    kind: str
    label: str
    status: str
    reason: str = ""
    what: str = ""
    at: str = ""
    changed: Sequence[str] = ()

    @property
    def is_bad(self) -> bool:
        """Whether something is wrong here."""
        return self.status in BAD


class TrialFile:
    """Trials in a file of JSON lines, to which each new one is added; without a path, in memory.

    Raises `ExperimentError` for a file of another kind or another search.

    Attributes
    ----------
    records : the trials that are known, by number
    """

    def __init__(self, path: Path | None, head: Mapping[str, Any]) -> None:
        try:
            self._rows = KeptRows(path, head)
            if not self._rows.is_other:
                self.records = {row["trial"]: TrialRecord(**row) for row in self._rows.rows}
        except (ValueError, TypeError, KeyError) as error:
            raise ExperimentError(f"{path} is no state of a search; give another file") from error
        if self._rows.is_other:
            raise ExperimentError(
                f"{path} is of another search, or of another text of this pass; delete it, or give "
                "another file"
            )

    def add(self, record: TrialRecord) -> None:
        """Note a trial, and write it down; raises `OSError`."""
        self.records[record.trial] = record
        self._rows.add(asdict(record))


def hunt(
    corpus: Corpus,
    trials: Sequence[int],
    file: TrialFile,
    attempt: Callable[[Subject], Mapping[str, Any]],
) -> Iterator[TrialRecord]:
    """Draw the modules of some trials and attempt each; those of the file are not made again.

    `attempt` gives the fields of a `TrialRecord` from the status on.
    """
    for trial in trials:
        if trial not in file.records:
            label, kind = "", corpus.get_kind(trial)
            try:
                subject = corpus.draw(trial)
                label, found = subject.label, attempt(subject)
            except UndrawnError as error:
                found = {"status": UNDRAWN, "reason": str(error)}
            file.add(TrialRecord(trial, kind, label, **found))
        yield file.records[trial]
