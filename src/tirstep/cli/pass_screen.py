"""What ``tirstep pass`` prints: a row for each module, then what is wrong, and its script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from .formatting import count
from .guarding import SMALLER, find_crash, get_trials_file, note_tried
from .pass_promises import hold_over_corpus, hold_promises, promise_keys, show_promises

if TYPE_CHECKING:
    from tirstep.experiments import Experiment, Trial, TryOptions
    from tirstep.experiments.hunting import Counterexample, TrialRecord
    from tirstep.lowering_checks.facts import Fact

    from .json_output import Document
    from .pass_ import Change, Tried
    from .screen import Screen

DERIVED = (", vectors", ", scalars", ", widest")
"""Ends of the names of facts that another one tells, too."""
BAD_STYLE = "bold red"
STYLES = {
    "right": "green",
    "wrong": BAD_STYLE,
    "refused": BAD_STYLE,
    "crashed": BAD_STYLE,
    "unchanged": "dim",
}


def show_modules(
    screen: Screen,
    experiment: Experiment,
    trials: Sequence[Trial],
    tried: Tried,
    change: Change,
    *,
    with_diff: bool,
    as_json: bool,
) -> int:
    """Print what a change did to modules; 1 if an answer changed."""
    from .json_output import print_document
    from .pass_report import write_pass_report

    bad = [each for each in trials if each.is_bad]
    held = hold_promises([each for each in trials if not each.is_bad], change)
    _show_table(screen, trials, change.title)
    show_promises(screen, held, change)
    _show_diffs(screen, trials if with_diff else bad[:1])
    found = None
    if bad:
        screen.line()
        screen.line((f"{bad[0].status}  ", "bold red"), f"{bad[0].subject.label}: {bad[0].reason}")
        found = _shrink_module(screen, experiment, bad, tried, change)
        _show_counterexample(screen, found)
    if tried.report is not None:
        write_pass_report(screen, tried.report, change, trials, found)
    if as_json:
        keys = [_trial_keys(each) for each in trials]
        counts = Counter(each.status for each in trials)
        print_document(
            "pass",
            change=change.title,
            ok=not bad and not held.broken,
            counts=counts,
            modules=keys,
            promises=promise_keys(held, change),
            counterexample=_counterexample_keys(found),
        )
    return 1 if bad or held.broken else 0


def _show_diffs(screen: Screen, trials: Sequence[Trial]) -> None:
    for trial in trials:
        if trial.diff is not None and trial.diff.lines:
            screen.line()
            screen.line((f"# {trial.subject.label}", "bold"))
            screen.diff(trial.diff.lines)


def _show_table(screen: Screen, trials: Sequence[Trial], title: str) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("module", "change", "answer", "run on", "what differs"):
        table.add_column(heading, no_wrap=heading != "what differs")
    for each in trials:
        ran = ", ".join(v.device for v in each.verdicts if v.after is not None)
        table.add_row(
            each.subject.label,
            _spell_change(each),
            Text(each.status, STYLES.get(each.status, "yellow")),
            ran,
            "; ".join(list_differences(each)) or _shorten(each.reason),
        )
    screen.line((title, "bold"))
    screen.table(table)
    counts = spell_counts(each.status for each in trials)
    screen.line((f"{count(len(trials), 'module')}: ", "dim"), counts)


def _shorten(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def spell_counts(statuses: Iterable[str]) -> str:
    return ", ".join(f"{number} {status}" for status, number in Counter(statuses).items())


def _spell_change(trial: Trial) -> str:
    if trial.diff is None or not trial.is_changed:
        return ""
    gone = "" if trial.is_changed_in_the_end else ", the same in the end"
    return f"+{trial.diff.added} −{trial.diff.removed}{gone}"


def list_differences(trial: Trial) -> Iterator[str]:
    """The facts that differ, as ``barriers 2 → 1``; times where there is a clock."""
    yield from _compare(*trial.facts)
    for before, after in trial.compiled:
        for text in _compare(before.rows(), after.rows()):
            yield f"{before.architecture} {text}"
        if after.refusal is not None and before.refusal is None:
            yield f"{after.architecture} refuses it"
    for verdict in trial.verdicts:
        if verdict.times is not None:
            one, other = (each.median * 1e6 for each in verdict.times)
            yield f"{verdict.device} {one:.1f} → {other:.1f} us"


def _compare(before: Sequence[Fact], after: Sequence[Fact]) -> Iterator[str]:
    known = {(fact.group, fact.name): fact.value for fact in before}
    for fact in after:
        old = known.pop((fact.group, fact.name), None)
        if old != fact.value and not fact.name.endswith(DERIVED):
            yield f"{fact.name} {_spell(old)} → {_spell(fact.value)}"
    for (_, name), old in known.items():
        if not name.endswith(DERIVED):
            yield f"{name} {_spell(old)} → 0"


def _spell(value: Any) -> str:
    return "0" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _shrink_module(
    screen: Screen, experiment: Experiment, bad: Sequence[Trial], tried: Tried, change: Change
) -> Counterexample | None:
    from tirstep.experiments.hunting import TrialRecord, shrink_subject, try_subject

    from .pass_crash import shrink_crash

    if find_crash(SMALLER) is not None:
        return None
    with screen.working():
        screen.doing("making it small")
        note_tried(SMALLER)
        if all(trial.status == "crashed" for trial in bad):
            return shrink_crash(bad[0].subject, bad[0].reason, experiment, tried, change)
        for trial in [it for it in bad if it.status != "crashed"][:4]:
            found = try_subject(experiment, trial.subject)
            record = TrialRecord(0, "", trial.subject.label, found.status, found.reason, found.kind)
            small = shrink_subject(experiment, trial.subject, record, seed=tried.seed)
            if small is not None:
                return _write(small, experiment, tried, change)
    return None


def _write(
    found: Counterexample, experiment: Experiment, tried: Tried, change: Change
) -> Counterexample:
    from tirstep.experiments.hunting import write_counterexample

    path = tried.script or Path(f"wrong_{tried.name.replace('#', '_')}.py")
    edits = experiment.edits
    return write_counterexample(found, edits, change.source, change.title, path)


def _show_counterexample(screen: Screen, found: Counterexample | None) -> None:
    screen.line()
    if found is None:
        screen.line(("no small program shows it by itself, so no script is written", "yellow"))
        return
    lines = count(found.shrunk.lines, "line")
    screen.line(("small   ", "dim"), f"{lines}, after {found.shrunk.tried} reductions tried")
    screen.program(found.shrunk.text)
    screen.line((f"{found.verdict.status}   ", "dim"), found.verdict.reason, wrap=True)
    if found.path is None:
        told = (
            "none: what is changed is a pass of tirstep's own pipeline, or runs where host and "
            "device are apart, or in no list of passes"
        )
        screen.line(("script  ", "dim"), told, wrap=True)
        return
    screen.line(("script  ", "dim"), str(found.path))
    verb = "shows it" if found.is_shown else "does not show it on this machine"
    screen.line(("run     ", "dim"), f"the script {verb}: {found.last_line}", wrap=True)


def show_corpus(
    screen: Screen,
    experiment: Experiment,
    tried: Tried,
    change: Change,
    options: TryOptions,
    *,
    as_json: bool,
) -> int:
    """Try a change over the corpus, and print what it did; 1 if an answer changed."""
    from .json_output import print_document
    from .pass_report import try_reported, write_pass_report

    records = _hunt_all(screen, experiment, tried, change)
    bad = [each for each in records if each.is_bad]
    _show_counts(screen, records, change.title, tried)
    held = hold_over_corpus(screen, experiment, records, tried, change)
    show_promises(screen, held, change)
    found = _shrink_one(screen, experiment, records, tried, change) if bad else None
    if tried.report is not None:
        shown = try_reported(screen, experiment, records, options, tried.seed)
        write_pass_report(screen, tried.report, change, shown, found, records)
    if as_json:
        print_document(
            "pass",
            change=change.title,
            seed=tried.seed,
            ok=not bad and not held.broken,
            counts=Counter(each.status for each in records),
            trials=[asdict(each) for each in records],
            promises=promise_keys(held, change),
            counterexample=_counterexample_keys(found),
        )
    return 1 if bad or held.broken else 0


def _hunt_all(
    screen: Screen, experiment: Experiment, tried: Tried, change: Change
) -> list[TrialRecord]:
    from tirstep.experiments import Corpus
    from tirstep.experiments.hunting import HuntState, hunt

    corpus = Corpus(tried.seed)
    file = tried.state or get_trials_file()
    state = HuntState(file, change.title, corpus, change.source.digest)
    trials = range(tried.first, tried.first + (tried.corpus or 0))
    records: list[TrialRecord] = []
    with screen.working():
        note_tried(f"trial {tried.first}")
        for record in hunt(
            experiment, corpus, trials, state, lambda trial: find_crash(f"trial {trial}")
        ):
            records.append(record)
            note_tried(f"trial {record.trial + 1}")
            screen.doing(f"trial {record.trial}, {len(records)} of {len(trials)}")
    return records


def _shrink_one(
    screen: Screen,
    experiment: Experiment,
    records: Sequence[TrialRecord],
    tried: Tried,
    change: Change,
) -> Counterexample | None:
    from tirstep.experiments import Corpus
    from tirstep.experiments.hunting import find_counterexample

    from .pass_crash import shrink_crash

    found = None
    with screen.working():
        screen.doing("making a counterexample small")
        note_tried(SMALLER)
        if find_crash(SMALLER) is None:
            found = find_counterexample(experiment, Corpus(tried.seed), records)
            found = None if found is None else _write(found, experiment, tried, change)
        crashed = [each for each in records if each.status == "crashed"]
        if crashed and found is None:
            subject = Corpus(tried.seed).draw(crashed[0].trial)
            found = shrink_crash(subject, crashed[0].reason, experiment, tried, change)
    _show_counterexample(screen, found)
    return found


def _show_counts(screen: Screen, records: Sequence[TrialRecord], title: str, tried: Tried) -> None:
    table = Table(box=None, pad_edge=False)
    statuses = list(dict.fromkeys(each.status for each in records))
    table.add_column("")
    for status in statuses:
        table.add_column(status, justify="right")
    for kind in dict.fromkeys(each.kind for each in records):
        counts = Counter(each.status for each in records if each.kind == kind)
        table.add_row(kind, *(str(counts[status] or "") for status in statuses))
    screen.line((title, "bold"), (f"  {count(len(records), 'trial')}, seed {tried.seed}", "dim"))
    screen.table(table)
    for each in [each for each in records if each.is_bad][:5]:
        screen.line(
            (f"{each.status}  ", "bold red"), f"trial {each.trial}, {each.label}: {each.reason}"
        )


def _trial_keys(trial: Trial) -> Document:
    return {
        "module": trial.subject.label,
        "status": trial.status,
        "reason": trial.reason,
        "changed": trial.is_changed,
        "changed_in_the_end": trial.is_changed_in_the_end,
        "diff": None if trial.diff is None else str(trial.diff),
        "devices": [
            {
                "device": verdict.device,
                "before": _finding_texts(verdict.before),
                "after": _finding_texts(verdict.after),
                "note": verdict.note,
                "time_us": None
                if verdict.times is None
                else [each.median * 1e6 for each in verdict.times],
            }
            for verdict in trial.verdicts
        ],
        "facts": [[fact._asdict() for fact in facts] for facts in trial.facts],
        "compiled": [
            {
                "architecture": before.architecture,
                "before": [fact._asdict() for fact in before.rows()],
                "after": [fact._asdict() for fact in after.rows()],
            }
            for before, after in trial.compiled
        ],
    }


def _finding_texts(findings: Any) -> list[str] | None:
    return None if findings is None else [each.message for each in findings]


def _counterexample_keys(found: Counterexample | None) -> Document | None:
    if found is None:
        return None
    return {
        "from": found.record.label,
        "trial": found.record.trial,
        "lines": found.shrunk.lines,
        "program": found.shrunk.text,
        "reason": found.verdict.reason,
        "script": None if found.path is None else str(found.path),
        "shown": found.is_shown,
        "last_line": found.last_line,
    }
