"""What changes in recipes when TVM does: each step that changed is of one of four kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm.error import DiagnosticError, InternalError
from tvm.script import from_source
from tvm.tirx.transform import StmtSimplify

from tirstep.tvm_compat import spell_as_newer

from .finding import CheckError
from .records import Record, RecordedRecipe, RecordedStep

SPELLING, NORMALISATION, STRUCTURE, BEHAVIOUR = KINDS = (
    "spelling",
    "normalisation",
    "structure",
    "behaviour",
)
NEW = "new"
"""Of a recipe that the older TVM refused, or that is not in its record."""


@dataclass(frozen=True)
class Change:
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
class Upgrade:
    """What `compare_records` found: `count` is how many steps both records have."""

    old: str
    new: str
    count: int
    changes: tuple[Change, ...]

    def of_kind(self, kind: str) -> list[Change]:
        """The changes of one kind."""
        return [change for change in self.changes if change.kind == kind]


def compare_records(old: Record, new: Record) -> Upgrade:
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
    return Upgrade(old.tvm, new.tvm, sum(map(len, shared)), tuple(changes))


def _compare(name: str, old: RecordedRecipe | None, new: RecordedRecipe | None) -> Iterator[Change]:
    if old is None or (old.refusal is not None and new is not None):
        if new is not None and new.refusal is None:
            why = old.refusal if old is not None else None
            yield Change(name, "", NEW, (f"was refused: {why}" if why else "was not recorded",))
        return
    if new is None or new.refusal is not None:
        if old.refusal is None:
            why = f"is refused: {new.refusal}" if new is not None else "is not recorded"
            yield Change(name, "", BEHAVIOUR, (why,))
        return
    if details := tuple(_find_other_numbers(old, new)):
        yield Change(name, "", BEHAVIOUR, details)
    before, after = ({step.label: step for step in each.steps} for each in (old, new))
    for label in dict.fromkeys([*before, *after]):
        if label not in before or label not in after:
            told = "is no step any more" if label in before else "is a new step"
            yield Change(name, label, STRUCTURE, (told,))
        elif (change := _sort(name, before[label], after[label])) is not None:
            yield change


def _find_other_numbers(old: RecordedRecipe, new: RecordedRecipe) -> Iterator[str]:
    if bool(old.wrong) != bool(new.wrong):
        of_one = f"wrong, {new.wrong[0]}" if new.wrong else f"right; were wrong, {old.wrong[0]}"
        yield f"numbers on {new.checked_on} are {of_one}"
    elif old.bits != new.bits and old.checked_on == new.checked_on:
        yield f"results on {new.checked_on} differ in bits"
    if old.checked_on != new.checked_on:
        yield f"runs on {new.checked_on}, and ran on {old.checked_on}"


def _sort(recipe: str, old: RecordedStep, new: RecordedStep) -> Change | None:
    if details := tuple(_find_other_facts(old.facts, new.facts)):
        return Change(recipe, old.label, BEHAVIOUR, details)
    if old.text == new.text:
        return None
    kind, detail = _sort_text(old.text, new.text)
    return Change(recipe, old.label, kind, (detail,))


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
