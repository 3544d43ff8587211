"""``tirstep upgrade-report``: what recipes become under another TVM, sorted by how much it matters.

Two TVMs are never in one process: each side is a record, which a Python of that side writes.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .catalogue import require_either
from .formatting import count
from .record import RECORD, RecordedRecipes
from .request import FunctionName, Json
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks.upgrades import Upgrade, VersionRecord

    from .screen import Screen

_SHOWN = 2
"""How many details of a change stand in the table; --json has all."""
_STYLES = {"behaviour": "bold red", "structure": "yellow", "new": "green"}


def command(
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="A folder of tirstep record, or the Python or environment to run it.",
        ),
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The same, under the newer TVM.")],
    recipes: RecordedRecipes = None,
    function: FunctionName = None,
    json: Json = False,
) -> int:
    """Say what changes in recipes from one TVM to another.

    Each step that changed is of one kind: spelling, where NEW reads OLD's text as the same program;
    normalisation, where TVM's simplifier makes the two the same; structure; or behaviour: other
    numbers on the simulator, other facts of the lowering, such as barriers, or a refusal. Run it
    with NEW's tirstep, which reads both texts. Exit code 1 where behaviour changed.
    """
    from .screen import Screen

    for name in recipes or []:
        require_either(name)
    words = [*(recipes or []), *(["--function", function] if function else [])]
    screen = Screen(quiet=json)
    with screen.working(), tempfile.TemporaryDirectory(prefix="tirstep-") as room:
        places = {"OLD": Path(old), "NEW": Path(new)}
        pythons = {side: _find_python(side, place) for side, place in places.items()}
        written = [side for side, python in pythons.items() if python is None]
        records = {side: _read_record(side, places[side], words) for side in written}
        if len(records) == 1:  # the other side is to have the same recipes
            words = _list_recorded(*records.values())
        for side, python in pythons.items():
            if python is not None:
                screen.doing(f"{side}: {places[side]}")
                _run_record(side, python, Path(room) / side, words)
                records[side] = _read_record(side, Path(room) / side, ())
        upgrade = _compare(records["OLD"], records["NEW"])
    if json:
        _print_keys(upgrade)
    else:
        _show(screen, upgrade)
    return 1 if upgrade.of_kind("behaviour") else 0


def _find_python(side: str, place: Path) -> Path | None:
    """The Python that writes a side's record; None where the record is there."""
    python = find_interpreter(place)
    if python is None and not place.is_dir():
        raise UseError(
            f"{side} {place} is no folder and no Python; give a folder of `tirstep record`, or the "
            "Python of an environment with tirstep and that TVM"
        )
    return python


def _read_record(side: str, place: Path, words: Sequence[str]) -> VersionRecord:
    from tirstep.lowering_checks.upgrades import read_record

    if words:
        raise UseError(f"{side} {place} is a record; name recipes where it is written")
    return read_record(place)


def _list_recorded(record: VersionRecord) -> list[str]:
    """The recipes of a record, for the other side to record them, too."""
    from tirstep.transforms.recipes import RECIPES

    unknown = [name for name in record.recipes if name not in RECIPES]
    if unknown:
        raise UseError(
            f"the record has {unknown[0]}, which is no recipe of tirstep's; write a record of the "
            "other side, too, with `tirstep record` there"
        )
    return [*record.recipes]


def find_interpreter(place: Path) -> Path | None:
    """The Python that is meant, by itself or by its environment; None for a record."""
    if place.is_file():
        return place.absolute()
    python = place / "bin" / "python"
    is_python = python.is_file() and not (place / RECORD).is_file()
    return python.absolute() if is_python else None


def _run_record(side: str, python: Path, room: Path, words: Sequence[str]) -> None:
    command = [str(python), "-m", "tirstep", "record", str(room), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise UseError(f"{side}: {python} does not run: {error.strerror}") from error
    if done.returncode < 0:
        raise UseError(f"{side}: {python} was ended by signal {-done.returncode}; run it again")
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UseError(f"{side}: {python} -m tirstep record failed: {said[-1]}")


def _compare(old: VersionRecord, new: VersionRecord) -> Upgrade:
    import tvm

    from tirstep.lowering_checks.upgrades import compare_records

    if new.tvm != tvm.__version__:
        raise UseError(
            f"NEW is of TVM {new.tvm}, and this is TVM {tvm.__version__}, which would read its "
            "text in another way; run the command with NEW's Python"
        )
    return compare_records(old, new)


def _show(screen: Screen, upgrade: Upgrade) -> None:
    from rich.table import Table
    from rich.text import Text

    changes = upgrade.changes
    if changes:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("kind", no_wrap=True)
        for header in ("what", "recipes and their steps"):
            table.add_column(header, ratio=1)
        for alike in upgrade.group():
            told = list(alike.details[:_SHOWN])
            if len(alike.details) > _SHOWN:
                told.append(f"and {len(alike.details) - _SHOWN} more")
            kind = Text(alike.kind, _STYLES.get(alike.kind, ""))
            table.add_row(kind, Text("; ".join(told)), Text(alike.name_steps()))
        screen.table(table)
        screen.line()
    counts = Counter(change.kind for change in changes)
    summary = ", ".join(f"{number} {kind}" for kind, number in counts.items()) or "all the same"
    steps = count(upgrade.count, "step")
    screen.line((f"TVM {upgrade.old} to {upgrade.new}", "bold"), f"  {steps}: {summary}")


def _print_keys(upgrade: Upgrade) -> None:
    from .json_output import print_document

    print_document(
        "upgrade-report",
        old=upgrade.old,
        new=upgrade.new,
        recipes=upgrade.recipes,
        steps=upgrade.count,
        changes=[
            {
                "recipe": change.recipe,
                "step": change.step,
                "kind": change.kind,
                "details": list(change.details),
            }
            for change in upgrade.changes
        ],
    )
