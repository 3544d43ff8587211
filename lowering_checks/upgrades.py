"""What changes in recipes when TVM does: each step that changed is of one of four kinds."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.error import DiagnosticError, InternalError
from tvm.script import from_source
from tvm.tirx.transform import StmtSimplify

from tirstep.files import made_aside, write_file
from tirstep.modules import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Recipe, Step

from .comparison import run_program
from .devices import Device, DeviceError
from .facts import get_facts
from .steps import CheckError, Run, print_module, run_golden, step_label

RECORD = "record.json"
_PLACE = re.compile(r" \[(recipe|kernel) .*\]$", re.DOTALL)
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
class VersionRecord:
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


def write_record(folder: Path, recipes: Iterable[tuple[str, RecordedRecipe]]) -> VersionRecord:
    """Write the recipes into a folder as they come, and the record when they are all there.

    A record that stands there stays until then.
    """
    if (folder / RECORD).exists():
        with made_aside(folder) as made:
            return _write_record(made, recipes)
    folder.mkdir(parents=True, exist_ok=True)
    return _write_record(folder, recipes)


def _write_record(folder: Path, recipes: Iterable[tuple[str, RecordedRecipe]]) -> VersionRecord:
    kept = {}
    for name, recipe in recipes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for step in recipe.steps:
            write_file(folder / name / f"{step.label}.py", step.text, durable=False)
        kept[name] = recipe
    record = VersionRecord(tvm.__version__, kept)
    document = asdict(record)
    for recipe_keys in document["recipes"].values():
        for step_keys in recipe_keys["steps"]:
            del step_keys["text"]
    write_file(folder / RECORD, json.dumps(document, indent=1) + "\n")
    return record


def read_record(folder: Path) -> VersionRecord:
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
        return VersionRecord(document["tvm"], recipes)
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


SPELLING, NORMALISATION, STRUCTURE, BEHAVIOUR = KINDS = (
    "spelling",
    "normalisation",
    "structure",
    "behaviour",
)
NEW = "new"
"""Of a recipe that the older TVM refused, or that is not in its record."""


@dataclass(frozen=True)
class StepChange:
    """A step, or the numbers of a recipe, that are not what they were.

    Attributes
    ----------
    step : the step's label, as ``"01_bound"``; empty for the whole recipe
    kind : one of `KINDS`, or `NEW`
    details : what is not as it was, a sentence each
    """

    recipe: str
    step: str
    kind: str
    details: tuple[str, ...]


@dataclass(frozen=True)
class ChangedAlike:
    """Steps of which the same is told: the steps of each recipe by its name."""

    kind: str
    details: tuple[str, ...]
    steps: dict[str, list[str]]

    def name_steps(self) -> str:
        """The recipes, each with its steps: ``matmul_mma 07_tensorized``."""
        return "; ".join(
            f"{recipe} {', '.join(steps)}".strip() for recipe, steps in self.steps.items()
        )


@dataclass(frozen=True)
class Upgrade:
    """What `compare_records` found.

    Attributes
    ----------
    count, recipes : how many steps and recipes both records have, refused ones among the latter
    """

    old: str
    new: str
    count: int
    changes: tuple[StepChange, ...]
    recipes: int = 0

    def of_kind(self, kind: str) -> list[StepChange]:
        """The changes of one kind."""
        return [change for change in self.changes if change.kind == kind]

    def group(self) -> list[ChangedAlike]:
        """The changes with what is told of several told once, in the order of the first of each."""
        groups: dict[tuple[str, tuple[str, ...]], dict[str, list[str]]] = {}
        for change in self.changes:
            steps = groups.setdefault((change.kind, change.details), {})
            steps.setdefault(change.recipe, []).append(change.step)
        return [ChangedAlike(*told, steps) for told, steps in groups.items()]


def compare_records(old: VersionRecord, new: VersionRecord) -> Upgrade:
    """Sort what changed. TVMScript is read by the TVM that runs this, which should be the newer.

    A step is of the first kind that holds: behaviour, where its facts are others; spelling, where
    its text is read as the same program, with names that TVM moved in their new places;
    normalisation, where that is so after TVM's simplifier; else structure. What the newer TVM
    refuses, or computes otherwise, is behaviour of the recipe.
    """
    names = dict.fromkeys([*old.recipes, *new.recipes])
    changes = [
        change
        for name in names
        for change in _compare(name, old.recipes.get(name), new.recipes.get(name))
    ]
    shared = [
        {step.label for step in recipe.steps}
        & {step.label for step in new.recipes.get(name, RecordedRecipe()).steps}
        for name, recipe in old.recipes.items()
    ]
    both = len(old.recipes.keys() & new.recipes.keys())
    return Upgrade(old.tvm, new.tvm, sum(map(len, shared)), tuple(changes), both)


def _compare(
    name: str, old: RecordedRecipe | None, new: RecordedRecipe | None
) -> Iterator[StepChange]:
    if old is None or (old.refusal is not None and new is not None):
        if new is not None and new.refusal is None:
            why = _tell_refusal(old) if old is not None else ""
            yield StepChange(name, "", NEW, (f"was refused: {why}" if why else "was not recorded",))
        return
    if new is None or new.refusal is not None:
        if old.refusal is None:
            why = f"is refused: {_tell_refusal(new)}" if new is not None else "is not recorded"
            yield StepChange(name, "", BEHAVIOUR, (why,))
        return
    if details := tuple(_find_other_numbers(old, new)):
        yield StepChange(name, "", BEHAVIOUR, details)
    before, after = ({step.label: step for step in each.steps} for each in (old, new))
    for label in dict.fromkeys([*before, *after]):
        if label not in before or label not in after:
            told = "is no step any more" if label in before else "is a new step"
            yield StepChange(name, label, STRUCTURE, (told,))
        elif (change := _sort(name, before[label], after[label])) is not None:
            yield change


def _tell_refusal(recipe: RecordedRecipe) -> str:
    """The sentence without its place, a recipe or a kernel and a path of the machine."""
    return _PLACE.sub("", recipe.refusal or "")


def _find_other_numbers(old: RecordedRecipe, new: RecordedRecipe) -> Iterator[str]:
    if bool(old.wrong) != bool(new.wrong):
        of_one = f"wrong, {new.wrong[0]}" if new.wrong else f"right; were wrong, {old.wrong[0]}"
        yield f"numbers on {new.checked_on} are {of_one}"
    elif old.bits != new.bits and old.checked_on == new.checked_on:
        yield f"results on {new.checked_on} differ in bits"
    if old.checked_on != new.checked_on:
        yield f"runs on {new.checked_on}, and ran on {old.checked_on}"


def _sort(recipe: str, old: RecordedStep, new: RecordedStep) -> StepChange | None:
    if details := tuple(_find_other_facts(old.facts, new.facts)):
        return StepChange(recipe, old.label, BEHAVIOUR, details)
    if old.text == new.text:
        return None
    kind, detail = _sort_text(old.text, new.text)
    return StepChange(recipe, old.label, kind, (detail,))


def _find_other_facts(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> Iterator[str]:
    if old is None or new is None:
        if (old is None) != (new is None):
            yield "is lowered now" if old is None else "is not lowered any more"
        return
    for name in dict.fromkeys([*old, *new]):
        before, after = old.get(name), new.get(name)
        if before != after:
            yield f"{name}: {before} -> {after}"


def _sort_text(old: str, new: str) -> tuple[str, str]:
    after = _parse(new)
    if isinstance(after, str):
        raise CheckError(
            f"TVM does not read the newer record ({after}); "
            "run this with the tirstep and the TVM that wrote it"
        )
    text, moved = spell_as_newer(old)
    before = _parse(text)
    if isinstance(before, str):
        return STRUCTURE, f"the older text is not read any more: {before}"
    if _is_same(before, after):
        return SPELLING, "; ".join(moved) or "prints otherwise"
    if _is_same(*(StmtSimplify()(module) for module in (before, after))):
        return NORMALISATION, "the same after TVM's simplifier"
    return STRUCTURE, "another program"


def _parse(text: str) -> Any:
    """The module of a text, or in a sentence why it is none."""
    try:
        return from_source(text, check_well_formed=False)
    except (DiagnosticError, InternalError, ValueError, TypeError, AttributeError) as error:
        return str(error).strip().splitlines()[0]


def _is_same(first: Any, second: Any) -> bool:
    return bool(tvm_ffi.structural_equal(first, second, map_free_vars=True))


_SPELLINGS = {
    "T.ptx.ldmatrix_legacy": "T.ptx_legacy.ldmatrix",
    "T.ptx.mma.legacy": "T.ptx_legacy.mma",
}
"""What 0.26 prints, and how 0.27 spells it."""


def spell_as_newer(text: str) -> tuple[str, list[str]]:
    """TVMScript of an older version in the words of the newer one, and what was spelt otherwise."""
    changed = []
    for old, new in _SPELLINGS.items():
        if f"{old}(" in text:
            text = text.replace(f"{old}(", f"{new}(")
            changed.append(f"{old} is now {new}")
    return text, changed
