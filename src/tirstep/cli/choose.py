"""``tirstep choose``: the configs that a model of time expects to be fastest, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .formatting import format_shape, get_dtype, join_alternatives, spell_config
from .names import complete_either, explain_unknown
from .request import JSON, Request, argument, option, parse_shape, with_options
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.modules import Problem
    from tirstep.transforms.recipes import Recipe
    from tirstep.transforms.recipes.gpus import Gpu

ROWS = ("row_sum", "softmax", "rms_norm", "layer_norm", "matvec")
"""Kernels over rows."""


@with_options("shape", "dtype", "option")
def command(
    *,
    name: str = argument(
        "NAME",
        "A kernel that has such a recipe, matmul, say, or the recipe, matmul_best.",
        autocompletion=complete_either,
    ),
    request: Request,
    device: str = option(
        "--device",
        "GPU",
        'A GPU by its name, or by its properties: "multiprocessors=84 megahertz=1695 '
        'shared_kib=99 gigabytes=936 sm=86".',
        default="NVIDIA H200",
    ),
    best: int = option("--best", "N", "So many configs.", default=5, least=1, show_default=True),
    json: bool = JSON,
) -> int:
    """Say which configs should be fastest at a shape, and why.

    They are those among which the recipes that end in "best" choose, where no search was made at
    the shape. It takes milliseconds, and no GPU: a model of time counts waves of tiles, and what
    memory, the launch and the slices of a reduction take. What it is made of was measured on an
    H200; for another GPU it is a guess out of its properties. Of rows, long ones of one sum have
    times, by rounds of reading; others have a config by rules that were measured.
    """
    from tirstep.modules import get_kernel
    from tirstep.transforms import TransformError
    from tirstep.transforms.recipes.gpus import read_gpu

    from .json_output import print_document, read_keys
    from .screen import Screen

    if sentence := explain_unknown(name, "name"):
        raise UseError(sentence)
    try:
        gpu = read_gpu(device)
    except TransformError as error:
        raise UseError(f"--device {device}: {error}") from error
    recipe = _pick(name, request.options.get("dtype"), gpu)
    kernel, sizes = get_kernel(recipe.kernel), dict(recipe.default_example.shape)
    if request.shape is not None:
        sizes = parse_shape(request.shape, recipe.kernel_name, kernel.size_names)
    own: dict[str, Any] = {**recipe.default_example.options, **request.options}
    problem = kernel.problem(*sizes.values(), **own)
    is_product = "k" in problem.shape
    choices, why, taken = (_rank_products if is_product else _rank_rows)(recipe, problem, gpu)
    choices = choices[:best]
    if json:
        told = [{"config": vars(config), "parts": parts or None} for config, parts in choices]
        about = {**read_keys(problem, "shape options"), "device": vars(gpu)}
        taken = taken if taken is None else vars(taken)
        print_document("choose", recipe=recipe.name, **about, why=why, instead=taken, choices=told)
        return 0
    screen = Screen()
    what = f"{recipe.name} at {format_shape(problem.shape)}, {get_dtype(problem)}"
    screen.line((what, "bold"), f" on {gpu.name}")
    if why:
        screen.line(why)
    if taken is not None:
        screen.line((f"         {spell_config(_get_knobs(taken))}", "dim"))
    for config, parts in choices:
        if parts:
            screen.line((f"{parts['us']:9,.1f} us", "bold"), f"  {_spell_parts(parts)}")
        screen.line((f"              {spell_config(_get_knobs(config))}", "dim"))
    return 0


Choices = list[tuple[Any, Mapping[str, Any]]]
"""Configs, the fastest first, each with its time and the parts of that, where a model has them."""


def _rank_rows(recipe: Recipe, problem: Problem, gpu: Gpu) -> tuple[Choices, str, None]:
    """The configs of a kernel over rows, and why the first is first where no model says so."""
    from tvm.s_tir import Schedule

    from tirstep.transforms.recipes.row_ladders import rank_rows

    ranked = rank_rows(Schedule(problem.module), recipe.name, gpu)
    times = [it.cut.us for it in ranked if it.cut]
    why = ""
    if not times:
        why = "rules that were measured say, and no model of time:"
    elif times[0] > min(times):
        why = "a rule that was measured takes the first; by the model others are near:"
    return [(it.config, it.cut._asdict() if it.cut else {}) for it in ranked], why, None


def _rank_products(recipe: Recipe, problem: Problem, gpu: Gpu) -> tuple[Choices, str, Any]:
    """The configs of a product, the fastest of each tile; why another one is taken, and that one:
    what a search found at the shape, for few rows one without tiles, or for odd ones another
    ladder's.
    """
    from tvm.s_tir import Schedule

    from tirstep.transforms.recipes import matmul_best
    from tirstep.transforms.recipes.matmul_best import keep_tiles, read_product

    sch = Schedule(problem.module)
    choice = matmul_best.choose(sch, recipe.name, gpu.name)
    ranked = matmul_best.rank_configs(recipe.name, read_product(problem), gpu)
    told: Choices = []
    for config, estimate in keep_tiles(ranked):
        parts = estimate._asdict()
        tile, slices = "x".join(map(str, parts.pop("rate").tile)), parts.pop("parts")
        told.append((config, {**parts, "tile": tile, "slices": slices}))
    why = f"{choice.why}; tiles by the model follow:" if choice.why else ""
    return told, why, choice.config if choice.why else None


def _pick(name: str, dtype: object, gpu: Gpu) -> Recipe:
    """The recipe of a name that chooses by a model, is for a type and runs on a GPU."""
    from tirstep.transforms.recipes import RECIPES

    kernel = RECIPES[name].kernel_name if name in RECIPES else name
    kinds = ("_wgmma", "_mma", "") if "matmul" in kernel else ("",) if kernel in ROWS else ()
    known = [RECIPES[it] for kind in kinds if (it := f"{kernel}{kind}_best") in RECIPES]
    if name in RECIPES:
        known = [recipe for recipe in known if recipe.name == name]
    if not known:
        raise UseError(
            f"no model chooses for {name}; "
            f"try {join_alternatives(['matmul', 'batched_matmul', *ROWS])}"
        )
    for recipe in known:
        needed, given = (int(re.sub(r"\D", "", it) or 0) for it in (recipe.arch, gpu.architecture))
        is_own = recipe.arch.endswith("a")  # whose instructions newer ones have not
        runs = recipe.arch == gpu.architecture if is_own else given >= needed
        if runs and (not recipe.dtypes or (dtype or "float32") in recipe.dtypes):
            return recipe
    types = sorted({it for recipe in known for it in recipe.dtypes})
    raise UseError(
        f"no recipe of {name} that a model chooses for takes {dtype or 'float32'} on "
        f"{gpu.architecture}; they take {', '.join(types)}"
    )


def _get_knobs(config: Any) -> dict[str, object]:
    """The knobs of a config that are not those of its family's plain schedule."""
    return {
        name: value
        for name, value in vars(config).items()
        if value != type(config).__dataclass_fields__[name].default
    }


def _spell_parts(parts: Mapping[str, Any]) -> str:
    """What a time is made of; the parts that are times in microseconds have a decimal."""
    return ", ".join(
        f"{name} {value:,.1f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in parts.items()
        if name != "us"
    )
