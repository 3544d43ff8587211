"""``tirstep choose``: the configs that a model of time expects to be fastest, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .formatting import count, format_shape, get_dtype, join_alternatives, spell_config
from .names import complete_either, explain_unknown_name, name_recipes
from .request import Json, Request, asks, at_least, parse_shape
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.modules import Problem
    from tirstep.transforms.recipes import Recipe
    from tirstep.transforms.recipes.forecast import Chooser
    from tirstep.transforms.recipes.gpus import Gpu
    from tirstep.transforms.recipes.odd_rows import Config
    from tirstep.transforms.recipes.row_parts import Cut
    from tirstep.transforms.recipes.rows import RowChoice
    from tirstep.transforms.recipes.time_model import Ranked, TileChoice

    from .json_output import Document
    from .screen import Screen

GpuName = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="GPU",
        help='A GPU by its name, or by its properties: "multiprocessors=84 megahertz=1695 '
        'shared_kib=99 gigabytes=936 sm=86".',
    ),
]
Best = Annotated[
    int,
    typer.Option(
        "--best",
        metavar="N",
        parser=at_least("--best", 1, int),
        help="So many configs.",
        show_default=True,
    ),
]


@asks("shape", "dtype", "option")
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
    device: GpuName = "NVIDIA H200",
    best: Best = 5,
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

    if sentence := explain_unknown_name(name, name_recipes()):
        raise UseError(sentence)
    try:
        gpu = read_gpu(device)
    except TransformError as error:
        raise UseError(f"--device {device}: {error}") from error
    rows = _find_rows(name)
    answer = (
        _answer_of_rows(rows, request, gpu, best)
        if rows
        else _answer_of_products(
            *_pick(name, request.options.get("dtype"), gpu), request, gpu, best
        )
    )
    (answer.print_json if json else answer.print)()
    return 0


def _answer_of_rows(recipe: Recipe, request: Request, gpu: Gpu, best: int) -> _RowsAnswer:
    from tvm.s_tir import Schedule

    from tirstep.transforms.recipes.rows import rank_rows

    problem = _make_problem(recipe, request.shape, {**request.options})
    choices = rank_rows(Schedule(problem.module), recipe.name, gpu)
    return _RowsAnswer(recipe, problem, gpu, choices[:best])


def _answer_of_products(
    chooser: Chooser, recipe: Recipe, request: Request, gpu: Gpu, best: int
) -> _Answer:
    from tvm.s_tir import Schedule

    from tirstep.transforms.recipes.forecast import choose_instead, read_product

    problem = _make_problem(recipe, request.shape, {**request.options})
    ranked = _keep_best_of_tiles(chooser.rank(read_product(problem), gpu))
    searched = _find_searched(chooser, problem, gpu)
    instead = choose_instead(recipe.name, Schedule(problem.module), gpu)
    return _Answer(recipe, problem, gpu, ranked[:best], searched, instead)


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
        if (not recipe.dtypes or (dtype or "float32") in recipe.dtypes) and _runs(recipe, gpu):
            return chooser, recipe
    types = sorted({it for chooser in known for it in RECIPES[chooser.recipe].dtypes})
    raise UseError(
        f"no recipe of {name} that a model chooses for takes {dtype or 'float32'} on "
        f"{gpu.architecture}; they take {', '.join(types)}"
    )


def _runs(recipe: Recipe, gpu: Gpu) -> bool:
    needed, given = (
        arch.removeprefix("sm_").rstrip("a") for arch in (recipe.arch, gpu.architecture)
    )
    if recipe.arch.endswith("a"):
        return recipe.arch == gpu.architecture
    return not needed or int(given) >= int(needed)


def _make_problem(recipe: Recipe, shape: str | None, options: dict[str, object]) -> Problem:
    from tirstep.modules import get_kernel

    kernel = get_kernel(recipe.kernel)
    sizes = dict(recipe.default_example.shape)
    if shape is not None:
        sizes = parse_shape(shape, recipe.kernel_name, kernel.size_names)
    own: dict[str, Any] = {**recipe.default_example.options, **options}
    return kernel.problem(*sizes.values(), **own)


def _find_searched(chooser: Chooser, problem: Problem, gpu: Gpu) -> dict[str, object] | None:
    """The config that a search found at this very shape."""
    from tirstep.transforms.recipes.tuned import find_tuned

    shape = tuple(problem.shape.values())
    tuned = find_tuned(chooser.table, device=gpu.name, dtype=get_dtype(problem), shape=shape)
    if tuned is None or (tuned.shape, tuned.dtype) != (shape, get_dtype(problem)):
        return None
    return dict(tuned.config)


def _keep_best_of_tiles(ranked: list[Ranked]) -> list[Ranked]:
    """Of each tile the fastest alone: it differs in the slices from the next ones."""
    first: dict[object, Ranked] = {}
    for it in ranked:
        first.setdefault(it.choice.rate, it)
    return list(first.values())


def _get_knobs(config: Any) -> dict[str, object]:
    """The knobs of a config that are not those of its family's plain schedule."""
    return {
        name: value
        for name, value in vars(config).items()
        if value != type(config).__dataclass_fields__[name].default
    }


def _explain_cut(cut: Cut) -> str:
    """What a time of rows is made of, in words."""
    cells = f"{cut.length:,} elements in {count(cut.rounds, 'round')} of reading"
    what = "whole rows" if cut.parts == 1 else f"{cut.parts} parts of each row"
    pieces = [
        f"{count(cut.blocks, 'block')} for {what}, {cells}",
        f"rounds {cut.reading:.1f} us",
        f"memory {cut.memory:.1f} us",
        f"launch {cut.launch:.1f} us",
    ]
    if cut.parts > 1:
        pieces.append(f"adding up {cut.sums:.1f} us")
    longest = "rounds take" if cut.reading >= cut.memory else "memory takes"
    return f"{', '.join(pieces)}; {longest} longest"


