"""``tirstep search``: a recipe's fastest config, shape by shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .bench import make_machine
from .catalogue import require_recipe
from .formatting import count, format_shape, get_dtype, join_alternatives, spell
from .request import (
    Config,
    Dtype,
    FunctionName,
    KernelOptions,
    RecipeName,
    Request,
    Seed,
    at_least,
    choose_config,
    make_request,
    parse_shape,
    pick_recipe,
    separate_lists,
)

if TYPE_CHECKING:
    from tirstep.bench.machine import Machine
    from tirstep.bench.results import Time
    from tirstep.bench.search import SearchPlan, SearchResult
    from tirstep.transforms.recipes import Recipe

    from .screen import Screen

Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        parser=at_least("--limit", 1, int),
        help="So many candidates at random. [default: all of them]",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        parser=at_least("--timeout", 1, float),
        help="What one candidate may take to compile.",
    ),
]


def command(
    recipe: RecipeName,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="SIZES",
            help="The kernel's shape, 1024x512x2048; may be repeated. [default: those of the "
            "recipe's tutorial]",
        ),
    ] = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    function: FunctionName = None,
    limit: Limit = None,
    seed: Seed = 0,
    timeout: Timeout = 60,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", metavar="FILE", help="A table of the best configs to put the winners into."
        ),
    ] = None,
) -> int:
    """Find a recipe's fastest config on a GPU.

    The candidates are the values that the recipe declares as choices; one given with --set is the
    same in all of them, and --set tile_k=8,16 has these two in place of its choices. Every
    candidate is checked exactly before it may win. The best of them take turns with PyTorch at the
    end. A table keeps the faster one where it has an entry for the shape already.
    """
    single, among = separate_lists(config or [])
    request = make_request(None, dtype, option, single, function=function)
    require_recipe(recipe)
    plans = make_plans(recipe, shape or [], request, among, limit, timeout)
    if into is not None:
        from tirstep.bench.search import require_table

        require_table(into)
    return search_all(plans, seed, into)


def make_plans(
    name: str,
    texts: Sequence[str],
    request: Request,
    among: Mapping[str, tuple[object, ...]],
    limit: int | None,
    timeout: float,
) -> list[SearchPlan]:
    """What is to be searched, for each shape; all that is asked for must be possible."""
    from tirstep.bench.candidates import require_timeable
    from tirstep.bench.search import SearchPlan, get_choices
    from tirstep.modules import get_kernel

    picked = pick_recipe(name, request)
    kernel = get_kernel(picked.kernel)
    shapes = [parse_shape(text, picked.kernel_name, kernel.size_names) for text in texts]
    options: dict[str, Any] = {**picked.default_example.options, **request.options}
    problems = [
        kernel.problem(*sizes.values(), **options)
        for sizes in shapes or [dict(picked.default_example.shape)]
    ]
    for problem in problems:
        require_timeable(problem)
    request, among = _join_pairs(picked, request, among)
    fixed = choose_config(request, picked, picked.config)
    for name, values in among.items():
        for value in values:  # each must be one that the size can have
            choose_config(replace(request, config={name: value}), picked, picked.config)
    get_choices(picked, among)
    return [SearchPlan(picked, problem, fixed, among, limit, timeout) for problem in problems]


def search_all(plans: Sequence[SearchPlan], seed: int, into: Path | None) -> int:
    """Search at each shape; 1 where no candidate was right."""
    from tirstep.bench.compile_cache import get_cache_folder
    from tirstep.bench.run_case import Settings
    from tirstep.bench.search import search

    from .screen import Screen

    machine = make_machine("search")
    screen, code = Screen(), 0
    screen.line(("device  ", "dim"), str(machine.device["name"]))
    for plan in plans:
        with screen.working():
            found = search(
                plan,
                machine,
                Settings(seed=seed),
                cache=get_cache_folder(),
                tell=screen.doing,
            )
        _show(screen, plan, found)
        if found.best is None:
            code = 1
        elif into is not None:
            _keep(screen, into, plan, found, machine)
    return code


def _join_pairs(
    recipe: Recipe, request: Request, among: Mapping[str, tuple[object, ...]]
) -> tuple[Request, dict[str, tuple[object, ...]]]:
    """``threads=16,16`` is one value where a knob takes pairs; several are ``16x16,8x16``."""
    from tirstep.transforms.recipes import Rung

    pairs = {
        name: values
        for name, values in among.items()
        if isinstance(recipe, Rung) and name in recipe.config and recipe.has_pairs(name)
        if all(isinstance(value, int) for value in values)
    }
    several = {
        name: tuple(dict.fromkeys(values)) for name, values in among.items() if name not in pairs
    }
    return replace(request, config={**request.config, **pairs}), several


def _show(screen: Screen, plan: SearchPlan, found: SearchResult) -> None:
    from tirstep.bench.search import count_configs

    recipe, problem = plan.recipe, plan.problem
    screen.line()
    shape, dtype = format_shape(problem.shape), get_dtype(problem)
    screen.line((f"{recipe.name} at {shape}, {dtype}", "bold"))
    total = count_configs(recipe, plan.fixed, plan.among)
    tried = f"tried {count(found.tried, 'candidate')} of {total}"
    screen.line((tried, "dim"))
    for reason, number in found.skipped.most_common():
        screen.line((f"  {number:>5} {reason}", "dim"))
    if found.best is None or found.config is None:
        screen.line(("no candidate ran and was exact", "bold red"))
        if found.skipped:
            screen.line(_explain(plan, found), wrap=True)
        return
    _show_time(screen, "best", found.best)
    _show_time(screen, "as it is", found.default)
    _show_time(screen, plan.peer.name, found.peer)
    if found.ratio is not None:
        screen.line(
            (f"{'ratio':<9}", "dim"), f"{found.ratio:.3f} times as fast as {plan.peer.name}"
        )
    chosen = {name: value for name, value in found.config.items() if value is not None}
    words = " ".join(f"--set {name}={spell(value)}" for name, value in chosen.items())
    screen.line((f"{'config':<9}", "dim"), words)


def _explain(plan: SearchPlan, found: SearchResult) -> str:
    """Why there is no winner: the commonest reason, and the tail that would let sizes run."""
    ((kind, number),) = found.skipped.most_common(1)
    sentence = f"{number} of {found.tried}, the first of them: {found.samples.get(kind, kind)}"
    tails = [f"--set tail={tail}" for tail in plan.recipe.tails if tail != "refuse"]
    is_open = "tail" not in plan.fixed and "tail" not in plan.among
    if not (tails and is_open and any('tail="' in text for text in found.samples.values())):
        return sentence
    shape = format_shape(plan.problem.shape)
    return f"none of these sizes divides {shape}: pass {join_alternatives(tails)}; {sentence}"


def _show_time(screen: Screen, who: str, time: Time | None) -> None:
    if time is not None:
        spread = f"{time.lower_us:,.1f} to {time.upper_us:,.1f}"
        screen.line((f"{who:<9}", "dim"), f"{time.median_us:,.1f} us", (f"  {spread}", "dim"))


def _keep(
    screen: Screen, file: Path, plan: SearchPlan, found: SearchResult, machine: Machine
) -> None:
    from tirstep.bench.search import record_best

    if record_best(file, plan, found, machine.device, machine.versions):
        screen.line((f"wrote {file}", "green"))
    else:
        screen.line((f"{file} has a faster config for this, which stays", "yellow"))
