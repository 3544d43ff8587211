"""A plan as a whole: how it finds its roles, chooses its config, and schedules a function.

Plans and recipes are rules of dlight, too, for ``tvm.s_tir.dlight.ApplyDefaultSchedule``. A recipe
schedules anybody's functions by the plan of its family, or on blocks under other names. A target
wants of functions indices of 32 bits (`narrow_indices`), and nothing that a GPU has not
(`find_unsupported`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tvm
from tvm.ir import Call, IRModule
from tvm.s_tir import SBlock, Schedule, ScheduleError
from tvm.s_tir.dlight import ScheduleRule
from tvm.s_tir.schedule import SBlockRV
from tvm.target import Target
from tvm.tirx import (
    Add,
    Cast,
    FloorDiv,
    FloorMod,
    For,
    IntImm,
    Max,
    Min,
    Mul,
    PrimFunc,
    Select,
    Sub,
    Var,
)
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from ..hopper.cluster_launch import MARK, has_clusters
from ..hopper.wgmma_intrinsics import ARCHITECTURE
from ..queries import get_sblock_name, is_reduction
from ..recipes.recipe import Recipe
from ..recipes.rungs import Rung, read_pairs
from ..schedule import TransformError, describe_error, inlines, transform
from ..tir import (
    bind_ranges,
    constant,
    find_all,
    get_elements,
    get_places,
    list_threads,
    replace_fields,
)
from .attention_plan import ATTENTION_PLAN
from .flat import FLAT_PLAN, LEFT_OVER, find_gather, schedule_flat
from .product_plan import CONVOLUTION, CONVOLUTION_PLAN, MATMUL_PLAN, match_matmul
from .roles import DEVICE, Mismatch, Plan, Roles, is_bound, list_sblocks, make_roles
from .row_plan import ROWS_PLAN, match_rows


def _try_configs(
    plan: Plan, sch: Schedule, roles: Roles, configs: Sequence[Any], target: Target | None = None
) -> Any:
    """Schedule a function by the first config of a plan that works, on a target too; returns it.

    Raises the `TransformError` of the last one where none does; nothing has changed then.
    """
    refusal = TransformError(plan.name, "there is no config to try", "give one")
    for config in configs:
        try:
            run = functools.partial(plan.run, roles=roles, config=config)
            schedule_by_plan(sch, list(roles.blocks), run=run, target=target)
        except TransformError as error:
            refusal = error
        else:
            return config
    raise refusal


def schedule_function(
    sch: Schedule, *, device: str = DEVICE, tensor_cores: bool = False
) -> tuple[str, Any]:
    """Schedule the function that a schedule works on by the first plan that takes it.

    Returns the plan's name and the config. Raises a `TransformError` with the reasons of all where
    none takes it; the module is as it was then.
    """
    reasons = []
    for plan in PLANS:
        roles = plan.match(sch)
        if isinstance(roles, Mismatch):
            reasons.append(str(roles))
            continue
        try:
            configs = plan.choose(sch, roles, device, tensor_cores)
            return plan.name, _try_configs(plan, sch, roles, configs)
        except TransformError as error:
            reasons.append(str(error))
    raise TransformError(
        "schedule_function", "; ".join(reasons), "schedule it by hand, or by a rule of dlight's own"
    )


@transform
@inlines
def schedule_by_plan(
    sch: Schedule, blocks: list[SBlockRV], *, run: Callable[..., Any], target: Target | None = None
) -> None:
    """Run a plan on some blocks, and make flat kernels of what it has left alone.

    With a target, what it is known not to have is refused.
    """
    run(sch)
    for block in list_sblocks(sch):
        if is_bound(sch, block):
            continue
        if is_reduction(sch, block):
            raise TransformError(
                f"block '{get_sblock_name(sch, block)}' reduces and is not part of the plan",
                "give it a function of its own, or schedule it by hand",
            )
        schedule_flat(sch, block, config=LEFT_OVER)
    if reason := find_gather(sch.get(sch.get_sblock("root")).body):
        raise TransformError(reason, "take shorter vectors")
    if target is not None and (reason := find_unsupported(sch.mod, target)):
        raise TransformError(reason, f"choose a config that {target.kind.name} takes")


def _match_several_rows(sch: Schedule) -> Roles | Mismatch:
    """The roles of a product, unless threads do better to share its sums, as those of rows."""
    roles = match_matmul(sch)
    if isinstance(roles, Mismatch):
        return roles
    # Of one row, with a sum's elements side by side in the other operand.
    node = sch.get(roles.blocks[0])
    *_, row, _, depth = node.iter_vars
    lies_along = node.reads[-1].region[-1].min.same_as(depth.var)
    if constant(row.dom.extent) == 1 and lies_along and match_rows(sch):
        reason = (
            f"block '{roles.names[0]}' has one row, and reads each other element once, in order"
        )
        return Mismatch(MATMUL_PLAN.name, reason)
    return roles


PLANS = (
    replace(MATMUL_PLAN, match=_match_several_rows),
    CONVOLUTION_PLAN,
    ATTENTION_PLAN,
    ROWS_PLAN,
    FLAT_PLAN,
)
"""In the order in which a function is held against them."""


class TirstepRule(ScheduleRule):
    """A rule that records why it leaves a function to the next rule.

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
        if not isinstance(func, PrimFunc) or target.kind.name != "cuda":
            return None
        made = self._make(func, target)
        if isinstance(made, Schedule) and (reason := find_unsupported(made.mod, target)):
            made = Mismatch(self.name, reason)
        if not isinstance(made, Mismatch):
            return made
        symbol: Any = None if func.attrs is None else func.attrs.get("global_symbol")
        blocks = [str(node.name_hint) for node in find_all(func.body, SBlock)]
        name = " ".join(it for it in blocks if it != "root") if symbol is None else str(symbol)
        self.reasons[name] = str(made)
        return None


