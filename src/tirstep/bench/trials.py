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
from typing import Any

from tirstep.files import write_file

from . import BenchError
from .search import SearchPlan
from .workers import Screened, Sizes

FOLDER = "tirstep_trials"
"""Within the folder of a database."""
FORMAT = 1
PASSING = ("crashed", "took longer", "does not run")
"""Beginnings of reasons that may have been the machine's: a search tries such a candidate again."""


@dataclass(frozen=True)
class TunedTrial:
    """What a config came to.

    Attributes
    ----------
    config : as JSON has it, lists for pairs
    program : the hash of the scheduled module
    seconds : of each run; empty where it is out
    reason : why it is out
    """

    config: Mapping[str, object]
    program: str
    seconds: tuple[float, ...] = ()
    reason: str = ""


@dataclass
class Trials:
    """The file of a run's trials."""

    file: Path
    about: Mapping[str, object]
    known: list[TunedTrial] = field(default_factory=list)

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

    def add(self, trial: TunedTrial) -> None:
        """Keep a trial; it is on the disk when this returns."""
        self.known.append(trial)
        with open(self.file, "ab") as stream:
            stream.write(_spell(trial).encode())
            stream.flush()
            os.fsync(stream.fileno())

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
            TunedTrial(row["config"], row["program"], tuple(row["seconds"]), row["reason"])
            for row in rows[1:]
            if isinstance(row, dict) and row.keys() == {it.name for it in fields(TunedTrial)}
        ]
        if not rows or len(self.known) < len(rows) - 1 or lines[-1]:
            # What is not whole goes, so that the next line begins at its place.
            first = json.dumps(about, sort_keys=True)
            write_file(self.file, "".join([f"{first}\n", *map(_spell, self.known)]))


def _spell(trial: TunedTrial) -> str:
    return json.dumps({**asdict(trial), "config": dict(trial.config)}) + "\n"


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


class Kept:
    """A folder's file of candidates, of one recipe, problem, device and set of versions."""

    def __init__(
        self, folder: Path, plan: SearchPlan, device: Mapping[str, Any], versions: Mapping[str, str]
    ) -> None:
        problem, recipe = plan.problem, plan.recipe
        file, digest = Path(recipe.spelling.rpartition(":")[0] or recipe.spelling), ""
        if recipe.spelling and file.is_file():  # a user's recipe that was changed is another one
            digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        about = {
            "recipe": recipe.spelling or recipe.name,
            "file": digest,
            "shape": dict(problem.shape),
            "options": {name: str(it) for name, it in problem.options.items()},
            "device": str(device["name"]),
            "versions": {it: versions.get(it, "") for it in ("tirstep", "apache-tvm")},
            "use": "search",
        }
        self._trials = Trials.open(folder, about)
        known = [it for it in self._trials.known if not it.reason.startswith(PASSING)]
        self._known = {spell_config(trial.config): trial for trial in known}

    @property
    def count(self) -> int:
        """How many candidates need not run again."""
        return len(self._known)

    def find(self, config: Sizes) -> Screened | None:
        """What became of a config; None if that is not known, or is to be tried again."""
        trial = self._known.get(spell_config(config))
        if trial is None:
            return None
        us = 1e6 * trial.seconds[0] if trial.seconds else None
        return Screened(config, us, trial.reason)

    def add(self, screened: Screened) -> None:
        """Keep it; it is on the disk when this returns."""
        seconds = () if screened.us is None else (screened.us / 1e6,)
        self._trials.add(TunedTrial(screened.config, "", seconds, screened.reason))


def spell_config(config: Mapping[str, object]) -> str:
    """A config as JSON has it, where pairs are lists; equal for equal ones."""
    return json.dumps(dict(config), sort_keys=True)
