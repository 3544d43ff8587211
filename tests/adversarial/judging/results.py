"""What is recorded of the programs: host needs a C++ compiler, the others a GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tirstep.files import write_file

from .devices import Verdict

FILE = Path(__file__).resolve().parents[1] / "results.json"
GPU = "gpu"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


@dataclass
class Results:
    """Verdicts by column and program, and where each column was made.

    Columns are ``host``, ``gpu`` and the sanitizer's `TOOLS`.
    """

    where: dict[str, str] = field(default_factory=dict)
    columns: dict[str, dict[str, Verdict]] = field(default_factory=dict)

    def programs(self, column: str) -> Mapping[str, Verdict]:
        """The verdicts of a column; empty where it was never made."""
        return self.columns.get(column, {})

    def update(self, column: str, verdicts: Mapping[str, Verdict], where: str) -> None:
        """Take over verdicts; programs that are not among them keep theirs."""
        self.columns[column] = {**self.programs(column), **verdicts}
        self.where[column] = where

    def keep(self, names: set[str]) -> None:
        """Forget programs that are no more."""
        for column, verdicts in self.columns.items():
            kept = {name: verdict for name, verdict in verdicts.items() if name in names}
            self.columns[column] = kept

    def write(self, file: Path = FILE) -> None:
        """Write all of it at once: a file that is cut short would lose a GPU's results."""
        columns = {
            column: {name: [verdict.outcome, verdict.says] for name, verdict in verdicts.items()}
            for column, verdicts in self.columns.items()
        }
        text = json.dumps({"columns": columns, "where": self.where}, indent=1, sort_keys=True)
        write_file(file, text + "\n")


def read(file: Path = FILE) -> Results:
    """The recorded results; empty where there is no file."""
    if not file.is_file():
        return Results()
    found = json.loads(file.read_text(encoding="utf-8"))
    columns = {
        column: {name: Verdict(*verdict) for name, verdict in verdicts.items()}
        for column, verdicts in found["columns"].items()
    }
    return Results(found["where"], columns)
