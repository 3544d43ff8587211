"""Looks over the corpus for a module that a change of the pipeline makes wrong, and shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tirstep.files import write_file
from tirstep.transforms import get_pipeline

from .corpus import Corpus, UndrawnError
from .counterexample import PassSource, make_script, require_place, run_script
from .editing import DEFAULT, Edit, ExperimentError, is_reached, list_passes
from .quick import CRASHED, QuickVerdict, is_quick, try_quickly
from .shrinking import SECONDS, Shrunk, shows_as, shrink
from .subject import Subject
from .trial_file import TrialFile
from .trying import BAD, Experiment, TryOptions, try_change

UNDRAWN = "undrawn"


@dataclass(frozen=True)
class TrialRecord:
    """What one trial of the corpus gave, as the state file keeps it.

    Attributes
    ----------
    status : one of `quick.STATUSES`, or ``"undrawn"``
    what : the first word of what is wrong: ``"numbers"``, ``"race"``, ``"refused"``
    """

    trial: int
    kind: str
    label: str
    status: str
    reason: str = ""
    what: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether the change is wrong here."""
        return self.status in BAD


def try_trial(experiment: Experiment, corpus: Corpus, trial: int) -> TrialRecord:
    """Draw a module and try the change on it."""
    kind = corpus.get_kind(trial)
    try:
        subject = corpus.draw(trial)
    except UndrawnError as error:
        return TrialRecord(trial, kind, "", UNDRAWN, str(error))
    found = try_subject(experiment, subject)
    return TrialRecord(trial, kind, subject.label, found.status, found.reason, found.kind)


def try_subject(experiment: Experiment, subject: Subject) -> QuickVerdict:
    """The same for a module that is there: by the passes alone where the change is among them."""
    if is_quick(experiment.edits, get_pipeline(subject.module)):
        return try_quickly(experiment.edits, subject)
    trial = try_change(experiment, subject, TryOptions((), with_facts=False))
    wrong = [finding for verdict in trial.verdicts for finding in verdict.after or ()]
    kind = trial.status if trial.is_bad else ""
    if kind and wrong:
        kind = "numbers" if wrong[0].check == "numbers" else wrong[0].message.partition(":")[0]
    return QuickVerdict(trial.status, trial.reason, kind)


class HuntState:
    """The trials that were made, in a file of JSON lines, so that a search goes on where it ended.

    `digest` is of the text of what is tried: what an older text gave says nothing of this one.
    Raises `ExperimentError` for a file of another search.
    """

    def __init__(self, path: Path | None, name: str, corpus: Corpus, digest: str = "") -> None:
        self.records: dict[int, TrialRecord] = {}
        self._file: TrialFile | None = None
        if path is None:
            return
        text = {"text": digest} if digest else {}
        head = {"change": name, "seed": corpus.seed, "kinds": list(corpus.kinds), **text}
        self._file = TrialFile(path, head)
        no_state = f"{path} is no state of a search; give another file"
        try:
            known = self._file.read() or head
            lines = self._file.lines if known == head else []
            self.records = {each["trial"]: TrialRecord(**each) for each in lines}
        except (ValueError, TypeError, KeyError) as error:
            raise ExperimentError(no_state) from error
        if known == head:
            return
        if {**known, "text": head.get("text")} == {"text": None, **head}:
            raise ExperimentError(
                f"{path} is of another text of this pass, of which it says nothing now; "
                "delete it, or give another file"
            )
        change, seed = known.get("change"), known.get("seed")
        if change is None or seed is None:
            raise ExperimentError(no_state)
        raise ExperimentError(
            f"{path} is of another search ({change}, seed {seed}); give another file"
        )

    def add(self, record: TrialRecord) -> None:
        """Note a trial, and write it down."""
        self.records[record.trial] = record
        if self._file is not None:
            self._file.add(asdict(record))


def hunt(
    experiment: Experiment,
    corpus: Corpus,
    trials: Sequence[int],
    state: HuntState,
    find_crash: Callable[[int], str | None] = lambda trial: None,
) -> Iterator[TrialRecord]:
    """Try the change on trials of the corpus; those of the state are not made again.

    `find_crash` knows those with which TVM ended the process before, and says so.
    """
    for trial in trials:
        record = state.records.get(trial)
        if record is None:
            crash = find_crash(trial)
            if crash is None:
                record = try_trial(experiment, corpus, trial)
            else:
                kind, label = corpus.get_kind(trial), corpus.draw(trial).label
                record = TrialRecord(trial, kind, label, CRASHED, crash, CRASHED)
            state.add(record)
        yield record


@dataclass(frozen=True)
class Counterexample:
    """A small program that the change makes wrong.

    Attributes
    ----------
    verdict : of that program
    is_scripted : a script can show it: the change is before host and device are taken apart
    path : of the script; None where none was written
    is_shown : the script was run, and failed as it must
    last_line : what it printed in the end
    """

    record: TrialRecord
    shrunk: Shrunk
    verdict: QuickVerdict
    is_scripted: bool = True
    path: Path | None = None
    is_shown: bool = False
    last_line: str = ""


def find_counterexample(
    experiment: Experiment,
    corpus: Corpus,
    records: Sequence[TrialRecord],
    *,
    seconds: float = SECONDS,
    most: int = 6,
) -> Counterexample | None:
    """Shrink one of the bad trials: the first whose program shows it by itself.

    Drawn programs come first, which are small already. One that ends the process is not tried here.
    None where none of `most` can be shrunk.
    """
    bad = [each for each in records if each.is_bad and each.status != CRASHED]
    bad.sort(key=lambda each: each.kind != "program")
    for record in bad[:most]:
        subject = corpus.draw(record.trial)
        found = shrink_subject(experiment, subject, record, seed=corpus.seed, seconds=seconds)
        if found is not None:
            return found
    return None


def shrink_subject(
    experiment: Experiment,
    subject: Subject,
    record: TrialRecord,
    *,
    seed: int = 0,
    seconds: float = SECONDS,
) -> Counterexample | None:
    """Shrink a module that the change makes wrong; None where that cannot be."""

    def attempt(candidate: Subject) -> QuickVerdict:
        return try_subject(experiment, candidate)

    is_of_ours = not is_reached(experiment.edits, list_passes(DEFAULT))
    is_scripted = not is_of_ours and is_quick(experiment.edits, DEFAULT)
    edits = experiment.edits if is_scripted else None
    shows = shows_as(attempt, record.status, record.what, edits)
    shrunk = shrink(subject, shows, seed=seed, seconds=seconds, keeps_pipeline=is_of_ours)
    if shrunk is None:
        return None
    return Counterexample(record, shrunk, attempt(shrunk.subject), is_scripted)


def write_counterexample(
    found: Counterexample, edits: Sequence[Edit], source: PassSource, name: str, path: Path
) -> Counterexample:
    """Write its script and run it, where it has one; raises `ExperimentError` where a file is in
    the way.
    """
    if not found.is_scripted:
        return found
    about = (
        f"{name}: {found.verdict.status}.\n\n"
        f"The simulator of tirstep says: {found.verdict.reason}\n\n"
        f"Shrunk from {found.record.label} to {found.shrunk.lines} lines."
    )
    require_place(path)
    write_file(path, make_script(found.shrunk, edits, source, found.verdict, about))
    is_shown, last = run_script(path)
    return replace(found, path=path, is_shown=is_shown, last_line=last)
