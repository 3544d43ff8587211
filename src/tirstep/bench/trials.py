"""The trials of a run, kept as they come: a run that ends in the middle goes on where it was.

One file for each recipe, problem and target: its first line says of what, each other one is a
trial. A line that is not whole, as a killed process leaves one, counts as no trial.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tirstep.files import write_file

from . import BenchError
from .workers import Trial

if TYPE_CHECKING:
    from .search import SearchPlan

FOLDER = "tirstep_trials"
"""Within the folder of a database."""
FORMAT = 1
PASSING = ("crashed", "took longer", "does not run")
"""Beginnings of reasons that may have been the machine's: a search tries such a candidate again."""


@dataclass
class Trials:
    """The file of a run's trials."""

    file: Path
    about: Mapping[str, object]
    known: list[Trial] = field(default_factory=list)

    @classmethod
    def open(cls, database: Path, about: Mapping[str, object]) -> Trials:
        """The trials that there are; `about` says of what, in JSON's terms.

        Raises `BenchError` for a file that holds something else, which stays as it is.
        """
        trials = cls(cls.locate(database, about), about)
        trials._read()
        return trials

    @staticmethod
    def locate(database: Path, about: Mapping[str, object]) -> Path:
        """The file, whose folder is made."""
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
        name = "".join(letter if letter.isalnum() else "_" for letter in str(about["recipe"]))
        folder = database / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name[-60:]}-{digest}.jsonl"

    def add(self, trial: Trial) -> None:
        """Keep a trial; it is on the disk when this returns."""
        self.known.append(trial)
        with open(self.file, "ab") as stream:
            stream.write(_spell(trial).encode())
            stream.flush()
            os.fsync(stream.fileno())

    def find_settled(self) -> dict[str, Trial]:
        """What need not run again, by `spell_config`."""
        settled = (it for it in self.known if not it.reason.startswith(PASSING))
        return {spell_config(trial.config): trial for trial in settled}

    def _read(self) -> None:
        lines = self.file.read_bytes().split(b"\n") if self.file.is_file() else []
        rows = [_parse(line) for line in lines[:-1] if line]
        about = {"format": FORMAT, **self.about}
        if rows and rows[0] != about:
            raise BenchError(
                f"{self.file} is no file of trials of this run; move it away, or give another "
                "database"
            )
        self.known = [
            Trial(row["config"], tuple(row["seconds"]), row["reason"], row["program"])
            for row in rows[1:]
            if isinstance(row, dict) and row.keys() == {it.name for it in fields(Trial)}
        ]
        if not rows or len(self.known) < len(rows) - 1 or lines[-1]:
            # What is not whole goes, so that the next line begins at its place.
            first = json.dumps(about, sort_keys=True)
            write_file(self.file, "".join([f"{first}\n", *map(_spell, self.known)]))


def _spell(trial: Trial) -> str:
    return json.dumps({**asdict(trial), "config": dict(trial.config)}) + "\n"


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def describe_search(
    plan: SearchPlan, device: Mapping[str, Any], versions: Mapping[str, str]
) -> dict[str, object]:
    """What a search's trials are of: one recipe, problem, device and set of versions."""
    problem, recipe = plan.problem, plan.recipe
    file, digest = Path(recipe.spelling.rpartition(":")[0] or recipe.spelling), ""
    if recipe.spelling and file.is_file():  # a user's recipe that was changed is another one
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    return {
        "recipe": recipe.spelling or recipe.name,
        "file": digest,
        "shape": dict(problem.shape),
        "options": {name: str(it) for name, it in problem.options.items()},
        "device": str(device["name"]),
        "versions": {it: versions.get(it, "") for it in ("tirstep", "apache-tvm")},
        "use": "search",
    }


def spell_config(config: Mapping[str, object]) -> str:
    """A config as JSON has it, where pairs are lists; equal for equal ones."""
    return json.dumps(dict(config), sort_keys=True)
