"""``tirstep pass --audit``: which of TVM's passes is the first after which numbers differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from .formatting import count
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.experiments.audit import AuditedTrial, AuditRow
    from tirstep.experiments.trial_file import TrialFile

    from .screen import Screen


def show_audit(
    trials: int, first: int, seed: int, jobs: int, state: Path | None, *, as_json: bool
) -> int:
    """Audit TVM's passes over the corpus, print the table; 1 if one is wrong, or crashes."""
    from tirstep.experiments.audit import tabulate, to_json
    from tirstep.experiments.editing import list_passes
    from tirstep.experiments.quick import CRASHED, WRONG

    from .json_output import print_document, read_keys
    from .screen import Screen

    screen = Screen(quiet=as_json)
    found: list[AuditedTrial] = []
    with screen.working():
        for record in _audit(seed, range(first, first + trials), jobs, state):
            found.append(record)
            screen.doing(f"{len(found)} of {trials} trials")
    found.sort(key=lambda each: each.trial)
    rows = tabulate(found, list_passes())
    _show(screen, found, rows, seed)
    wrong = [each for each in found if each.status in (WRONG, CRASHED)]
    if as_json:
        print_document(
            "pass",
            audit=True,
            seed=seed,
            ok=not wrong,
            counts=Counter(each.status for each in found),
            kinds=Counter(each.kind for each in found),
            passes=[
                {**read_keys(row, "name changed refused"), "wrong": dict(row.wrong)} for row in rows
            ],
            trials=[
                {key: value for key, value in to_json(each).items() if key != "changed"}
                for each in found
                if each.status != "right"
            ],
        )
    return 1 if wrong else 0


def _audit(
    seed: int, trials: Sequence[int], jobs: int, state: Path | None
) -> Iterator[AuditedTrial]:
    """The trials, those of the state file first; new ones are appended to it."""
    from tirstep.experiments.audit import to_json
    from tirstep.experiments.audit_pool import audit_in_processes

    known, file = _read(seed, state)
    yield from (each for each in known.values() if each.trial in trials)
    missing = [trial for trial in trials if trial not in known]
    for record in audit_in_processes(seed, missing, jobs):
        if file is not None:
            file.add(to_json(record))
        yield record


def _read(seed: int, state: Path | None) -> tuple[dict[int, AuditedTrial], TrialFile | None]:
    """The trials of a state file, by number, and the file."""
    from tirstep.experiments.audit import from_json
    from tirstep.experiments.trial_file import TrialFile

    if state is None:
        return {}, None
    file = TrialFile(state, {"audit": True, "seed": seed})
    try:
        if file.read() not in (None, file.head):
            raise UseError(f"{state} is of another search; give another file")
        return {each["trial"]: from_json(each) for each in file.lines}, file
    except (ValueError, TypeError, KeyError) as error:
        raise UseError(f"{state} is no state of an audit; give another file") from error


def _show(
    screen: Screen, found: Sequence[AuditedTrial], rows: Sequence[AuditRow], seed: int
) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("pass")
    for heading in ("changed", "first wrong", "refused"):
        table.add_column(heading, justify="right")
    for row in rows:
        wrong = ", ".join(f"{number} {what}" for what, number in row.wrong.items())
        table.add_row(row.name, str(row.changed or ""), wrong, str(row.refused or ""))
    screen.line(("TVM's passes", "bold"), (f"  {count(len(found), 'module')}, seed {seed}", "dim"))
    screen.table(table)
    counts = Counter(each.status for each in found)
    screen.line(", ".join(f"{number} {status}" for status, number in counts.items()))
    for each in [each for each in found if each.status in ("wrong", "crashed")][:8]:
        screen.line(
            (f"{each.at}  ", "bold red"), f"trial {each.trial}, {each.label}: {each.reason}"
        )
