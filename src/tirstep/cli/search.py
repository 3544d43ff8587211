"""``tirstep search``: a recipe's fastest config, shape by shape."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bench import make_machine
from .formatting import count, format_shape, get_dtype, join_alternatives, spell
from .request import (
    CONFIG,
    DTYPE,
    FUNCTION_NAME,
    KERNEL_OPTIONS,
    RECIPE_NAME,
    SEED,
    Request,
    choose_config,
    make_request,
    option,
    parse_shape,
    pick_recipe,
    separate_lists,
)

if TYPE_CHECKING:
    from tirstep.bench.results import Time
    from tirstep.bench.search import SearchPlan, SearchResult
    from tirstep.transforms.recipes import Recipe

    from .screen import Screen

SHAPES = option(
    "--shape",
    "SIZES",
    "The kernel's shape, 1024x512x2048; may be repeated. [default: those of the recipe's tutorial]",
)
TIMEOUT = option(
    "--timeout",
    "SECONDS",
    "What one candidate may take to compile.",
    default=60,
    least=1,
    kind=float,
)
INTO = option("--into", "FILE", "A table of the best configs to put winners into.")


def command(
    recipe: str = RECIPE_NAME,
    shape: list[str] | None = SHAPES,
    dtype: str | None = DTYPE,
    option: list[str] | None = KERNEL_OPTIONS,
    config: list[str] | None = CONFIG,
    function: str | None = FUNCTION_NAME,
    limit: int | None = option(
        "--limit",
        "N",
        "So many candidates: the most promising by a model of time, where there is one, "
        "and some at random. [default: all of them]",
        least=1,
    ),
    seed: int = SEED,
    timeout: float = TIMEOUT,
    into: Path | None = INTO,
    cluster: str | None = option(
        "--cluster",
        "ADDRESS",
        "Over the GPUs of a cluster of Ray's: auto joins this machine's or starts one, "
        "local starts one, HOST:PORT joins that one. Who joins a cluster can run code on it.",
    ),
    trials: Path | None = option(
        "--trials",
        "DIR",
        "Keep every candidate in a folder as it comes; the same command goes on from there.",
    ),
) -> int:
    """Find a recipe's fastest config on a GPU.

    The candidates are the values that the recipe declares as choices; one given with --set is the
    same in all of them, and --set tile_k=8,16 has these two in place of its choices. Every
    candidate is checked exactly before it may win. Products of matrices have a model of time: the
    candidates of which it expects most come first. The best of them take turns with PyTorch at the
    end; those of a program of yours with the function in its file's TORCH, or with dlight. A table
    keeps the faster one where it has an entry for the shape already.
    """
    single, among = separate_lists(config or [])
    request = make_request(None, dtype, option, single, function=function)
    plans = make_plans(recipe, shape or [], request, among, limit, timeout)
    if into is not None:
        from tirstep.bench.best_table import require_table

        require_table(into)
    if cluster is None:
        return _search(plans, seed, into, trials)
    from tirstep.bench.cluster import connected

    with connected(cluster):
        return _search(plans, seed, into, trials, on_cluster=True)


def make_plans(
    name: str,
    texts: Sequence[str],
    request: Request,
    among: Mapping[str, tuple[object, ...]],
    limit: int | None,
    timeout: float,
) -> list[SearchPlan]:
    """What is to be searched, for each shape; all that is asked for must be possible."""
    from tirstep.bench.search import SearchPlan, get_choices
    from tirstep.bench.session import require_timeable
    from tirstep.modules import get_kernel
    from tirstep.programs.benching import find_peer

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
    peer = find_peer(picked)
    return [SearchPlan(picked, problem, fixed, among, limit, timeout, peer) for problem in problems]


def _join_pairs(
    recipe: Recipe, request: Request, among: Mapping[str, tuple[object, ...]]
) -> tuple[Request, dict[str, tuple[object, ...]]]:
    """``threads=16,16`` is one value where a knob takes pairs of rows and columns, as a rung says,
    or another recipe's default; several are ``16x16,8x16``.
    """
    from tirstep.transforms.recipes import Rung

    pairs, several = {}, {}
    for name, values in among.items():
        takes_pairs = isinstance(recipe.config.get(name), tuple)
        if isinstance(recipe, Rung) and name in recipe.config:
            takes_pairs = recipe.has_pairs(name)
        if takes_pairs and all(isinstance(value, int) for value in values):
            pairs[name] = values
        else:
            several[name] = tuple(dict.fromkeys(values))
    return replace(request, config={**request.config, **pairs}), several


def _search(
    plans: Sequence[SearchPlan],
    seed: int,
    into: Path | None,
    folder: Path | None,
    *,
    on_cluster: bool = False,
) -> int:
    """Search at each shape; 1 where no candidate was right.

    The model of time is of this GPU; one that nobody described is as an H200.
    """
    from tirstep.bench.best_table import record_best
    from tirstep.bench.search import search
    from tirstep.bench.session import Settings
    from tirstep.bench.trials import Trials, describe_search
    from tirstep.bench.workers import LocalWorkers
    from tirstep.transforms.recipes.gpus import GPUS, H200
    from tirstep.transforms.recipes.matmul_best import make_forecast

    from .screen import Screen

    screen, code, settings = Screen(), 0, Settings(seed=seed)
    machine = None if on_cluster else make_machine("search")
    if machine is not None:
        screen.line(("device  ", "dim"), str(machine.device["name"]))
    for plan in plans:
        with screen.working(), contextlib.ExitStack() as ended:
            if machine is None:
                from tirstep.bench.ray_workers import RayWorkers

                began, warn = time.monotonic(), lambda it: screen.line((it, "yellow"), wrap=True)
                workers: Any = RayWorkers(plan, settings, screen.doing, warn)
                after = f"  there after {time.monotonic() - began:.1f} s"
                of_cluster = f"{workers.describe()} of a cluster"
                screen.line(("device  ", "dim"), of_cluster, (after, "dim"))
            else:
                workers = LocalWorkers(plan, machine, settings, screen.doing)
            ended.callback(workers.stop)
            device, versions = workers.device, workers.versions
            gpu = GPUS.get(str(device["name"]), H200)
            plan = replace(plan, forecast=make_forecast(plan.recipe, plan.problem, gpu))
            kept = None
            if folder is not None:
                kept = Trials(folder, describe_search(plan, device, versions))
                if known := len(kept.find_settled()):
                    screen.line((f"{count(known, 'candidate')} known from {folder}", "dim"))
            found = search(workers, plan, seed, screen.doing, kept)
        _show(screen, plan, found)
        if found.best is None:
            code = 1
        elif into is not None and record_best(into, plan, found, device, versions):
            screen.line((f"wrote {into}", "green"))
        elif into is not None:
            screen.line((f"{into} has a faster config for this, which stays", "yellow"))
    return code


def _show(screen: Screen, plan: SearchPlan, found: SearchResult) -> None:
    from tirstep.bench.search import count_configs

    screen.line()
    total = count_configs(plan.recipe, plan.fixed, plan.among)
    of_all = f" of {total}" if total >= found.tried else ""
    show_tried(screen, plan, f"{count(found.tried, 'candidate')}{of_all}")
    show_reasons(screen, found)
    seconds = [f"{taken:.1f} s for the {what}" for what, taken in found.seconds.items()]
    screen.line((f"{'took':<9}{', '.join(seconds)}", "dim"))
    if found.best is None or found.config is None:
        show_none(screen, plan, found)
        return
    show_time(screen, "best", found.best)
    if found.expected_us is not None:
        expected = f"{found.expected_us:,.1f} us by the model of time"
        screen.line((f"{'expected':<9}", "dim"), expected)
    show_time(screen, "as it is", found.default)
    show_time(screen, plan.peer.name, found.peer)
    if found.peer_error:
        screen.line((f"{plan.peer.name}: {found.peer_error}", "yellow"), wrap=True)
    if found.ratio is not None:
        faster = f"{found.ratio:.3f} times as fast as {plan.peer.name}"
        screen.line((f"{'ratio':<9}", "dim"), faster)
    show_config(screen, found.config)


def show_tried(screen: Screen, plan: SearchPlan, tried: str) -> None:
    """What was searched, and how many candidates there were."""
    shape = format_shape(plan.problem.shape)
    name = f"{plan.recipe.name}{shape and f' at {shape}'}, {get_dtype(plan.problem)}"
    screen.line((name, "bold"))
    screen.line((f"tried {tried}", "dim"))


def show_reasons(screen: Screen, found: SearchResult) -> None:
    """How many candidates are out, by the kind of reason, with the first sentence of each kind."""
    for reason, number in found.skipped.most_common():
        text = " ".join(found.samples.get(reason, reason).split())
        text = text.removeprefix(f"{reason.rpartition(': ')[2]}: ")
        sample = "" if text == reason else f"  {text[:160]}{'…' * (len(text) > 160)}"
        screen.line((f"  {number:>5} {reason}{sample}", "dim"))


def show_time(screen: Screen, name: str, time: Time | None) -> None:
    """A time with its quartiles."""
    if time is not None:
        spread = f"{time.lower_us:,.1f} to {time.upper_us:,.1f}"
        screen.line((f"{name:<9}", "dim"), f"{time.median_us:,.1f} us", (f"  {spread}", "dim"))


def show_config(screen: Screen, config: Mapping[str, object]) -> None:
    """A config as options."""
    chosen = {name: value for name, value in config.items() if value is not None}
    words = " ".join(f"--set {name}={spell(value)}" for name, value in chosen.items())
    screen.line((f"{'config':<9}", "dim"), words)


def show_none(screen: Screen, plan: SearchPlan, found: SearchResult) -> None:
    """Why there is no winner: the commonest reason, and the tail that would let sizes run."""
    screen.line(("no candidate ran and was exact", "bold red"))
    for kind, number in found.skipped.most_common(1):
        sentence = f"{number} of {found.tried}, the first of them: {found.samples.get(kind, kind)}"
        tails = [f"--set tail={tail}" for tail in plan.recipe.tails if tail != "refuse"]
        is_open = "tail" not in plan.fixed and "tail" not in plan.among
        if tails and is_open and any('tail="' in text for text in found.samples.values()):
            shape = format_shape(plan.problem.shape)
            advice = f"none of these sizes divides {shape}: pass {join_alternatives(tails)}"
            sentence = f"{advice}; {sentence}"
        screen.line(sentence, wrap=True)
