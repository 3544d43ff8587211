"""``tirstep search``: a recipe's fastest config, shape by shape."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from .bench import make_machine
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
    from tirstep.bench.kept import Kept
    from tirstep.bench.machine import Machine
    from tirstep.bench.results import Time
    from tirstep.bench.search import SearchPlan, SearchResult
    from tirstep.transforms.recipes import Recipe
    from tirstep.transforms.recipes.forecast import Forecast

    from .screen import Screen

Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        parser=at_least("--limit", 1, int),
        help="So many candidates: the most promising by a model of time, where there is one, and "
        "some at random. [default: all of them]",
    ),
]
Gain = Annotated[
    float | None,
    typer.Option(
        "--gain",
        metavar="PERCENT",
        parser=at_least("--gain", 0, float),
        help="End where the model of time promises less from going on. [default: try all]",
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
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Over the GPUs of a cluster of Ray's: auto joins this machine's or starts one, local "
        "starts one, HOST:PORT joins that one. Who joins a cluster can run code on it.",
    ),
]
Trials = Annotated[
    Path | None,
    typer.Option(
        "--trials",
        metavar="DIR",
        help="Keep every candidate in a folder as it comes; the same command goes on from there.",
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
    gain: Gain = None,
    seed: Seed = 0,
    timeout: Timeout = 60,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", metavar="FILE", help="A table of the best configs to put the winners into."
        ),
    ] = None,
    cluster: Cluster = None,
    trials: Trials = None,
) -> int:
    """Find a recipe's fastest config on a GPU.

    The candidates are the values that the recipe declares as choices; one given with --set is the
    same in all of them, and --set tile_k=8,16 has these two in place of its choices. Every
    candidate is checked exactly before it may win. Products of matrices have a model of time: the
    candidates of which it expects most come first, what was measured corrects it, and it says what
    is to be gained from going on. The best of them take turns with PyTorch at the end; those of a
    program of yours with the function in its file's TORCH, or with dlight. A table keeps the faster
    one where it has an entry for the shape already.
    """
    single, among = separate_lists(config or [])
    request = make_request(None, dtype, option, single, function=function)
    plans = make_plans(recipe, shape or [], request, among, limit, timeout)
    if gain is not None:
        plans = [replace(plan, least_gain=gain / 100) for plan in plans]
    return _search(plans, seed, into, trials, cluster)


def _search(
    plans: Sequence[SearchPlan],
    seed: int,
    into: Path | None,
    trials: Path | None,
    cluster: str | None,
) -> int:
    """In this process or on a cluster, once the table is known to be one."""
    if into is not None:
        from tirstep.bench.best_table import require_table

        require_table(into)
    if cluster is None:
        return search_all(plans, seed, into, trials)
    from tirstep.bench.cluster import connected

    with connected(cluster):
        return search_all(plans, seed, into, trials, on_cluster=True)


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


def search_all(
    plans: Sequence[SearchPlan],
    seed: int,
    into: Path | None,
    trials: Path | None = None,
    *,
    on_cluster: bool = False,
) -> int:
    """Search at each shape; 1 where no candidate was right."""
    from .screen import Screen

    screen, code = Screen(), 0
    machine = None if on_cluster else make_machine("search")
    if machine is not None:
        screen.line(("device  ", "dim"), str(machine.device["name"]))
    for plan in plans:
        if machine is None:
            plan, found, facts = _search_on_cluster(screen, plan, seed, trials)
        else:
            plan, found, facts = _search_here(screen, plan, seed, trials, machine)
        _show(screen, plan, found)
        if found.best is None:
            code = 1
        elif into is not None:
            _keep(screen, into, plan, found, facts)
    return code


Searched: TypeAlias = "tuple[SearchPlan, SearchResult, GpuFacts]"


def _search_here(
    screen: Screen, plan: SearchPlan, seed: int, trials: Path | None, machine: Machine
) -> Searched:
    from tirstep.bench.compile_pool import get_cache_folder
    from tirstep.bench.search import search
    from tirstep.bench.session import Settings

    facts = GpuFacts(machine.device, machine.versions)
    plan = replace(plan, forecast=_make_forecast(plan, facts))
    with screen.working():
        found = search(
            plan,
            machine,
            Settings(seed=seed),
            cache=get_cache_folder(),
            tell=screen.doing,
            kept=_open_kept(screen, trials, plan, facts),
        )
    return plan, found, facts


def _search_on_cluster(
    screen: Screen, plan: SearchPlan, seed: int, trials: Path | None
) -> Searched:
    from tirstep.bench.ray_workers import RayWorkers
    from tirstep.bench.search import search_with
    from tirstep.bench.session import Settings

    def warn(line: str) -> None:
        screen.line((line, "yellow"), wrap=True)

    began = time.monotonic()
    with screen.working():
        workers = RayWorkers(plan, Settings(seed=seed), screen.doing, warn)
        try:
            facts = GpuFacts(workers.device, workers.versions)
            there = f"{workers.describe()} of a cluster"
            after = f"  there after {time.monotonic() - began:.1f} s"
            screen.line(("device  ", "dim"), there, (after, "dim"))
            plan = replace(plan, forecast=_make_forecast(plan, facts))
            kept = _open_kept(screen, trials, plan, facts)
            found = search_with(workers, plan, seed, screen.doing, kept)
        finally:
            workers.stop()
    return plan, found, facts


def _open_kept(
    screen: Screen, folder: Path | None, plan: SearchPlan, facts: GpuFacts
) -> Kept | None:
    if folder is None:
        return None
    from tirstep.bench.kept import Kept

    kept = Kept(folder, plan, facts.device, facts.versions)
    if kept.count:
        screen.line((f"{count(kept.count, 'candidate')} known from {folder}", "dim"))
    return kept


@dataclass(frozen=True)
class GpuFacts:
    """Of the GPU, or of all GPUs of a cluster."""

    device: Mapping[str, Any]
    versions: Mapping[str, str]


def _make_forecast(plan: SearchPlan, facts: GpuFacts) -> Forecast | None:
    """What a model of time expects on this GPU; one that nobody described is as an H200."""
    from tirstep.transforms.recipes.forecast import make_forecast
    from tirstep.transforms.recipes.gpus import GPUS, H200

    gpu = GPUS.get(str(facts.device["name"]), H200)
    return make_forecast(plan.recipe, plan.problem, gpu)


def _join_pairs(
    recipe: Recipe, request: Request, among: Mapping[str, tuple[object, ...]]
) -> tuple[Request, dict[str, tuple[object, ...]]]:
    """``threads=16,16`` is one value where a knob takes pairs; several are ``16x16,8x16``."""
    pairs = {
        name: values
        for name, values in among.items()
        if _takes_pairs(recipe, name) and all(isinstance(value, int) for value in values)
    }
    several = {
        name: tuple(dict.fromkeys(values)) for name, values in among.items() if name not in pairs
    }
    return replace(request, config={**request.config, **pairs}), several


def _takes_pairs(recipe: Recipe, name: str) -> bool:
    """Whether a knob takes rows and columns: a rung says so, another recipe by its default."""
    from tirstep.transforms.recipes import Rung

    if name not in recipe.config:
        return False
    if isinstance(recipe, Rung):
        return recipe.has_pairs(name)
    return isinstance(recipe.config[name], tuple)


def _show(screen: Screen, plan: SearchPlan, found: SearchResult) -> None:
    from tirstep.bench.search import count_configs

    recipe, problem = plan.recipe, plan.problem
    screen.line()
    shape, dtype = format_shape(problem.shape), get_dtype(problem)
    screen.line((f"{recipe.name}{shape and f' at {shape}'}, {dtype}", "bold"))
    total = count_configs(recipe, plan.fixed, plan.among)
    of_all = f" of {total}" if total >= found.tried else ""
    screen.line((f"tried {count(found.tried, 'candidate')}{of_all}", "dim"))
    if found.left and found.gain is not None:
        left = f"  of {found.left} more the model of time expects {found.gain:.1%} at most"
        screen.line((left, "dim"))
    for reason, number in found.skipped.most_common():
        screen.line((f"  {number:>5} {reason}{tell_sample(found.samples, reason)}", "dim"))
    seconds = [f"{taken:.1f} s for the {what}" for what, taken in found.seconds.items()]
    screen.line((f"{'took':<9}{', '.join(seconds)}", "dim"))
    if found.best is None or found.config is None:
        screen.line(("no candidate ran and was exact", "bold red"))
        if found.skipped:
            screen.line(explain_none(plan, found), wrap=True)
        return
    _show_time(screen, "best", found.best)
    if found.expected_us is not None:
        screen.line(
            (f"{'expected':<9}", "dim"), f"{found.expected_us:,.1f} us by the model of time"
        )
    _show_time(screen, "as it is", found.default)
    _show_time(screen, plan.peer.name, found.peer)
    if found.peer_error:
        screen.line((f"{plan.peer.name}: {found.peer_error}", "yellow"), wrap=True)
    if found.ratio is not None:
        screen.line(
            (f"{'ratio':<9}", "dim"), f"{found.ratio:.3f} times as fast as {plan.peer.name}"
        )
    chosen = {name: value for name, value in found.config.items() if value is not None}
    words = " ".join(f"--set {name}={spell(value)}" for name, value in chosen.items())
    screen.line((f"{'config':<9}", "dim"), words)


def tell_sample(samples: Mapping[str, str], reason: str) -> str:
    """The first sentence of a kind of reason, to stand behind it; "" where the kind says it."""
    text = " ".join(samples.get(reason, reason).split())
    text = text.removeprefix(f"{reason.rpartition(': ')[2]}: ")
    return "" if text == reason else f"  {text[:160]}{'…' * (len(text) > 160)}"


def explain_none(plan: SearchPlan, found: SearchResult) -> str:
    """Why there is no winner: the commonest reason, and the tail that would let sizes run."""
    ((kind, number),) = found.skipped.most_common(1)
    sample = found.samples.get(kind, kind)
    sentence = f"{number} of {found.tried}, the first of them: {sample}"
    tails = [f"--set tail={tail}" for tail in plan.recipe.tails if tail != "refuse"]
    is_open = "tail" not in plan.fixed and "tail" not in plan.among
    if not (tails and is_open and any('tail="' in text for text in found.samples.values())):
        return sentence
    shape = format_shape(plan.problem.shape)
    # Its own advice is that of a program.
    sentence = sentence.replace(sample, re.sub(r"; [^\[]*(?=\[|$)", " ", sample, count=1).strip())
    return f"none of these sizes divides {shape}: pass {join_alternatives(tails)}; {sentence}"


def _show_time(screen: Screen, name: str, time: Time | None) -> None:
    if time is not None:
        spread = f"{time.lower_us:,.1f} to {time.upper_us:,.1f}"
        screen.line((f"{name:<9}", "dim"), f"{time.median_us:,.1f} us", (f"  {spread}", "dim"))


def _keep(
    screen: Screen, file: Path, plan: SearchPlan, found: SearchResult, facts: GpuFacts
) -> None:
    from tirstep.bench.best_table import record_best

    if record_best(file, plan, found, facts.device, facts.versions):
        screen.line((f"wrote {file}", "green"))
    else:
        screen.line((f"{file} has a faster config for this, which stays", "yellow"))
