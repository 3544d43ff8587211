"""What was profiled, as values that go into JSON and come back unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import BenchError
from ..results import write_json
from .counters import KernelProfile

VERSION = 1
"""Of the document's form; a file of another version is refused."""


@dataclass(frozen=True)
class RecipeProfile:
    """The kernels of one recipe in the order of their launches; `note` says why there are none.

    `recipe` is its name as a benchmark's contender: with its tail, where it has one.
    """

    recipe: str
    kernels: tuple[KernelProfile, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class ProfileRun:
    """A ladder's recipes under the profiler: where, with what, when, how, and the counters."""

    kernel: str
    shape: Mapping[str, int]
    options: Mapping[str, object]
    device: Mapping[str, object]
    versions: Mapping[str, str]
    date: str
    method: Mapping[str, object]
    recipes: tuple[RecipeProfile, ...]

    @property
    def dtype(self) -> str:
        """The type of the inputs."""
        return str(self.options["dtype"])

    def find(self, recipe: str) -> RecipeProfile | None:
        """The profile of a recipe, by its contender's name; None if it was not profiled."""
        return next((one for one in self.recipes if one.recipe == recipe), None)


def read_profile(file: Path) -> ProfileRun:
    """Read a file; raises `BenchError` for any other document, OSError without one."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document.pop("command") != "profile" or document.pop("version") != VERSION:
            raise ValueError
        recipes = tuple(_read_recipe(one) for one in document.pop("recipes"))
        return ProfileRun(**document, recipes=recipes)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BenchError(
            f"{file} is no profile of tirstep in form {VERSION}; write it anew on a GPU with: "
            "benchmarks/profile_ladder.py"
        ) from None


def _read_recipe(document: Mapping[str, Any]) -> RecipeProfile:
    kernels = tuple(KernelProfile(**one) for one in document["kernels"])
    return RecipeProfile(document["recipe"], kernels, document["note"])


def write_profile(run: ProfileRun, file: Path) -> None:
    """Write the run; whoever reads the file meanwhile sees the old one or the new one."""
    write_json({"command": "profile", "version": VERSION, **asdict(run)}, file)
