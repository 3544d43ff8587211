"""Trials of a search over the corpus, and the file that keeps them: a head, then a line each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tirstep.files import append_line, write_file

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

    A last line that was cut, by a full disk or the end of the machine, is no trial. The file is
    written anew where it has such a line, or was removed. Raises `ExperimentError` for a file of
    another kind or another search.

    Attributes
    ----------
    head : what the trials are of, the first line
    records : the trials that are known, by number
    """

    def __init__(self, path: Path | None, head: Mapping[str, Any]) -> None:
        self.path, self.head = path, dict(head)
        self.records: dict[int, TrialRecord] = {}
        self._is_whole = True
        if path is None or not path.exists():
            return
        try:
            known = self._read(path)
        except (ValueError, TypeError, KeyError) as error:
            raise ExperimentError(f"{path} is no state of a search; give another file") from error
        if known != self.head:
            raise ExperimentError(
                f"{path} is of another search, or of another text of this pass; delete it, or give "
                "another file"
            )

    def _read(self, path: Path) -> Mapping[str, Any]:
        if not path.is_file():  # some devices have no end
            raise ValueError("it is a folder or a device")
        text, end, rest = path.read_bytes().decode().rpartition("\n")
        self._is_whole = bool(end) and not rest
        if not end:
            if json.dumps(self.head).startswith(rest):
                return self.head
            text = rest
        head, *lines = [json.loads(line) for line in text.split("\n")]
        self.records = {line["trial"]: TrialRecord(**line) for line in lines}
        return dict(head)

    def add(self, record: TrialRecord) -> None:
        """Note a trial, and write it down; raises `OSError`."""
        self.records[record.trial] = record
        if self.path is None:
            return
        if self._is_whole and self.path.exists():
            append_line(self.path, json.dumps(asdict(record)))
            return
        lines = [self.head, *map(asdict, self.records.values())]
        write_file(self.path, "".join(f"{json.dumps(each)}\n" for each in lines))
        self._is_whole = True


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