def make_plan_rule(plan: Plan, *, device: str = DEVICE, tensor_cores: bool = False) -> TirstepRule:
    """The rule that schedules by a plan, with the best config that works."""

    def make(function: PrimFunc, target: Target) -> Schedule | Mismatch:
        narrows = tensor_cores or plan.name == CONVOLUTION
        sch = Schedule(narrow_indices(function) if narrows else function)
        roles = plan.match(sch)
        if isinstance(roles, Mismatch):
            return roles
        try:
            configs = plan.choose(sch, roles, device, tensor_cores)
            _try_configs(plan, sch, roles, configs, target)
        except TransformError as error:
            return Mismatch(plan.name, str(error))
        return sch

    return TirstepRule(plan.name, make)


Filter = Callable[[PrimFunc], object]
Choose = Callable[[PrimFunc], Mapping[str, object] | None]
_TAILS = ("pad", "guard")
"""A rule's default tail: a model may have any sizes."""


def match_recipe(recipe: Recipe, function: PrimFunc | tvm.IRModule | Schedule) -> Roles | Mismatch:
    """The blocks of a function that a recipe would schedule by its rule, or why it would not.

    Nothing changes. ``if (roles := match_recipe(recipe, function)): print(roles.names)``; what
    comes instead is false, and says its `reason`. A rung of a family with a plan takes what the
    plan takes. Any other recipe takes a function with as many blocks as its kernel has, in whose
    places they are tried.
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
    """A rule for ``dlight.ApplyDefaultSchedule`` that schedules functions as a recipe does.

    Their blocks may have any names, and, for recipes of the families of matmul, rows and
    elementwise functions, others around them. `match` keeps functions out where it is false;
    `choose` gives the config for a function, or None to leave it to the next rule. Sizes that
    tiles do not divide are padded or guarded, unless it says otherwise.
    """

    def make(function: PrimFunc, _: Target) -> Schedule | Mismatch:
        if match is not None and not (answer := match(function)):
            told = isinstance(answer, Mismatch)
            return Mismatch(recipe.name, str(answer) if told else "its match rejects it")
        config = {} if choose is None else choose(function)
        if config is None:
            return Mismatch(recipe.name, "no config is chosen")
        recipe.require_config(config)
        plan = _get_plan(recipe)
        if plan is None or not isinstance(recipe, Rung):
            return _run_renamed(recipe, function, config)
        sch = Schedule(function)
        roles = plan.match(sch)
        if isinstance(roles, Mismatch):
            return roles
        try:
            knobs = {**recipe.config, **_get_tail(recipe), **read_pairs(config)}
            _try_configs(plan, sch, roles, [recipe.family.config(**knobs)])
        except TransformError as error:
            return Mismatch(recipe.name, str(error))
        return sch

    return TirstepRule(recipe.name, make)


def _get_plan(recipe: Recipe) -> Plan | None:
    config = recipe.family.config if isinstance(recipe, Rung) else None
    plans = (MATMUL_PLAN, ROWS_PLAN, FLAT_PLAN)
    return next((plan for plan in plans if config in plan.configs), None)


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


_LIMIT = 2**31
"""Elements of a tensor whose places 32 bits number, whatever a schedule pads them by."""
_ROOM = 4
_WIDE = ("int64", "uint64")
_GROWING = (Add, Sub, Mul, Var)
"""Expressions whose values grow where a schedule pads loops."""
_OTHERS = (Cast, FloorDiv, FloorMod, IntImm, Max, Min, Select, Call)


def narrow_indices(function: PrimFunc) -> PrimFunc:
    """The function with loops and indices of 32 bits; as it is where these may not be enough.

    Relax makes functions whose indices have 64 bits, and the intrinsics of tensor cores have 32.
    Left alone are functions of open sizes, with tensors of a quarter of 2^31 elements or more, of
    integers of 64 bits, also as a parameter, or that compute with such beyond 32 bits.
    """
    if any(map(_is_wide, function.params)):
        return function
    for buffer, _ in get_elements(function.body):
        sizes = [constant(extent) for extent in buffer.shape]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes) or math.prod(known) * _ROOM >= _LIMIT:
            return function
        if str(buffer.dtype) in _WIDE:
            return function
    # All integers of 64 bits that it computes must be known to have 32.
    analyzer = bind_ranges(find_all(function.body, For))
    for block in find_all(function.body, SBlock):
        for iterator in block.iter_vars:
            analyzer.bind(iterator.var, iterator.dom)
    for kinds, most in ((_GROWING, _LIMIT // _ROOM), (_OTHERS, _LIMIT)):
        values = [it for kind in kinds for it in find_all(function.body, kind) if _is_wide(it)]
        for bound in map(analyzer.const_int_bound, values):
            if bound.min_value < -most or bound.max_value >= most:
                return function
    narrowed = tvm.tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": function}))
    return narrowed["main"]


def _is_wide(value: Any) -> bool:
    """Whether a value, and no tensor, is an integer of 64 bits."""
    return not hasattr(value, "shape") and str(getattr(value.ty, "dtype", "")) in _WIDE


def find_unsupported(module: IRModule, target: Target) -> str:
    """Why a GPU does not run a scheduled module, as far as its target says; or "".

    Known are the threads of a block, clusters, and wgmma, which sm_90a alone has.
    """
    body = tuple(it.body for it in module.functions.values() if isinstance(it, PrimFunc))
    # The most threads of a block; the larger of both names that TVM has for it.
    given = [target.attrs.get(name, None) for name in ("max_num_threads", "max_threads_per_block")]
    most = max((int(number) for number in given if number is not None), default=None)
    # The threads of a thread block, over all axes: the most of any kernel; 1 of a loop on none.
    kernels = {place.kernel for each in body for place in get_places(each)} - {None}
    axes = [list_threads(find_all(kernel, For)) for kernel in kernels]
    threads = max((math.prod(constant(it.extent) or 1 for it in own) for own in axes), default=1)
    if most is not None and threads > most:
        kind = target.kind.name
        return f"it runs {threads} threads in a block, and the target '{kind}' takes {most}"
    arch = str(target.attrs.get("arch", ""))
    calls = (get_op_name(call) for each in body for call in find_all(each, Call))
    if arch and arch != ARCHITECTURE and any("wgmma" in name for name in calls):
        return f"it uses wgmma, which {arch} has not"
    loops = itertools.chain.from_iterable(find_all(each, For) for each in body)
    is_old = target.kind.name == "cuda" and bool(arch) and not has_clusters(arch)
    if is_old and any(MARK in loop.annotations for loop in loops):
        return f"it launches clusters, which {arch} has not"
    return ""