def _explain(choice: TileChoice) -> str:
    """What a time is made of, in words."""
    found, parts = choice.estimate, choice.parts
    kinds = "workers on all tiles" if choice.workers else "tiles"
    tiles = f"{found.tiles} {kinds} of {choice.rate.tile[0]}x{choice.rate.tile[1]}"
    slices = f" in {parts} {'parts' if choice.workers else 'slices of k'}" if parts > 1 else ""
    bound = "computing" if found.compute >= found.memory else "memory"
    rate = choice.rate
    waves = f"{count(found.waves, 'wave')}, up to {found.together} tiles on each multiprocessor"
    if rate.stays:
        blocks = count(rate.stays, "block")
        waves = (
            f"{blocks} of each multiprocessor for {count(found.waves, 'tile')} one after another"
        )
    if rate.copies == "tma":
        waves += ", copied by the TMA for warps with roles" if rate.roles else ", copied by the TMA"
    pieces = [
        f"{tiles}{slices}: {waves}",
        f"computing {found.compute:.1f} us",
        f"memory {found.memory:.1f} us",
        f"launch {found.launch:.1f} us",
    ]
    if parts > 1:
        pieces.append(f"adding up {found.sums:.1f} us")
    return f"{', '.join(pieces)}; {bound} takes longest"


@dataclass(frozen=True)
class _Answer:
    """What is said: the configs, fastest first, and what is taken in their place: the one that a
    search found at the shape, for few rows one without tiles, or for odd ones another ladder's.
    """

    recipe: Recipe
    problem: Problem
    gpu: Gpu
    shown: list[Ranked]
    searched: dict[str, object] | None
    instead: Config | None

    @property
    def has_few_rows(self) -> bool:
        """Whether what is taken instead is of the ladder of few rows."""
        from tirstep.transforms.recipes.skinny import SkinnyConfig

        return isinstance(self.instead, SkinnyConfig)

    @property
    def ladder(self) -> str:
        """Of what is taken instead where there are more rows."""
        from tirstep.transforms.recipes.mma import MmaConfig

        return "matmul_mma" if isinstance(self.instead, MmaConfig) else "matmul"

    def print(self) -> None:
        screen = _begin_screen(self)
        if self.searched is not None:
            screen.line("a search found a config at this shape, which is taken: ")
            screen.line((f"         {spell_config(self.searched)}", "dim"))
        if self.instead is not None:
            screen.line(
                "so few rows take no tiles, but this, of the ladder matmul_skinny; tiles follow: "
                if self.has_few_rows
                else "rows of no whole vectors are not copied for tiles, but take this, of the "
                f"ladder {self.ladder}; tiles follow: "
            )
            screen.line((f"         {spell_config(_get_knobs(self.instead))}", "dim"))
        for it in self.shown:
            screen.line((f"{it.choice.estimate.us:9,.1f} us", "bold"), f"  {_explain(it.choice)}")
            screen.line((f"              {spell_config(_get_knobs(it.config))}", "dim"))

    def print_json(self) -> None:
        choices: list[Document] = [
            {"config": vars(it.config), "parts": it.choice.estimate._asdict()} for it in self.shown
        ]
        knobs = None if self.instead is None else vars(self.instead)
        few, odd = (knobs, None) if self.has_few_rows else (None, knobs)
        _print_keys(self, choices, searched=self.searched, few_rows=few, odd_rows=odd)


@dataclass(frozen=True)
class _RowsAnswer:
    """What is said of rows: the config, and of long rows of one sum the next ones, with times."""

    recipe: Recipe
    problem: Problem
    gpu: Gpu
    shown: list[RowChoice]

    def print(self) -> None:
        screen = _begin_screen(self)
        times = [it.cut.us for it in self.shown if it.cut]
        if not times:
            screen.line("rules that were measured say, and no model of time:")
        elif times[0] > min(times):
            screen.line("a rule that was measured takes the first; by the model others are near:")
        for it in self.shown:
            if it.cut:
                screen.line((f"{it.cut.us:9,.1f} us", "bold"), f"  {_explain_cut(it.cut)}")
            screen.line((f"              {spell_config(_get_knobs(it.config))}", "dim"))

    def print_json(self) -> None:
        choices: list[Document] = [
            {"config": vars(it.config), "parts": it.cut and it.cut._asdict()} for it in self.shown
        ]
        _print_keys(self, choices)


def _begin_screen(answer: _Answer | _RowsAnswer) -> Screen:
    """A screen that says what is answered, and for which GPU."""
    from .screen import Screen

    screen, problem = Screen(), answer.problem
    what = f"{answer.recipe.name} at {format_shape(problem.shape)}, {get_dtype(problem)}"
    screen.line((what, "bold"), f" on {answer.gpu.name}")
    return screen


def _print_keys(
    answer: _Answer | _RowsAnswer,
    choices: list[Document],
    *,
    searched: object = None,
    few_rows: object = None,
    odd_rows: object = None,
) -> None:
    from .json_output import print_document

    print_document(
        "choose",
        recipe=answer.recipe.name,
        shape=dict(answer.problem.shape),
        options=dict(answer.problem.options),
        device=vars(answer.gpu),
        searched=searched,
        few_rows=few_rows,
        odd_rows=odd_rows,
        choices=choices,
    )
