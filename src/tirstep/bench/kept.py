"""What became of candidates, on the disk as it comes: a search that ends early goes on there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tirstep.tuning.trials import Trials, TunedTrial

from .search import SearchPlan
from .workers import Screened, Sizes

PASSING = ("crashed", "took longer", "does not run")
"""Beginnings of reasons that may have been the machine's: such a candidate is tried again."""


class Kept:
    """A folder's file of candidates, of one recipe, problem, device and set of versions."""

    def __init__(
        self, folder: Path, plan: SearchPlan, device: Mapping[str, Any], versions: Mapping[str, str]
    ) -> None:
        problem, recipe = plan.problem, plan.recipe
        self._trials = Trials.open(
            folder,
            json.loads(
                json.dumps(
                    {
                        "recipe": recipe.spelling or recipe.name,
                        "file": _digest(recipe.spelling),
                        "shape": dict(problem.shape),
                        "options": {name: str(it) for name, it in problem.options.items()},
                        "device": str(device["name"]),
                        "versions": {it: versions.get(it, "") for it in ("tirstep", "apache-tvm")},
                        "use": "search",
                    }
                )
            ),
        )
        self._known = {
            _spell(trial.config): trial
            for trial in self._trials.known
            if not trial.reason.startswith(PASSING)
        }

    @property
    def count(self) -> int:
        """How many candidates need not run again."""
        return len(self._known)

    def find(self, config: Sizes) -> Screened | None:
        """What became of a config; None if that is not known, or is to be tried again."""
        trial = self._known.get(_spell(config))
        if trial is None:
            return None
        us = 1e6 * trial.seconds[0] if trial.seconds else None
        return Screened(config, us, trial.reason)

    def add(self, screened: Screened) -> None:
        """Keep it; it is on the disk when this returns."""
        seconds = () if screened.us is None else (screened.us / 1e6,)
        self._trials.add(TunedTrial(screened.config, "", seconds, screened.reason))


def _spell(config: Mapping[str, object]) -> str:
    """As JSON has it, where pairs are lists."""
    return json.dumps(dict(config), sort_keys=True)


def _digest(spelling: str) -> str:
    """Of a user's own file: a recipe that was changed is another one."""
    file = Path(spelling.rpartition(":")[0] or spelling)
    if not (spelling and file.is_file()):
        return ""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
