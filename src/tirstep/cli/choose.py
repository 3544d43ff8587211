"""``tirstep choose``: the configs that a model of time expects to be fastest, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .formatting import format_shape, get_dtype, join_alternatives, spell_config
from .names import complete_either, explain_unknown
from .request import Json, Request, at_least, parse_shape, with_options
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.modules import Problem
    from tirstep.transforms.recipes import Recipe
    from tirstep.transforms.recipes.forecast import Chooser
    from tirstep.transforms.recipes.gpus import Gpu


@with_options("shape", "dtype", "option")
def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A kernel that has such a recipe, matmul, say, or the recipe, matmul_best.",
            autocompletion=complete_either,
        ),
    ],
    request: Request,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="GPU",
            help='A GPU by its name, or by its properties: "multiprocessors=84 megahertz=1695 '
            'shared_kib=99 gigabytes=936 sm=86".',
        ),
    ] = "NVIDIA H200",
    best: Annotated[
        int,
        typer.Option(
            "--best",
            metavar="N",
            parser=at_least("--best", 1, int),
            help="So many configs.",
            show_default=True,
        ),
    ] = 5,
    json: Json = False,
) -> int:
    """Say which configs should be fastest at a shape, and why.

    They are those among which the recipes that end in "best" choose, where no search was made at
    the shape. It takes milliseconds, and no GPU: a model of time counts waves of tiles, and what
    memory, the launch and the slices of a reduction take. What it is made of was measured on an
    H200; for another GPU it is a guess out of its properties. Of rows, long ones of one sum have
    times, by rounds of reading; others have a config by rules that were measured.
    """
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
    rows = _find_rows(name)
    found = _rank_rows(rows, request, gpu) if rows else _rank_products(name, request, gpu)
    problem, chosen = found.problem, found.choices[:best]
    if json:
        keys = {"searched": None, "few_rows": None, "odd_rows": None, **found.keys}
        told = [{"config": vars(config), "parts": parts or None} for config, parts in chosen]
        about = {**read_keys(problem, "shape options"), "device": vars(gpu)}
        print_document("choose", recipe=found.recipe.name, **about, **keys, choices=told)
        return 0
    screen = Screen()
    what = f"{found.recipe.name} at {format_shape(problem.shape)}, {get_dtype(problem)}"
    screen.line((what, "bold"), f" on {gpu.name}")
    for sentence, config in found.notes:
        screen.line(sentence)
        if config is not None:
            screen.line((f"         {spell_config(config)}", "dim"))
    for config, parts in chosen:
        if parts:
            screen.line((f"{parts['us']:9,.1f} us", "bold"), f"  {_spell_parts(parts)}")
        screen.line((f"              {spell_config(_get_knobs(config))}", "dim"))
    return 0


@dataclass(frozen=True)
class _Answer:
    """Configs, the fastest first, each with its time and the parts of that, where a model has them.

    `notes` come before them, each a sentence and the config that is taken, if one is; `keys` are of
    the document alone.
    """

    recipe: Recipe
    problem: Problem
    choices: Sequence[tuple[Any, Mapping[str, Any]]]
    notes: Sequence[tuple[str, Mapping[str, object] | None]] = ()
    keys: Mapping[str, object] = field(default_factory=dict)


def _rank_rows(recipe: Recipe, request: Request, gpu: Gpu) -> _Answer:
    from tvm.s_tir import Schedule

    from tirstep.transforms.recipes.rows import rank_rows

    problem = _make_problem(recipe, request)
    ranked = rank_rows(Schedule(problem.module), recipe.name, gpu)
    choices = [(it.config, it.cut._asdict() if it.cut else {}) for it in ranked]
    times = [it.cut.us for it in ranked if it.cut]
    note = ""
    if not times:
        note = "rules that were measured say, and no model of time:"
    elif times[0] > min(times):
        note = "a rule that was measured takes the first; by the model others are near:"
    return _Answer(recipe, problem, choices, [(note, None)] if note else [])


def _rank_products(name: str, request: Request, gpu: Gpu) -> _Answer:
    """With what is taken in place of the model's config: the one that a search found at the shape,
    for few rows one without tiles, or for odd ones another ladder's.
    """
    from tvm.s_tir import Schedule

    from tirstep.transforms.recipes.forecast import choose_instead, read_product
    from tirstep.transforms.recipes.mma import MmaConfig
    from tirstep.transforms.recipes.skinny import SkinnyConfig
    from tirstep.transforms.recipes.tuned import find_tuned

    chooser, recipe = _pick(name, request.options.get("dtype"), gpu)
    problem = _make_problem(recipe, request)
    first: dict[object, tuple[Any, Mapping[str, Any]]] = {}  # of a tile the next differ in slices
    for config, choice in chooser.rank(read_product(problem), gpu):
        tile = "x".join(map(str, choice.rate.tile))
        parts = {**choice.estimate._asdict(), "tile": tile, "slices": choice.parts}
        first.setdefault(choice.rate, (config, parts))
    notes: list[tuple[str, Mapping[str, object] | None]] = []
    keys: dict[str, object] = {}
    shape, dtype = tuple(problem.shape.values()), get_dtype(problem)
    tuned = find_tuned(chooser.table, device=gpu.name, dtype=dtype, shape=shape)
    if tuned is not None and (tuned.shape, tuned.dtype) == (shape, dtype):
        keys["searched"] = dict(tuned.config)
        notes.append(("a search found a config at this shape, which is taken: ", tuned.config))
    instead = choose_instead(recipe.name, Schedule(problem.module), gpu)
    if isinstance(instead, SkinnyConfig):
        told = "so few rows take no tiles, but this, of the ladder matmul_skinny; tiles follow: "
        notes.append((told, _get_knobs(instead)))
        keys["few_rows"] = vars(instead)
    elif instead is not None:
        ladder = "matmul_mma" if isinstance(instead, MmaConfig) else "matmul"
        told = "rows of no whole vectors are not copied for tiles, but take this, of the "
        notes.append((f"{told}ladder {ladder}; tiles follow: ", _get_knobs(instead)))
        keys["odd_rows"] = vars(instead)
    return _Answer(recipe, problem, [*first.values()], notes, keys)


def _find_rows(name: str) -> Recipe | None:
    """The recipe of a kernel over rows that chooses for any shape."""
    from tirstep.transforms.recipes import RECIPES
    from tirstep.transforms.recipes.rows import ROWS_BEST

    known = {recipe.kernel_name: recipe for ladder in ROWS_BEST for recipe in ladder.recipes}
    if name in RECIPES:
        best = known.get(RECIPES[name].kernel_name)
        return best if best is not None and best.name == name else None
    return known.get(name)


def _pick(name: str, dtype: object, gpu: Gpu) -> tuple[Chooser, Recipe]:
    """The chooser of a name that is for a type and runs on a GPU, and its recipe."""
    from tirstep.transforms.recipes import RECIPES
    from tirstep.transforms.recipes.forecast import list_choosers

    kernel = RECIPES[name].kernel_name if name in RECIPES else name
    known = list_choosers(kernel)
    if name in RECIPES:
        known = [chooser for chooser in known if chooser.recipe == name]
    if not known:
        listed = [
            it.recipe for every in ("matmul", "batched_matmul") for it in list_choosers(every)
        ]
        raise UseError(f"no model chooses for {name}; try {join_alternatives(listed)}")
    for chooser in known:
        recipe = RECIPES[chooser.recipe]
        needed, given = (it.removeprefix("sm_") for it in (recipe.arch, gpu.architecture))
        runs = not needed or int(given.rstrip("a")) >= int(needed.rstrip("a"))
        if recipe.arch.endswith("a"):
            runs = recipe.arch == gpu.architecture
        if runs and (not recipe.dtypes or (dtype or "float32") in recipe.dtypes):
            return chooser, recipe
    types = sorted({it for chooser in known for it in RECIPES[chooser.recipe].dtypes})
    raise UseError(
        f"no recipe of {name} that a model chooses for takes {dtype or 'float32'} on "
        f"{gpu.architecture}; they take {', '.join(types)}"
    )


def _make_problem(recipe: Recipe, request: Request) -> Problem:
    from tirstep.modules import get_kernel

    kernel = get_kernel(recipe.kernel)
    sizes = dict(recipe.default_example.shape)
    if request.shape is not None:
        sizes = parse_shape(request.shape, recipe.kernel_name, kernel.size_names)
    own: dict[str, Any] = {**recipe.default_example.options, **request.options}
    return kernel.problem(*sizes.values(), **own)


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
