"""What ``tirstep pass`` prints: a row for each module, then what is wrong, and its script."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from tirstep.experiments import Corpus, Experiment, Trial, TryOptions, try_change
from tirstep.experiments.holding import find_broken_promise
from tirstep.experiments.hunting import (
    Counterexample,
    HuntState,
    TrialRecord,
    find_counterexample,
    hunt,
    shrink_subject,
    try_subject,
    write_counterexample,
)
from tirstep.experiments.quick import RIGHT
from tirstep.files import write_file

from .formatting import count
from .guarding import SMALLER, find_crash, get_trials_file, note_tried
from .json_output import Document, print_document, read_keys
from .pass_ import Change, Tried
from .pass_crash import shrink_crash
from .screen import Screen

if TYPE_CHECKING:
    from tirstep.lowering_checks.facts import Fact

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
MOST_BROKEN = 5
"""Broken promises that are printed."""
MOST_REPORTED = 24
"""Modules of the corpus that a report shows."""


def show_modules(
    screen: Screen,
    experiment: Experiment,
    trials: Sequence[Trial],
    tried: Tried,
    change: Change,
    *,
    as_json: bool,
) -> int:
    """Print what a change did to modules; 1 if an answer changed, or a promise is broken."""
    bad = [each for each in trials if each.is_bad]
    held = _hold_promises([each for each in trials if not each.is_bad], change)
    _show_trials(screen, trials, change.title)
    _show_promises(screen, held, change)
    for trial in trials if tried.with_diff else bad[:1]:
        if trial.diff is not None and trial.diff.lines:
            screen.line()
            screen.line((f"# {trial.subject.label}", "bold"))
            screen.diff(trial.diff.lines)
    found = None
    if bad:
        screen.line()
        screen.line((f"{bad[0].status}  ", BAD_STYLE), f"{bad[0].subject.label}: {bad[0].reason}")

        def shrink() -> Counterexample | None:
            if all(trial.status == "crashed" for trial in bad):
                return shrink_crash(bad[0].subject, bad[0].reason, experiment, tried, change)
            for trial in [it for it in bad if it.status != "crashed"][:4]:
                quick = try_subject(experiment, trial.subject)
                label = trial.subject.label
                record = TrialRecord(0, "", label, quick.status, quick.reason, quick.kind)
                small = shrink_subject(experiment, trial.subject, record, seed=tried.seed)
                if small is not None:
                    return _write(small, experiment, tried, change)
            return None

        found = None if find_crash(SMALLER) is not None else _shrink(screen, shrink)
        _show_counterexample(screen, found)
    counts = Counter(each.status for each in trials)
    if tried.report is not None:
        about = f"{count(len(trials), 'module')}: {_spell_counts(counts)}."
        _write_report(screen, tried, change, trials, found, about)
    if as_json:
        modules = [_trial_keys(each) for each in trials]
        _print(change, held, found, counts, is_good=not bad, modules=modules)
    return 1 if bad or held.broken else 0


def show_corpus(
    screen: Screen,
    experiment: Experiment,
    tried: Tried,
    change: Change,
    options: TryOptions,
    *,
    as_json: bool,
) -> int:
    """Try a change over the corpus, and print what it did; 1 if an answer changed, or a promise is
    broken.
    """
    corpus = Corpus(tried.seed)
    records = _hunt_all(screen, experiment, corpus, tried, change)
    bad = [each for each in records if each.is_bad]
    _show_records(screen, records, change.title, tried.seed)

    def lower_right_ones() -> Iterator[Trial]:
        for record in records:
            if record.status == RIGHT:
                note_tried(f"trial {record.trial}")
                screen.doing(f"the promises on trial {record.trial}")
                lowered = TryOptions((), with_facts=False)
                yield try_change(experiment, corpus.draw(record.trial), lowered)

    with screen.working():
        held = _hold_promises(lower_right_ones(), change)
    _show_promises(screen, held, change)
    found = None
    if bad:

        def shrink() -> Counterexample | None:
            if find_crash(SMALLER) is None:
                small = find_counterexample(experiment, corpus, records)
                if small is not None:
                    return _write(small, experiment, tried, change)
            crashed = [each for each in records if each.status == "crashed"]
            if not crashed:
                return None
            subject = corpus.draw(crashed[0].trial)
            return shrink_crash(subject, crashed[0].reason, experiment, tried, change)

        found = _shrink(screen, shrink)
        _show_counterexample(screen, found)
    counts = Counter(each.status for each in records)
    if tried.report is not None:
        # The bad ones first, then right ones, by all devices.
        order = [each for each in records if each.is_bad and each.status != "crashed"]
        order += [each for each in records if each.status == RIGHT]
        with screen.working():
            screen.doing("writing the report")
            made = (try_change(experiment, corpus.draw(each.trial), options) for each in order)
            # Some programs of the corpus no compiler for a GPU takes, as vectors of eight float64.
            shown = [*itertools.islice((each for each in made if each.lowered), MOST_REPORTED)]
        about = f"{count(len(records), 'module')} of the corpus: {_spell_counts(counts)}."
        _write_report(screen, tried, change, shown, found, f"{about} Shown: {len(shown)}.")
    if as_json:
        trials = [asdict(each) for each in records]
        _print(change, held, found, counts, is_good=not bad, seed=tried.seed, trials=trials)
    return 1 if bad or held.broken else 0


def _hunt_all(
    screen: Screen, experiment: Experiment, corpus: Corpus, tried: Tried, change: Change
) -> list[TrialRecord]:
    file = tried.state or get_trials_file()
    state = HuntState(file, change.title, corpus, change.source.digest)
    trials = range(tried.first, tried.first + (tried.corpus or 0))
    records: list[TrialRecord] = []
    with screen.working():
        note_tried(f"trial {tried.first}")
        crashes = lambda trial: find_crash(f"trial {trial}")  # noqa: E731
        for record in hunt(experiment, corpus, trials, state, crashes):
            records.append(record)
            note_tried(f"trial {record.trial + 1}")
            screen.doing(f"trial {record.trial}, {len(records)} of {len(trials)}")
    return records


def _shrink(screen: Screen, shrink: Callable[[], Counterexample | None]) -> Counterexample | None:
    with screen.working():
        screen.doing("making it small")
        note_tried(SMALLER)
        return shrink()


def _write(
    found: Counterexample, experiment: Experiment, tried: Tried, change: Change
) -> Counterexample:
    edits = experiment.edits
    return write_counterexample(found, edits, change.source, change.title, tried.path)


def _write_report(
    screen: Screen,
    tried: Tried,
    change: Change,
    trials: Sequence[Trial],
    found: Counterexample | None,
    about: str,
) -> None:
    from .report.experiment import build_experiment_report
    from .report.render import render_report

    assert tried.report is not None
    with screen.working():
        screen.doing("writing the report")
        differences = [list(_list_differences(each)) for each in trials]
        report = build_experiment_report(
            trials, differences, title=change.title, about=about, small=found
        )
        write_file(tried.report, render_report(report))
    screen.line(("report  ", "dim"), str(tried.report))


@dataclass
class _Held:
    """What became of a pass's promises.

    Attributes
    ----------
    checked : modules that the pass changes, and that were looked at
    broken : the module, the promise, and how it is broken
    unchecked : promises that cannot be checked here, each with the reason
    """

    checked: int = 0
    broken: list[tuple[str, str, str]] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)


def _hold_promises(trials: Iterable[Trial], change: Change) -> _Held:
    """Hold a pass to its promises on modules whose answers are right with it."""
    held = _Held()
    if not change.promises:
        return held
    made = change.edits[0].made
    assert made is not None, "a pass that promises something is one that was given"
    for trial in trials:
        if trial.is_changed:
            held.checked += 1
            found = find_broken_promise(trial, made, change.promises, held.unchecked)
            if found is not None:
                held.broken.append((trial.subject.label, *found))
    return held


def _show_promises(screen: Screen, held: _Held, change: Change) -> None:
    """A line for each promise that is broken or unchecked; one where all are kept."""
    for label, promise, how in held.broken[:MOST_BROKEN]:
        screen.line(("broken  ", BAD_STYLE), f"'{promise}' on {label}: {how}")
    if change.promises and not held.checked:
        told = "the pass changes none of these modules, or none of which the answer stays right"
        listed = ", ".join(f"'{each}'" for each in change.promises)
        screen.line(("unchecked  ", "yellow"), f"{listed}: {told}", wrap=True)
    for promise, reason in held.unchecked.items():
        screen.line(("unchecked  ", "yellow"), f"'{promise}': {reason}")
    kept = [f"'{each}'" for each in change.promises if each not in held.unchecked]
    if held.checked and not held.broken and kept:
        where = count(held.checked, "module")
        screen.line(("kept  ", "dim"), f"{', '.join(kept)} on {where} that it changes")


def _show_trials(screen: Screen, trials: Sequence[Trial], title: str) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("module", "change", "answer", "run on", "what differs"):
        table.add_column(heading, no_wrap=heading != "what differs")
    for each in trials:
        change = ""
        if each.diff is not None and each.is_changed:
            gone = "" if each.is_changed_in_the_end else ", the same in the end"
            change = f"+{each.diff.added} −{each.diff.removed}{gone}"
        reason = each.reason if len(each.reason) <= 100 else f"{each.reason[:99]}…"
        table.add_row(
            each.subject.label,
            change,
            Text(each.status, STYLES.get(each.status, "yellow")),
            ", ".join(v.device for v in each.verdicts if v.after is not None),
            "; ".join(_list_differences(each)) or reason,
        )
    screen.line((title, "bold"))
    screen.table(table)
    counts = _spell_counts(Counter(each.status for each in trials))
    screen.line((f"{count(len(trials), 'module')}: ", "dim"), counts)


def _show_records(screen: Screen, records: Sequence[TrialRecord], title: str, seed: int) -> None:
    table = Table(box=None, pad_edge=False)
    statuses = list(dict.fromkeys(each.status for each in records))
    table.add_column("")
    for status in statuses:
        table.add_column(status, justify="right")
    for kind in dict.fromkeys(each.kind for each in records):
        counts = Counter(each.status for each in records if each.kind == kind)
        table.add_row(kind, *(str(counts[status] or "") for status in statuses))
    screen.line((title, "bold"), (f"  {count(len(records), 'trial')}, seed {seed}", "dim"))
    screen.table(table)
    for each in [each for each in records if each.is_bad][:5]:
        screen.line(
            (f"{each.status}  ", BAD_STYLE), f"trial {each.trial}, {each.label}: {each.reason}"
        )


def _spell_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {status}" for status, number in counts.items())


def _list_differences(trial: Trial) -> Iterator[str]:
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


def _print(
    change: Change,
    held: _Held,
    found: Counterexample | None,
    counts: Counter[str],
    *,
    is_good: bool,
    **keys: object,
) -> None:
    """The document: `keys` are those of modules, or of the corpus."""
    broken = [dict(zip(("module", "promise", "how"), it, strict=True)) for it in held.broken]
    small: Document | None = None
    if found is not None:
        small = {
            **read_keys(found.record, "from=label trial"),
            **read_keys(found.shrunk, "lines program=text"),
            "reason": found.verdict.reason,
            **read_keys(found, "script=path shown=is_shown last_line"),
        }
    print_document(
        "pass",
        change=change.title,
        ok=is_good and not held.broken,
        counts=counts,
        **keys,
        promises={
            "declared": change.promises,
            **read_keys(held, "checked unchecked"),
            "broken": broken,
        },
        counterexample=small,
    )


def _trial_keys(trial: Trial) -> Document:
    def messages(findings: Any) -> list[str] | None:
        return None if findings is None else [each.message for each in findings]

    def rows(facts: Sequence[Fact]) -> list[Document]:
        return [fact._asdict() for fact in facts]

    return {
        "module": trial.subject.label,
        **read_keys(trial, "status reason changed=is_changed"),
        "changed_in_the_end": trial.is_changed_in_the_end,
        "diff": None if trial.diff is None else str(trial.diff),
        "devices": [
            {
                "device": it.device,
                "before": messages(it.before),
                "after": messages(it.after),
                "note": it.note,
                "time_us": it.times and [each.median * 1e6 for each in it.times],
            }
            for it in trial.verdicts
        ],
        "facts": [rows(facts) for facts in trial.facts],
        "compiled": [
            {
                "architecture": before.architecture,
                "before": rows(before.rows()),
                "after": rows(after.rows()),
            }
            for before, after in trial.compiled
        ],
    }
