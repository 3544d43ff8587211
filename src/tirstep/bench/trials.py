"""The trials of a run, kept as they come: a run that ends in the middle goes on where it was.

One file for each recipe, problem and target.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tirstep.files import KeptRows

from . import BenchError
from .workers import Trial

if TYPE_CHECKING:
    from .search import SearchPlan

FOLDER = "tirstep_trials"
"""Within the folder of a database."""
FORMAT = 1
PASSING = ("crashed", "took longer", "does not run")
"""Beginnings of reasons that may have been the machine's: a search tries such a candidate again."""


class Trials:
    """The trials of a run, in a file within the folder of a database; `about` says of what, in
    JSON's terms.

    Raises `BenchError` for a file that holds something else, which stays as it is.
    """

    def __init__(self, database: Path, about: Mapping[str, object]) -> None:
        self.file = self.locate(database, about)
        try:
            self._rows = KeptRows(self.file, {"format": FORMAT, **about})
            if self._rows.is_other:
                raise ValueError
        except ValueError:
            raise BenchError(
                f"{self.file} is no file of trials of this run; move it away, or give another "
                "database"
            ) from None
        self.known = [
            Trial(row["config"], tuple(row["seconds"]), row["reason"], row["program"])
            for row in self._rows.rows
            if row.keys() == {it.name for it in fields(Trial)}
        ]

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
        self._rows.add({**asdict(trial), "config": dict(trial.config)})

    def find_settled(self) -> dict[str, Trial]:
        """What need not run again, by `spell_config`."""
        settled = (it for it in self.known if not it.reason.startswith(PASSING))
        return {spell_config(trial.config): trial for trial in settled}


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
