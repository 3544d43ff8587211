"""Passports of transforms: on which forms of functions they apply, and what they say elsewhere."""

from __future__ import annotations

import collections
import random
import re
from pathlib import Path
from typing import Any

import tvm
from foreign_corpus import CORPUS
from foreign_corpus.calls import Call, list_calls, list_transforms
from foreign_corpus.states import STATES, bind_rest, make_state
from tvm.s_tir import Schedule

from tirstep.transforms import TransformError

from .recipes import APPLIES, compare
from .targets import TARGETS, try_target

FORMS = {
    "elements": "doubled",
    "indices": "padded_image",
    "open elements": "open_rows",
    "rows": "sum_of_rows",
    "softmax": "softmax",
    "pairs": "place_of_the_largest",
    "product": "product",
    "odd": "odd_product",
    "open product": "product_of_open_rows",
    "halves": "halves_to_halves",
    "int8": "product_of_bytes",
    "batch": "batch_with_a_scale",
    "packed": "product_of_nibbles",
    "convolution": "picture_with_taps",
}
"""Forms of functions, each with its function of the corpus."""
_TRIES = 4
"""Calls of a transform that are tried on a form in a state, drawn from all."""
RECIPES = Path(__file__).resolve().parents[3] / "transforms" / "recipes"


def make_passports() -> dict[str, dict[str, Any]]:
    """For each transform what became of it on each form, and which targets take a result of it."""
    found: dict[str, dict[str, Any]] = {
        name: {"forms": {}, "targets": {}, "recipes": find_users(name)}
        for name in list_transforms()
    }
    for form, function in FORMS.items():
        starts = {state: make_state(CORPUS[function].function, state) for state in STATES}
        calls = {state: _draw(start) for state, start in starts.items() if start is not None}
        for name, passport in found.items():
            text, module = _try_form(name, starts, calls)
            passport["forms"][form] = text
            if module is not None and not passport["targets"]:
                passport["targets"] = {kind: try_target(module, kind) for kind in TARGETS}
    return found


def find_users(transform: str) -> list[str]:
    """The files of recipes that call a transform."""
    files = sorted(RECIPES.glob("*.py"))
    return [it.stem for it in files if re.search(rf"\b{transform}\(", it.read_text("utf-8"))]


def _draw(start: Schedule) -> dict[str, list[Call]]:
    """Some calls of each transform."""
    dice, every = random.Random(0), collections.defaultdict(list)
    for call in list_calls(start):
        every[call.transform].append(call)
    return {name: dice.sample(calls, min(_TRIES, len(calls))) for name, calls in every.items()}


def _try_form(
    name: str, starts: dict[str, Schedule | None], calls: dict[str, dict[str, list[Call]]]
) -> tuple[str, tvm.IRModule | None]:
    """ "applies" in the first state where it does, or what it says most often where it does not."""
    refusals: collections.Counter[str] = collections.Counter()
    for state, drawn in calls.items():
        for call in drawn.get(name, ()):
            start = starts[state]
            if start is None:
                continue
            sch = start.copy()
            try:
                call.run(sch)
            except TransformError as error:
                problem = re.sub(r"'[^']*'", "'…'", error.problem)
                refusals[f"{error.transform}: {problem}; {error.advice}"] += 1
                continue
            return _describe(state, sch, start)
    most = refusals.most_common(1)
    return (most[0][0] if most else "there is no place for it"), None


def _describe(state: str, sch: Schedule, start: Schedule) -> tuple[str, tvm.IRModule | None]:
    lost = compare(sch.mod, start.mod)
    text = f"{APPLIES}, {state}" if state != "as written" else APPLIES
    whole = sch.copy()
    try:
        bind_rest(whole)
    except (TransformError, RuntimeError):
        whole = sch
    return f"{text}: {lost}" if lost else text, whole.mod
