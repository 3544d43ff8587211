"""Passports of recipes: types, shapes and targets, each tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tvm
from tvm.s_tir import SBlockRealize, Schedule
from tvm.tirx import For, ForKind

from tirstep.modules import get_kernel
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.tir import constant, find_all

from .targets import TARGETS, try_target

APPLIES = "applies"
Passport = dict[str, dict[str, str]]


def make_passport(recipe: Recipe) -> Passport:
    """What became of a recipe for each type, shape and target, by these words."""
    golden = recipe.golden
    plain = _schedule(recipe, golden.shape, golden.options, golden.config)
    kernel = get_kernel(recipe.kernel)
    types = {
        dtype: _try(recipe, golden.shape, {**golden.options, "dtype": dtype}, plain)
        for dtype in (kernel.dtypes if "dtype" in kernel.options else ())
    }
    shapes = {
        name: _try(recipe, shape, golden.options, plain)
        for name, shape in list_shapes(golden.shape)
    }
    if recipe.symbolic:
        shapes["open"] = _try(recipe, golden.shape, golden.options, plain, recipe.symbolic)
    targets = {kind: try_target(plain, kind) for kind in TARGETS}
    return {"types": types, "shapes": shapes, "targets": targets}


def list_shapes(shape: Mapping[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    """Shapes beside that of the golden: one more of everything, and one of everything."""
    yield "odd", {name: size + 1 for name, size in shape.items()}
    yield "ones", dict.fromkeys(shape, 1)


def measure(module: tvm.IRModule) -> tuple[int, int]:
    """The lanes of the widest vector of a module, and how many blocks stand behind a guard."""
    loops = find_all(module["main"].body, For)
    lanes = [constant(it.extent) or 1 for it in loops if it.kind == ForKind.VECTORIZED]
    guards = [
        it for it in find_all(module["main"].body, SBlockRealize) if constant(it.predicate) is None
    ]
    return max(lanes, default=1), len(guards)


def compare(module: tvm.IRModule, plain: tvm.IRModule) -> str:
    """What a schedule has lost or gained beside that of the golden; "" for nothing."""
    (lanes, guards), (wide, few) = measure(module), measure(plain)
    changes = []
    if lanes < wide:
        changes.append(f"vectors of {lanes} in place of {wide}")
    if guards > few:
        changes.append(f"{guards - few} more guarded blocks")
    return ", ".join(changes)


def _try(
    recipe: Recipe,
    shape: Mapping[str, int],
    options: Mapping[str, Any],
    plain: tvm.IRModule,
    symbolic: tuple[str, ...] = (),
) -> str:
    """ "applies", with how and with what it loses, or the sentence of the refusal."""
    config, refusal = dict(recipe.golden.config), ""
    tails = [config.get("tail"), *(tail for tail in recipe.tails if tail != config.get("tail"))]
    for tail in reversed(tails) if symbolic else tails:
        given = config if tail is None else {**config, "tail": tail}
        try:
            module = _schedule(recipe, shape, options, given, symbolic)
        except (TransformError, ValueError) as error:
            refusal = refusal or _spell(error)
            continue
        how = f" with tail={tail}" if given != config else ""
        lost = compare(module, plain)
        return f"{APPLIES}{how}{f': {lost}' if lost else ''}"
    return refusal


def _schedule(
    recipe: Recipe,
    shape: Mapping[str, int],
    options: Mapping[str, Any],
    config: Mapping[str, object],
    symbolic: tuple[str, ...] = (),
) -> tvm.IRModule:
    problem = get_kernel(recipe.kernel).problem(**shape, **options, symbolic=symbolic)
    return recipe(Schedule(problem.module), **config).mod


def _spell(error: Exception) -> str:
    """A refusal without the places of its recipe and kernel."""
    if isinstance(error, TransformError):
        return f"{error.transform}: {error.problem}; {error.advice}"
    return str(error)
