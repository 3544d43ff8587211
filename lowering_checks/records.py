"""What recipes come to under one TVM, in a folder, of which `upgrades` compares two.

A file of TVMScript for each step, as ``DIR/<recipe>/01_bound.py``, and `RECORD`, which is written
last: where a recording was ended before, there is none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm

from tirstep.files import made_aside, write_file
from tirstep.modules import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Recipe, Step

from .comparison import run_program
from .devices import Device, DeviceError
from .diff import print_module
from .facts import get_facts
from .finding import CheckError
from .steps import Run, run_golden, step_label

RECORD = "record.json"
_ERRORS = (CheckError, DeviceError, KernelError, TransformError)


@dataclass(frozen=True)
class RecordedStep:
    """One step.

    Attributes
    ----------
    label : number and name, as ``"01_bound"``
    text : its TVMScript
    facts : of its lowering for CUDA, by name; None where there is no kernel
    """

    label: str
    text: str
    facts: dict[str, Any] | None


@dataclass(frozen=True)
class RecordedRecipe:
    """A recipe at its golden example.

    Attributes
    ----------
    steps : none where the recipe was refused
    wrong : what the numbers of the last step have against it, a sentence each
    checked_on : the device of the numbers
    bits : a hash of what the last step computes of random floats; None where it did not run
    refusal : why there are no steps; None where there are
    """

    steps: tuple[RecordedStep, ...] = ()
    wrong: tuple[str, ...] = ()
    checked_on: str = ""
    bits: str | None = None
    refusal: str | None = None


@dataclass(frozen=True)
class Record:
    """Recipes by name, under one version of TVM."""

    tvm: str
    recipes: dict[str, RecordedRecipe]


def record_recipe(recipe: Recipe, device: Device, *, seed: int = 0) -> RecordedRecipe:
    """Run a recipe at its golden example; what refuses it is part of the record."""
    try:
        run = run_golden(recipe)
        steps = tuple(_record_step(run, step) for step in run.steps)
        last = run.steps[-1]
        found, name, outputs = run_program(run.problem, last.module, device, run.label(last), seed)
    except _ERRORS as error:
        return RecordedRecipe(refusal=str(error))
    digest = hashlib.sha256(b"".join(output.tobytes() for output in outputs)).hexdigest()
    wrong = tuple(f"{finding.check}: {finding.message}" for finding in found)
    return RecordedRecipe(steps, wrong, name, digest if outputs else None)


def _record_step(run: Run, step: Step) -> RecordedStep:
    found = get_facts(step.module, "cuda", problem=run.problem)
    facts = None
    if found.refusal is None:
        facts = {f"{row.group}: {row.name}": row.value for row in found.rows()}
    return RecordedStep(step_label(step), print_module(step.module), facts)


def write_record(folder: Path, recipes: Iterable[tuple[str, RecordedRecipe]]) -> Record:
    """Write the recipes into a folder as they come, and the record when they are all there.

    A record that stands there stays until then.
    """
    if (folder / RECORD).exists():
        with made_aside(folder) as made:
            return _write_record(made, recipes)
    folder.mkdir(parents=True, exist_ok=True)
    return _write_record(folder, recipes)


def _write_record(folder: Path, recipes: Iterable[tuple[str, RecordedRecipe]]) -> Record:
    kept = {}
    for name, recipe in recipes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for step in recipe.steps:
            write_file(folder / name / f"{step.label}.py", step.text, durable=False)
        kept[name] = recipe
    record = Record(tvm.__version__, kept)
    document = asdict(record)
    for recipe_keys in document["recipes"].values():
        for step_keys in recipe_keys["steps"]:
            del step_keys["text"]
    write_file(folder / RECORD, json.dumps(document, indent=1) + "\n")
    return record


def read_record(folder: Path) -> Record:
    """Read a folder. Raises `CheckError` for one that is no record, or was not finished."""
    file = folder / RECORD
    if not file.is_file():
        raise CheckError(
            f"{folder} has no {RECORD}: no record, or one that was not finished; "
            "write it with `tirstep record`"
        )
    try:
        document = json.loads(file.read_text())
        recipes = {
            name: _read_recipe(folder / name, keys) for name, keys in document["recipes"].items()
        }
        return Record(document["tvm"], recipes)
    except (ValueError, KeyError, TypeError, AttributeError, FileNotFoundError) as error:
        raise CheckError(
            f"{folder} is no whole record ({error}); write it again with `tirstep record`"
        ) from error


def _read_recipe(folder: Path, keys: dict[str, Any]) -> RecordedRecipe:
    steps = tuple(
        RecordedStep(text=(folder / f"{each['label']}.py").read_text(), **each)
        for each in keys["steps"]
    )
    return RecordedRecipe(**{**keys, "steps": steps, "wrong": tuple(keys["wrong"])})
