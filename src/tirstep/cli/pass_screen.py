"""What ``tirstep pass`` prints: a row for each module, then what is wrong, and its script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from tirstep.experiments import Corpus, Experiment, PromiseReport, Subject, Trial, list_passes
from tirstep.experiments.audit import audit, tabulate
from tirstep.experiments.corpus import TrialFile, TrialRecord, hunt
from tirstep.experiments.shrinking import Counterexample
from tirstep.lowering_checks.facts import Fact

from .formatting import count
from .guarding import note_tried
from .json_output import Document, print_document, read_keys
from .screen import Screen, make_table

DERIVED = (", vectors", ", scalars", ", widest")
"""Ends of the names of facts that another one tells, too."""
BAD_STYLE = "bold red"
STYLES = {"right": "green", "wrong": BAD_STYLE, "refused": BAD_STYLE, "unchanged": "dim"}
MOST_SHOWN = 5
"""Broken promises, and wrong trials, that are printed."""


def show_promises(screen: Screen, held: PromiseReport, experiment: Experiment) -> None:
    """A line for each promise that is broken or unchecked; one where all are kept."""
    for label, promise, how in held.broken[:MOST_SHOWN]:
        screen.line(("broken  ", BAD_STYLE), f"'{promise}' on {label}: {how}")
    listed = ", ".join(f"'{each}'" for each in experiment.promises)
    if experiment.promises and not held.changed:
        told = "the pass changes none of these modules, or none of which the answer stays right"
        screen.line(("unchecked  ", "yellow"), f"{listed}: {told}", wrap=True)
    if held.changed and not held.broken:
        where = count(held.changed, "module")
        screen.line(("kept  ", "dim"), f"{listed} on {where} that it changes")


def show_bad(screen: Screen, status: str, text: str) -> None:
    """A line of what is wrong."""
    screen.line((f"{status}  ", BAD_STYLE), text)


def show_trials(screen: Screen, trials: Sequence[Trial], title: str) -> None:
    """A row for each module, with the facts that differ, as ``barriers 2 → 1``, and times where
    there is a clock.
    """

    def spell(value: Any) -> str:
        return "0" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

    def compare(before: Sequence[Fact], after: Sequence[Fact]) -> Iterator[str]:
        known = {(fact.group, fact.name): fact.value for fact in before}
        for fact in after:
            old = known.pop((fact.group, fact.name), None)
            if old != fact.value and not fact.name.endswith(DERIVED):
                yield f"{fact.name} {spell(old)} → {spell(fact.value)}"
        for (_, name), old in known.items():
            if not name.endswith(DERIVED):
                yield f"{name} {spell(old)} → 0"

    def list_differences(trial: Trial) -> Iterator[str]:
        yield from compare(*trial.facts)
        for before, after in trial.compiled:
            yield from (
                f"{before.architecture} {it}" for it in compare(before.rows(), after.rows())
            )
            if after.refusal is not None and before.refusal is None:
                yield f"{after.architecture} refuses it"
        for verdict in trial.verdicts:
            if verdict.times is not None:
                one, other = (each.median * 1e6 for each in verdict.times)
                yield f"{verdict.device} {one:.1f} → {other:.1f} us"

    rows = []
    for each in trials:
        change = ""
        if each.diff is not None and each.is_changed:
            gone = "" if each.is_changed_in_the_end else ", the same in the end"
            change = f"+{each.diff.added} −{each.diff.removed}{gone}"
        reason = each.reason if len(each.reason) <= 100 else f"{each.reason[:99]}…"
        devices = ", ".join(it.device for it in each.verdicts if it.after is not None)
        answer = Text(each.status, STYLES.get(each.status, "yellow"))
        differs = "; ".join(list_differences(each)) or reason
        rows.append((each.subject.label, change, answer, devices, differs))
    screen.line((title, "bold"))
    headings = ("module", "change", "answer", "run on", "what differs")
    screen.table(make_table(headings, (), rows))
    screen.line((f"{count(len(trials), 'module')}: ", "dim"), _spell_counts(trials))


def show_records(screen: Screen, records: Sequence[TrialRecord], title: str, seed: int) -> None:
    """How many trials of each kind ended how."""
    statuses = list(dict.fromkeys(each.status for each in records))
    rows = []
    for kind in dict.fromkeys(each.kind for each in records):
        counts = Counter(each.status for each in records if each.kind == kind)
        rows.append((kind, *(str(counts[status] or "") for status in statuses)))
    screen.line((title, "bold"), (f"  {count(len(records), 'trial')}, seed {seed}", "dim"))
    screen.table(make_table([""], statuses, rows))
    for each in [each for each in records if each.is_bad][:MOST_SHOWN]:
        show_bad(screen, each.status, f"trial {each.trial}, {each.label}: {each.reason}")


def audit_passes(trials: Sequence[int], seed: int, state: Path | None, *, as_json: bool) -> int:
    """Hold TVM's own passes against the interpreter, over the corpus, and show a row for each that
    changed something; 1 if one is wrong.
    """

    def attempt(subject: Subject) -> dict[str, object]:
        note_tried(subject.label)
        return dict(audit(subject))

    screen, records = Screen(quiet=as_json), list[TrialRecord]()
    file = TrialFile(state, {"audit": True, "seed": seed})
    with screen.working():
        for record in hunt(Corpus(seed), trials, file, attempt):
            records.append(record)
            screen.doing(f"{len(records)} of {len(trials)} trials")
    rows, cells = tabulate(records, list_passes()), []
    for row in rows:
        told = ", ".join(f"{number} {what}" for what, number in row.wrong.items())
        cells.append((row.name, str(row.changed or ""), told, str(row.refused or "")))
    about = f"  {count(len(records), 'module')}, seed {seed}"
    screen.line(("TVM's passes", "bold"), (about, "dim"))
    screen.table(make_table(["pass"], ("changed", "first wrong", "refused"), cells))
    screen.line(_spell_counts(records))
    wrong = [each for each in records if each.status == "wrong"]
    for each in wrong[:MOST_SHOWN]:
        show_bad(screen, each.at, f"trial {each.trial}, {each.label}: {each.reason}")
    if as_json:
        print_document(
            "pass",
            audit=True,
            seed=seed,
            ok=not wrong,
            counts=Counter(each.status for each in records),
            kinds=Counter(each.kind for each in records),
            passes=[asdict(row) for row in rows],
            trials=[spell_record(each) for each in records if each.status != "right"],
        )
    return 1 if wrong else 0


def _spell_counts(trials: Sequence[Trial | TrialRecord]) -> str:
    counts = Counter(each.status for each in trials)
    return ", ".join(f"{number} {status}" for status, number in counts.items())


def show_counterexample(screen: Screen, found: Counterexample | None) -> None:
    """The small program, and its script."""
    screen.line()
    if found is None:
        screen.line(("no small program shows it by itself, so no script is written", "yellow"))
        return
    lines = count(found.shrunk.lines, "line")
    screen.line(("small   ", "dim"), f"{lines}, after {found.shrunk.tried} reductions tried")
    screen.program(found.shrunk.text)
    trial = found.shrunk.trial
    screen.line((f"{trial.status}   ", "dim"), trial.reason, wrap=True)
    screen.line(("script  ", "dim"), str(found.path))
    verb = "shows it" if found.is_shown else "does not show it on this machine"
    screen.line(("run     ", "dim"), f"the script {verb}: {found.last_line}", wrap=True)


def print_json(
    experiment: Experiment,
    held: PromiseReport,
    found: Counterexample | None,
    tried: Sequence[Trial | TrialRecord],
    **keys: object,
) -> None:
    """The document of what was tried: `keys` are those of modules, or of the corpus."""
    small: Document | None = None
    if found is not None:
        small = {
            "from": found.label,
            **read_keys(found.shrunk, "lines program=text"),
            "reason": found.shrunk.trial.reason,
            **read_keys(found, "script=path shown=is_shown last_line"),
        }
    broken = [dict(zip(("module", "promise", "how"), it, strict=True)) for it in held.broken]
    print_document(
        "pass",
        change=experiment.title,
        ok=not held.broken and not any(each.is_bad for each in tried),
        counts=Counter(each.status for each in tried),
        **keys,
        promises={
            "declared": experiment.promises,
            "checked": held.changed,
            "broken": broken,
        },
        counterexample=small,
    )


def spell_record(record: TrialRecord) -> Document:
    """A trial of the corpus."""
    return read_keys(record, "trial kind label status reason what at")


def spell_trial(trial: Trial) -> Document:
    """A module, and what the change did to it."""

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
