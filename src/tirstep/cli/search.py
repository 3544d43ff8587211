"""``tirstep search``: a recipe's fastest knobs, shape by shape."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bench import make_machine
from .formats import Document, read_keys
from .formatting import count, get_dtype, join_alternatives, spell
from .request import (
    Request,
    choose_config,
    make_request,
    option,
    parse_shape,
    pick_recipe,
    separate_lists,
    with_options,
)

if TYPE_CHECKING:
    from tirstep.bench.search import SearchPlan, SearchResult

    from .screen import Screen

SHAPES = option(
    "--shape",
    "SIZES",
    "The kernel's sizes, 1024x512x2048; may be repeated. [default: those of the recipe's example]",
)
TIMEOUT = option(
    "--timeout",
    "SECONDS",
    "Time limit for compiling one candidate.",
    default=60,
    least=1,
    kind=float,
)


@with_options()
def command(
    *,
    recipe: str,
    shape: list[str] | None = SHAPES,
    dtype: str | None,
    option: list[str] | None,
    config: list[str] | None,
    function: str | None,
    limit: int | None = option(
        "--limit",
        "N",
        "Try N candidates: the most promising by the time model, where there is one, "
        "and some at random. [default: all of them]",
        least=1,
    ),
    seed: int,
    timeout: float = TIMEOUT,
    cluster: str | None = option(
        "--cluster",
        "ADDRESS",
        "Search on the GPUs of a Ray cluster: auto joins this machine's or starts one, local "
        "starts one, HOST:PORT joins that one. Whoever can join a cluster can run code on it.",
    ),
    trials: Path | None = option(
        "--trials",
        "DIR",
        "Save every candidate in this folder; the same command resumes from it.",
    ),
    json: bool,
) -> int:
    """Find a recipe's fastest knobs on a GPU.

    Candidates combine the values that the recipe declares for its knobs; --set tile_k=8 fixes a
    knob, --set tile_k=8,16 replaces its values. Every candidate is checked exactly before it may
    win. For matmuls a time model puts the most promising ones first. At the end the best are timed
    in turns with PyTorch; for a program of yours, with the function in its file's TORCH, or with
    dlight.
    """
    single, among = separate_lists(config or [])
    request = make_request(None, dtype, option, single, function=function)
    plans = make_plans(recipe, shape or [], request, among, limit, timeout)

    from tirstep.bench.cluster import connected
    from tirstep.bench.search import Trials, describe_search, search
    from tirstep.bench.session import Settings
    from tirstep.bench.workers import LocalWorkers
    from tirstep.transforms.recipes.matmul_best import make_forecast
    from tirstep.transforms.recipes.time_model import GPUS, H200

    from .formats import print_document
    from .screen import Screen

    screen, code, settings = Screen(quiet=json), 0, Settings(seed=seed)
    documents = []
    with contextlib.nullcontext() if cluster is None else connected(cluster):
        machine = make_machine("search") if cluster is None else None
        if machine is not None:
            screen.line(("device  ", "dim"), str(machine.device["name"]))
        for plan in plans:
            with screen.working(), contextlib.ExitStack() as ended:
                if machine is None:
                    from tirstep.bench.ray_workers import RayWorkers

                    began, warn = (
                        time.monotonic(),
                        lambda it: screen.line((it, "yellow")),
                    )
                    workers: Any = RayWorkers(plan, settings, screen.doing, warn)
                    after = f"  there after {time.monotonic() - began:.1f} s"
                    of_cluster = f"{workers.describe()} of a cluster"
                    screen.line(("device  ", "dim"), of_cluster, (after, "dim"))
                else:
                    workers = LocalWorkers(plan, machine, settings, screen.doing)
                ended.callback(workers.stop)
                device, versions = workers.device, workers.versions
                # The model of time is of this GPU; one that nobody described is as an H200.
                gpu = GPUS.get(str(device["name"]), H200)
                plan = replace(plan, forecast=make_forecast(plan.recipe, plan.problem, gpu))
                kept = None
                if trials is not None:
                    kept = Trials(trials, describe_search(plan, device, versions))
                    if known := len(kept.find_settled()):
                        screen.line((f"{count(known, 'candidate')} known from {trials}", "dim"))
                found = search(workers, plan, seed, screen.doing, kept)
            screen.line()
            total = plan.count_configs()
            of_all = f" of {total}" if total >= found.tried else ""
            took = ", ".join(f"{it:.1f} s for the {what}" for what, it in found.seconds.items())
            tried = f"{count(found.tried, 'candidate')}{of_all}"
            show_result(screen, plan, found, tried, after=f"{'took':<9}{took}")
            documents.append(describe_result(plan, found))
            if found.best is None:
                code = 1
    if json:
        print_document("search", device=device, seed=seed, ok=not code, searches=documents)
    return code


def describe_result(plan: SearchPlan, found: SearchResult) -> Document:
    """The search, as a document."""
    return {
        "recipe": plan.recipe.name,
        **read_keys(plan.problem, "shape options"),
        **read_keys(found, "config best_us=best expected_us as_it_is_us=default tried skipped"),
        "peer": {"name": plan.peer.name, **read_keys(found, "time_us=peer ratio error=peer_error")},
    }


def make_plans(
    name: str,
    texts: Sequence[str],
    request: Request,
    among: Mapping[str, tuple[object, ...]],
    limit: int | None,
    timeout: float,
) -> list[SearchPlan]:
    """The searches, one for each shape; all that is asked for must be possible.

    ``threads=16,16`` is one value where a knob takes pairs of rows and columns, as a rung says, or
    another recipe's default; several are ``16x16,8x16``.
    """
    from tirstep.bench.search import SearchPlan
    from tirstep.bench.session import require_timeable
    from tirstep.modules import get_kernel
    from tirstep.programs.benching import find_peer
    from tirstep.transforms.recipes import Rung

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
    given, several = dict(request.config), dict[str, tuple[object, ...]]()
    for knob, values in among.items():
        takes_pairs = isinstance(picked.config.get(knob), tuple)
        if isinstance(picked, Rung) and knob in picked.config:
            takes_pairs = picked.has_pairs(knob)
        if takes_pairs and all(isinstance(value, int) for value in values):
            given[knob] = values
        else:
            several[knob] = tuple(dict.fromkeys(values))
    fixed = choose_config(replace(request, config=given), picked, picked.config)
    for knob, values in several.items():
        for value in values:  # each must be one that the knob can have
            choose_config(replace(request, config={knob: value}), picked, picked.config)
    peer = find_peer(picked)
    plans = [SearchPlan(picked, it, fixed, several, limit, timeout, peer) for it in problems]
    plans[0].count_configs()  # raises where there is nothing to choose
    return plans


def show_result(
    screen: Screen,
    plan: SearchPlan,
    found: SearchResult,
    tried: str,
    *,
    before: Sequence[tuple[str, str]] = (),
    after: str = "",
) -> None:
    """Summary of a search: how many candidates were rejected, by the kind of reason, with the first
    sentence of each kind; the times of the best; or why there is none: the commonest reason, and
    the tail that would let sizes run.
    """
    shape, peer = plan.problem.shape_text, plan.peer.name
    name = f"{plan.recipe.name}{shape and f' at {shape}'}, {get_dtype(plan.problem)}"
    screen.line((name, "bold"))
    for part in ((f"tried {tried}", "dim"), *before):
        screen.line(part)
    for reason, number in found.skipped.most_common():
        text = " ".join(found.samples.get(reason, reason).split())
        text = text.removeprefix(f"{reason.rpartition(': ')[2]}: ")
        sample = "" if text == reason else f"  {text[:160]}{'…' * (len(text) > 160)}"
        screen.line((f"  {number:>5} {reason}{sample}", "dim"))
    if after:
        screen.line((after, "dim"))
    if found.best is None or found.config is None:
        screen.line(("no candidate ran with exact results", "bold red"))
        of_all = max(found.tried, found.skipped.total())
        for kind, number in found.skipped.most_common(1):
            sentence = f"{number} of {of_all}, such as {found.samples.get(kind, kind)}"
            tails = [f"--set tail={tail}" for tail in plan.recipe.tails if tail != "refuse"]
            is_open = "tail" not in plan.fixed and "tail" not in plan.among
            if tails and is_open and any('tail="' in text for text in found.samples.values()):
                advice = f"none of these sizes divides {shape}: pass {join_alternatives(tails)}"
                sentence = f"{advice}; {sentence}"
            screen.line(sentence)
        return
    us, ratio = found.expected_us, found.ratio
    expected = None if us is None else f"{us:,.1f} us by the time model"
    faster = None if ratio is None else f"{ratio:.3f} times as fast as {peer}"
    chosen = {name: value for name, value in found.config.items() if value is not None}
    config = " ".join(f"--set {name}={spell(value)}" for name, value in chosen.items())
    times = {"best": found.best, "expected": expected, "as it is": found.default, peer: found.peer}
    for word, told in {**times, "ratio": faster, "knobs": config}.items():
        if word == "ratio" and found.peer_error:
            screen.line((f"{peer}: {found.peer_error}", "yellow"))
        if isinstance(told, str):
            screen.line((f"{word:<9}", "dim"), told)
        elif told is not None:  # a time with its quartiles
            spread = f"  {told.lower_us:,.1f} to {told.upper_us:,.1f}"
            screen.line((f"{word:<9}", "dim"), f"{told.median_us:,.1f} us", (spread, "dim"))
