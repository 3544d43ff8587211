"""Plans and recipes as rules of dlight, for ``tvm.s_tir.dlight.ApplyDefaultSchedule``.

A recipe schedules anybody's functions by the plan of its family, or on blocks under other names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm.s_tir import SBlock, Schedule, ScheduleError
from tvm.s_tir.dlight import ScheduleRule
from tvm.target import Target
from tvm.tirx import PrimFunc
from tvm_ffi import structural_map

from ..queries import get_sblock_name
from ..recipes.element_ladders import FlatConfig
from ..recipes.gemm import GemmConfig
from ..recipes.mma import MmaConfig
from ..recipes.recipe import Recipe
from ..recipes.row_ladders import RowConfig
from ..recipes.rungs import Rung, read_pairs
from ..recipes.wgmma import WgmmaConfig
from ..schedule import TransformError, describe_error
from ..tir import find_all, replace_fields
from .plan import FLAT_PLAN, MATMUL, ROWS, Plan
from .product_plan import CONVOLUTION
from .roles import DEVICE, Mismatch, Roles, list_sblocks, make_roles
from .targets import find_unsupported, narrow_indices


class TirstepRule(ScheduleRule):
    """A rule that says why it leaves a function to the next one.

    Attributes
    ----------
    reasons : why the rule left a function to the next one, by the function's name, or the names of
        its blocks where it has none, as those that Relax makes
    """

    def __init__(self, name: str, make: Callable[[PrimFunc, Target], Schedule | Mismatch]) -> None:
        self.name, self._make = name, make
        self.reasons: dict[str, str] = {}

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """The scheduled function; None, with a reason, where the rule does not fit."""
        if not isinstance(func, PrimFunc) or "gpu" not in target.keys:
            return None
        made = self._make(func, target)
        if isinstance(made, Schedule) and (reason := find_unsupported(made.mod, target)):
            made = Mismatch(self.name, reason)
        if isinstance(made, Mismatch):
            self.reasons[_name(func)] = str(made)
            return None
        return made


def make_plan_rule(plan: Plan, *, device: str = DEVICE, tensor_cores: bool = False) -> TirstepRule:
    """The rule that schedules by a plan, with the best config that works."""

    def make(function: PrimFunc, target: Target) -> Schedule | Mismatch:
        narrows = tensor_cores or plan.name == CONVOLUTION
        sch = Schedule(narrow_indices(function) if narrows else function)
        roles = plan.match(sch)
        if isinstance(roles, Mismatch):
            return roles
        try:
            plan.schedule(sch, roles, plan.choose(sch, roles, device, tensor_cores), target)
        except TransformError as error:
            return Mismatch(plan.name, str(error))
        return sch

    return TirstepRule(plan.name, make)


def _name(function: PrimFunc) -> str:
    symbol: Any = None if function.attrs is None else function.attrs.get("global_symbol")
    blocks = [str(node.name_hint) for node in find_all(function.body, SBlock)]
    return str(symbol) if symbol is not None else " ".join(it for it in blocks if it != "root")


Filter = Callable[[PrimFunc], object]
Choose = Callable[[PrimFunc], Mapping[str, object] | None]
_PLANS: dict[type, Plan] = {
    GemmConfig: MATMUL,
    MmaConfig: MATMUL,
    WgmmaConfig: MATMUL,
    RowConfig: ROWS,
    FlatConfig: FLAT_PLAN,
}
_TAILS = ("pad", "guard")
"""What a rule does where sizes do not divide, unless it is told: a model has any sizes."""


def match_recipe(recipe: Recipe, function: PrimFunc | tvm.IRModule | Schedule) -> Roles | Mismatch:
    """The blocks of a function that a recipe schedules, or why it does not.

    A rung of a family with a plan takes what the plan takes. Any other recipe takes a function with
    as many blocks as its kernel has, in whose places they are tried.
    """
    sch = function if isinstance(function, Schedule) else Schedule(function)
    plan = _get_plan(recipe)
    if plan is not None:
        return plan.match(sch)
    made = _run_renamed(recipe, sch.mod["main"], {})
    return made if isinstance(made, Mismatch) else make_roles(sch, recipe.name, list_sblocks(sch))


def make_recipe_rule(
    recipe: Recipe, *, match: Filter | None = None, choose: Choose | None = None
) -> TirstepRule:
    """The rule of dlight that schedules functions as a recipe does its kernel."""

    def make(function: PrimFunc, _: Target) -> Schedule | Mismatch:
        if match is not None and not (answer := match(function)):
            told = isinstance(answer, Mismatch)
            return Mismatch(recipe.name, str(answer) if told else "its match does not take it")
        config = {} if choose is None else choose(function)
        if config is None:
            return Mismatch(recipe.name, "no config is chosen")
        recipe.require_config(config)
        plan = _get_plan(recipe)
        if plan is None:
            return _run_renamed(recipe, function, config)
        sch = Schedule(function)
        roles = plan.match(sch)
        if isinstance(roles, Mismatch):
            return roles
        try:
            plan.schedule(sch, roles, [_make_config(recipe, config)])
        except TransformError as error:
            return Mismatch(recipe.name, str(error))
        return sch

    return TirstepRule(recipe.name, make)


def _get_plan(recipe: Recipe) -> Plan | None:
    return _PLANS.get(recipe.family.config) if isinstance(recipe, Rung) else None


def _make_config(recipe: Recipe, config: Mapping[str, object]) -> Any:
    """What a plan takes of a recipe with these knobs."""
    assert isinstance(recipe, Rung)
    return recipe.family.config(**{**recipe.config, **_get_tail(recipe), **read_pairs(config)})


def _get_tail(recipe: Recipe) -> dict[str, object]:
    taken = [tail for tail in _TAILS if tail in recipe.tails]
    return {"tail": taken[0]} if taken else {}


def _run_renamed(
    recipe: Recipe, function: PrimFunc, config: Mapping[str, object]
) -> Schedule | Mismatch:
    """The schedule of a function whose blocks get the names that a recipe knows."""
    sch = Schedule(function)
    blocks = list_sblocks(sch)
    names = [get_sblock_name(sch, block) for block in blocks]
    forms = [form.split() for form in recipe.blocks if len(form.split()) == len(names)]
    if not forms or len({*names}) < len(names):
        known = " or ".join(f"'{form}'" for form in recipe.blocks)
        return Mismatch(recipe.name, f"the blocks are '{' '.join(names)}', and it has {known}")
    new_names = dict(zip(names, forms[0], strict=True))

    def rename(node: Any) -> Any:  # for what looks names up; TVM renames none
        name = str(node.name_hint)
        return replace_fields(node, name_hint=new_names[name]) if name in new_names else node

    renamed = Schedule(function.with_body(structural_map(function.body, (SBlock, rename))))
    try:
        return recipe(renamed, **{**_get_tail(recipe), **config})
    except TransformError as error:
        return Mismatch(recipe.name, str(error))
    except (ScheduleError, ValueError) as error:  # of its own lines, written for other blocks
        return Mismatch(recipe.name, f"its steps do not fit: {describe_error(error)}")
