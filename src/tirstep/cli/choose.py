"""``tirstep choose``: the knobs that the time model predicts to be fastest, and why."""

from __future__ import annotations

import re
from typing import Any

from .formatting import complete, explain_unknown, get_dtype, join_alternatives, spell_config
from .request import Request, argument, option, parse_shape, with_options
from .wrong_use import UseError

OTHERS = ("row_sum", "softmax", "rms_norm", "layer_norm", "matvec", "attention", "decode_attention")
"""Kernels other than matmuls: over rows, and attention."""


@with_options("shape", "dtype", "option")
def command(
    *,
    name: str = argument(
        "NAME",
        "A kernel, such as matmul, or its recipe that chooses, matmul_best.",
        autocompletion=complete("ladder", "recipe"),
    ),
    request: Request,
    device: str = option(
        "--gpu",
        "NAME",
        'A GPU by its name, or by its properties: "multiprocessors=84 megahertz=1695 '
        'shared_kib=99 gigabytes=936 sm=86".',
        default="NVIDIA H200",
    ),
    best: int = option("--best", "N", "How many to show.", default=5, least=1, show_default=True),
    json: bool,
) -> int:
    """Predict the fastest knobs for a shape, and say why.

    Recipes whose names end in "best" choose this way. It takes milliseconds and no GPU: a time
    model adds up waves of tiles (together: tiles on one SM), memory traffic, the launch and the
    sums of split-K slices. Its constants were measured on an H200; for another GPU they are
    estimated from its properties. Row kernels follow measured rules; only single reductions over
    long rows have a model.
    """
    from tvm.s_tir import Schedule

    from tirstep.modules import get_kernel
    from tirstep.transforms import TransformError
    from tirstep.transforms.recipes import RECIPES, matmul_best
    from tirstep.transforms.recipes.attention_wgmma import choose_for
    from tirstep.transforms.recipes.decoding import rank_ranges
    from tirstep.transforms.recipes.matmul_best import keep_tiles, read_product
    from tirstep.transforms.recipes.row_ladders import rank_rows
    from tirstep.transforms.recipes.time_model import read_gpu

    from .formats import print_document, read_keys
    from .screen import Screen

    if sentence := explain_unknown(name, "name"):
        raise UseError(sentence)
    try:
        gpu = read_gpu(device)
    except TransformError as error:
        raise UseError(f"--gpu {device}: {error}") from error
    family = RECIPES[name].kernel_name if name in RECIPES else name
    kinds: tuple[str, ...] = ("", "_wgmma") if family in OTHERS else ()
    if "matmul" in family:
        kinds = ("_wgmma", "_mma", "")
    known = [RECIPES[it] for kind in kinds if (it := f"{family}{kind}_best") in RECIPES]
    if name in RECIPES:
        known = [recipe for recipe in known if recipe.name == name]
    if not known:
        raise UseError(
            f"there is no time model for {name}; "
            f"try {join_alternatives(['matmul', 'batched_matmul', *OTHERS])}"
        )
    dtype = request.options.get("dtype") or "float32"

    def runs(arch: str) -> bool:  # one that ends in a has instructions that newer ones have not
        needed, given = (int(re.sub(r"\D", "", it) or 0) for it in (arch, gpu.architecture))
        return arch == gpu.architecture if arch.endswith("a") else given >= needed

    fitting = [it for it in known if runs(it.arch) and (not it.dtypes or dtype in it.dtypes)]
    if not fitting:
        types = sorted({it for recipe in known for it in recipe.dtypes})
        raise UseError(
            f"no recipe of {name} with a time model takes {dtype} on "
            f"{gpu.architecture}; they take {', '.join(types)}"
        )
    recipe = fitting[0]
    kernel, sizes = get_kernel(recipe.kernel), dict(recipe.default_example.shape)
    if request.shape is not None:
        sizes = parse_shape(request.shape, recipe.kernel_name, kernel.size_names)
    own: dict[str, Any] = {**recipe.default_example.options, **request.options}
    problem = kernel.problem(*sizes.values(), **own)
    sch, why, taken = Schedule(problem.module), "", None
    # Configs, the fastest first, each with its time and the parts of that, where a model has them.
    choices: list[tuple[Any, dict[str, Any]]] = []
    if family == "decode_attention":
        choices = [(config, parts._asdict()) for config, parts in rank_ranges(sch, gpu)]
    elif family == "attention":
        why = "measured rules, without a time model:"
        choices = [(choose_for(sch), {})]
    elif "k" not in problem.shape:
        ranked = rank_rows(sch, recipe.name, gpu)
        times = [cut.us for _, cut in ranked if cut]
        if not times:
            why = "measured rules, without a time model:"
        elif times[0] > min(times):
            why = "a measured rule chooses the first; by the time model these are close:"
        choices = [(config, cut._asdict() if cut else {}) for config, cut in ranked]
    else:
        # For few rows one without tiles is taken, or for odd ones another ladder's; then the
        # fastest of each tile.
        choice = matmul_best.choose(sch, recipe.name, gpu.name)
        if choice.why:
            why, taken = f"{choice.why}; tiles by the time model follow:", choice.config
        products = matmul_best.rank_configs(recipe.name, read_product(problem), gpu)
        for config, estimate in keep_tiles(products):
            parts = estimate._asdict()
            tile, slices = "x".join(map(str, parts.pop("rate").tile)), parts.pop("parts")
            choices.append((config, {**parts, "tile": tile, "slices": slices}))
    choices = choices[:best]
    if json:
        told = [{"config": vars(config), "parts": parts or None} for config, parts in choices]
        about = {**read_keys(problem, "shape options"), "device": vars(gpu)}
        instead = None if taken is None else vars(taken)
        print_document(
            "choose", recipe=recipe.name, **about, why=why, instead=instead, choices=told
        )
        return 0
    screen = Screen()
    what = f"{recipe.name} at {problem.shape_text}, {get_dtype(problem)}"
    screen.line((what, "bold"), f" on {gpu.name}")
    if why:
        screen.line(why)

    def show_knobs(config: Any, room: int) -> None:
        """The knobs that differ from the family's plain schedule."""
        usual = type(config).__dataclass_fields__
        knobs = {it: value for it, value in vars(config).items() if value != usual[it].default}
        screen.line((f"{'':{room}}{spell_config(knobs)}", "dim"))

    if taken is not None:
        show_knobs(taken, 9)
    for config, parts in choices:
        if parts:  # those that are times in microseconds have a decimal
            spelt = [
                f"{part} {value:,.1f}" if isinstance(value, float) else f"{part} {value}"
                for part, value in parts.items()
                if part != "us"
            ]
            screen.line((f"{parts['us']:9,.1f} us", "bold"), f"  {', '.join(spelt)}")
        show_knobs(config, 14)
    return 0
