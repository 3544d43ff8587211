"""Times configs that a model of time chose at many shapes, beside a peer, and keeps the times.

A set of times is a JSON file, ``{gpu, versions, date, dtype, peer, cases: [{shape, peer_us, times:
[{config, us}]}]}``, with the fastest config by the model first. Knobs of a config that are those of
`RECIPE` are left out.

To such times the costs of the model are fitted, by least squares of their logarithms. Costs and
rates are varied by factors; each is held near where it began, so that what no time tells apart
stays where it was. The steps are those of Levenberg and Marquardt (D. Marquardt, An algorithm for
least-squares estimation of nonlinear parameters, 1963).
"""

from __future__ import annotations

import datetime
import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tirstep.bench.cases import SEED, TEST, Sizes, draw_shapes
from tirstep.bench.compile_pool import CompileJob, compile_all, name_library
from tirstep.bench.machine import Reference
from tirstep.bench.peers import PEERS
from tirstep.bench.results import summarize
from tirstep.bench.session import Runner, Tell, Tried, prepare_peer, prepare_recipe
from tirstep.files import write_file
from tirstep.modules import Problem, get_kernel
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.gemm_best import MeasuredTile, rank_configs
from tirstep.transforms.recipes.gpus import Gpu
from tirstep.transforms.recipes.ladder import read_pairs
from tirstep.transforms.recipes.time_model import Costs, Product, Ranked, TileRate, estimate

CALIBRATION = 52
MORE: tuple[Sizes, ...] = (
    (3000, 3000, 3000),
    (2048, 8192, 2048),
    (5120, 1280, 2560),
    (640, 640, 640),
    (16, 16, 16384),
    (1536, 2304, 640),
    (1835, 4542, 10),
    (6778, 274, 14),
    (1212, 11093, 307),
    (3433, 590, 50),
    (11939, 1473, 9),
    (274, 8287, 220),
    (3037, 93, 1476),
    (5164, 10762, 52),
    (9105, 110, 73),
    (256, 7771, 3),
    (1068, 7365, 1),
    (463, 943, 2076),
    (2591, 6374, 7),
    (1478, 2921, 46),
    (2696, 1491, 6839),
    (11486, 9761, 11),
)
"""Shapes to calibrate with beside the drawn ones: six by hand, and sixteen with odd rows of many
results, of which those have few."""


def draw_calibration() -> tuple[Sizes, ...]:
    """Shapes to calibrate with: drawn behind those of the test, and `MORE`."""
    return (*islice(draw_shapes(SEED), TEST, TEST + CALIBRATION), *MORE)


BEGIN = {
    "sums_bytes_per_us": 6e6,
    "dram_bytes_per_us": 3e6,
    "l2_bytes_per_us": 8e6,
    "fill_us": 0.5,
    "store_us": 1e-4,
    "crowd": 0.1,
    "hidden": 0.1,
    "sums_us": 2.5,
    "launch_us": 3.0,
    "step_us": 0.6,
    "load_flops": 16.0,
    "begun": 1.0,
    "sums_step_us": 0.2,
    "scatter": 4.0,
}
"""Costs that are fitted, and where they begin: as measured before, roughly. The rate of all
multiprocessors is known, and those of tiles are parts of it."""
HELD = {"costs": 0.05, "rates": 0.3}
"""How much a factor weighs against an error of the same factor in one time, squared."""
_STEP = 1e-4
_ROUNDS = 60


class TimedTile(NamedTuple):
    """A product that was timed with a tile, by its place in a list, and slices of k."""

    product: Product
    tile: int
    parts: int
    us: float


class Fit(NamedTuple):
    """Costs and tiles, and how far the times are from what they say: factors minus one."""

    costs: Costs
    tiles: tuple[TileRate, ...]
    typical: float
    worst: float


def guess_rates(tile: TileRate) -> TileRate:
    """The rates that a tile's begin with: more results of a thread take fewer loads for each, and
    few warps alone leave a multiprocessor waiting.
    """
    each = tile.tile[0] * tile.tile[1] / tile.threads
    crowded = 0.75 * (each / 64) ** 0.25 * min(1.0, (min(tile.tile) / 16) ** 0.5)
    alone = min(1.0, (tile.threads / 256) ** 0.6)
    return tile._replace(rate=alone * crowded, crowded=crowded)


def fit_costs(costs: Costs, tiles: Sequence[TileRate], times: Sequence[TimedTile]) -> Fit:
    """The costs and rates that fit times best; costs that are not in `BEGIN` stay as they are."""
    tiles = [guess_rates(tile) for tile in tiles]
    crowded = [tile.crowded or tile.rate for tile in tiles]
    start = np.array([*BEGIN.values()])
    count = len(tiles)
    held = np.sqrt([HELD["costs"]] * len(BEGIN) + [HELD["rates"]] * 2 * count)

    def make(point: np.ndarray) -> tuple[Costs, list[TileRate]]:
        factors = np.exp(point)
        values: dict[str, Any] = dict(
            zip(BEGIN, map(float, start * factors[: len(BEGIN)]), strict=True)
        )
        alone, many = factors[len(BEGIN) :].reshape(2, count)
        made = [
            tile._replace(rate=tile.rate * float(a), crowded=full * float(b))
            for tile, full, a, b in zip(tiles, crowded, alone, many, strict=True)
        ]
        return replace(costs, **values), made

    def miss(point: np.ndarray) -> np.ndarray:
        fitted, rates = make(point)
        errors = [
            math.log(estimate(it.product, rates[it.tile], it.parts, fitted).us / it.us)
            for it in times
        ]
        return np.concatenate([errors, held * point])

    point = _minimize(miss, np.zeros(len(held)))
    fitted, rates = make(point)
    errors = np.abs(miss(point)[: len(times)])
    typical = math.exp(float(np.sqrt(np.mean(errors**2)))) - 1
    return Fit(fitted, tuple(rates), typical, math.exp(float(errors.max())) - 1)


def predict_left_out(
    costs: Costs, tiles: Sequence[TileRate], times: Sequence[TimedTile], folds: int = 8
) -> list[float]:
    """What each product would be expected to take by a fit without it and other products."""
    products = list(dict.fromkeys(it.product for it in times))
    predicted = {}
    for fold in range(folds):
        left_out = set(products[fold::folds])
        kept = [it for it in times if it.product not in left_out]
        fit = fit_costs(costs, tiles, kept)
        for place, it in enumerate(times):
            if it.product in left_out:
                rate = fit.tiles[it.tile]
                predicted[place] = estimate(it.product, rate, it.parts, fit.costs).us
    return [predicted[place] for place in range(len(times))]


def measure_error(pairs: Sequence[tuple[float, float]]) -> float:
    """How far pairs of times are apart: the root of the mean square of their logarithms' distance,
    as a factor minus one.
    """
    squares = [math.log(a / b) ** 2 for a, b in pairs]
    return math.exp(math.sqrt(sum(squares) / len(squares))) - 1


def measure_loss(times: Sequence[TimedTile], predicted: Sequence[float]) -> float:
    """How much longer the configs take that are expected to be fastest than those that are: the
    geometric mean over the products, as a factor minus one.
    """
    products = dict.fromkeys(it.product for it in times)
    logarithms = []
    for product in products:
        pairs = [
            (us, it.us) for it, us in zip(times, predicted, strict=True) if it.product == product
        ]
        logarithms.append(math.log(min(pairs)[1] / min(us for _, us in pairs)))
    return math.exp(sum(logarithms) / len(logarithms)) - 1


def _minimize(miss: Callable[[np.ndarray], np.ndarray], point: np.ndarray) -> np.ndarray:
    """The point where the squares of what a function misses are least, by damped steps."""
    found, damping = miss(point), 1.0
    for _ in range(_ROUNDS):
        slopes = np.stack(
            [(miss(point + move) - found) / _STEP for move in np.eye(len(point)) * _STEP]
        )
        square = slopes @ slopes.T
        while damping < 1e6:
            other = point - np.linalg.solve(square + damping * np.eye(len(point)), slopes @ found)
            missed = miss(other)
            if missed @ missed < found @ found:
                break
            damping *= 4
        else:
            return point
        gain = 1 - (missed @ missed) / (found @ found)
        point, found, damping = other, missed, damping / 4
        if gain < 1e-5:
            return point
    return point


RECIPE = "matmul_split_k"
"""The last rung of matmul's fast ladder: all of its knobs may be set."""
DTYPE, PEER = "float32", "torch"
BYTES = 4
BEST, OTHERS, HOPELESS = 4, 3, 2.0
"""Of a shape to calibrate with: the fastest tiles, and others that were timed least so far, of so
many times the fastest's time at most."""
ROUNDS = 11
COMPILE_SECONDS = 150.0


@dataclass(frozen=True)
class TimedConfig:
    """A config and its time; None where it did not run, or was wrong, which `note` says."""

    config: dict[str, Any]
    us: float | None = None
    note: str = ""


@dataclass(frozen=True)
class TimedShape:
    """A shape with the times of a peer and of configs."""

    shape: Sizes
    configs: tuple[TimedConfig, ...]
    peer_us: float | None = None

    @property
    def product(self) -> Product:
        """What the model of time knows of it."""
        return Product(*self.shape, BYTES)

    @property
    def ratio(self) -> float | None:
        """How often the first config is as fast as the peer."""
        us = self.configs[0].us
        return None if us is None or self.peer_us is None else self.peer_us / us


@dataclass(frozen=True)
class TimedSet:
    """Shapes that were timed on one GPU."""

    gpu: str
    date: str
    shapes: tuple[TimedShape, ...]
    versions: dict[str, str] = field(default_factory=dict)


def choose_configs(shapes: Iterable[Sizes], gpu: Gpu, *, calibrate: bool) -> list[TimedShape]:
    """What is to be timed: the fastest config by the model, or many that tell its costs apart."""
    used: dict[TileRate, int] = {}
    dice = random.Random(0)
    chosen = []
    for shape in shapes:
        ranked = rank_configs(Product(*shape, BYTES), gpu)
        picked = _pick(ranked, used, dice) if calibrate else ranked[:1]
        for it in picked:
            used[it.choice.rate] = used.get(it.choice.rate, 0) + 1
        configs = (TimedConfig(_shorten(vars(it.config))) for it in picked)
        chosen.append(TimedShape(shape, tuple(configs)))
    return chosen


def _pick(ranked: Sequence[Ranked], used: dict[TileRate, int], dice: random.Random) -> list[Ranked]:
    """The fastest tiles, the fastest of all with other slices of k, and tiles timed least."""
    first: dict[TileRate, Ranked] = {}
    for it in ranked:
        first.setdefault(it.choice.rate, it)
    tiles = list(first.values())
    picked = tiles[:BEST]
    slices = [it for it in ranked[1:] if it.choice.rate == ranked[0].choice.rate]
    picked += dice.sample(slices, min(1, len(slices)))
    most = HOPELESS * ranked[0].choice.estimate.us
    others = [it for it in tiles[BEST:] if it.choice.estimate.us < most]
    others.sort(key=lambda it: (used.get(it.choice.rate, 0), dice.random()))
    return picked + others[:OTHERS]


def _shorten(config: dict[str, Any]) -> dict[str, Any]:
    known = RECIPES[RECIPE].config
    return {
        name: list(it) if isinstance(it, tuple) else it
        for name, it in config.items()
        if it != known[name]
    }


def time_shapes(shapes: Sequence[TimedShape], machine: Any, *, tell: Tell) -> TimedSet:
    """Compile, check and time configs; each is exact before it has a time."""
    jobs = [[_make_job(each.shape, it.config) for it in each.configs] for each in shapes]
    flat = [job for some in jobs for job in some]
    reasons = compile_all(
        flat,
        machine.target,
        limit=COMPILE_SECONDS,
        report=lambda done: tell(f"compiled {done} of {len(flat)} configs"),
    )
    notes = {job.library: reason for job, reason in zip(flat, reasons, strict=True)}
    timed = []
    for number, (each, some) in enumerate(zip(shapes, jobs, strict=True), 1):
        tell(f"timing shape {number} of {len(shapes)}, {'x'.join(map(str, each.shape))}")
        timed.append(_time_shape(each, some, notes, machine))
        machine.clear()
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return TimedSet(str(machine.device["name"]), today, tuple(timed), dict(machine.versions))


def _make_problem(shape: Sizes) -> Problem:
    return get_kernel("matmul").problem(*shape, dtype=DTYPE)


def _make_job(shape: Sizes, config: dict[str, Any]) -> CompileJob:
    problem = _make_problem(shape)
    sizes, options = dict(problem.shape), dict(problem.options)
    return CompileJob(RECIPE, sizes, options, read_pairs(config), str(name_library()))


def _time_shape(
    timed: TimedShape, jobs: Sequence[CompileJob], notes: dict[str, str], machine: Any
) -> TimedShape:
    problem = _make_problem(timed.shape)
    runner = Runner(machine, Reference(problem, problem.integer_inputs(0), problem.is_exact))
    tried = [
        Tried("failed", notes[job.library])
        if notes[job.library]
        else runner.try_once(RECIPE, prepare_recipe(RECIPES[RECIPE], job.config, Path(job.library)))
        for job in jobs
    ]
    runner.fill(problem.float_inputs(0))
    peer = runner.try_once(PEER, prepare_peer(PEERS[PEER]), is_checked=False)
    replays = [it.replay for it in (*tried, peer) if it.replay is not None]
    seconds = iter(machine.time(replays, [ROUNDS] * len(replays)))
    times = [
        None if it.replay is None else summarize(next(seconds)).median_us for it in (*tried, peer)
    ]
    configs = [
        TimedConfig(it.config, us, one.note)
        for it, us, one in zip(timed.configs, times[:-1], tried, strict=True)
    ]
    return TimedShape(timed.shape, tuple(configs), times[-1])


def list_times(shapes: Iterable[TimedShape], tiles: Sequence[MeasuredTile]) -> list[TimedTile]:
    """The times that a model can be fitted to: those of its tiles."""
    places = {_get_tile_knobs(vars(tile.config)): place for place, tile in enumerate(tiles)}
    found = []
    for each in shapes:
        for it in each.configs:
            config = {**RECIPES[RECIPE].config, **read_pairs(it.config)}
            place = places.get(_get_tile_knobs(config))
            if it.us is not None and place is not None and config["tail"] != "copy":
                found.append(TimedTile(each.product, place, int(str(config["split_k"])), it.us))
    return found


def _get_tile_knobs(config: dict[str, Any]) -> tuple[object, ...]:
    """What tells tiles apart: all but how a shape is cut and padded."""
    return tuple(config[name] for name in sorted(config) if name not in ("split_k", "tail"))


def write_set(file: Path, timed: TimedSet) -> None:
    """Write a set, a line for each time."""
    head = {"gpu": timed.gpu, "versions": timed.versions, "date": timed.date}
    lines = [json.dumps({**head, "dtype": DTYPE, "peer": PEER})[:-1] + ', "cases": [']
    for each in timed.shapes:
        peer = None if each.peer_us is None else round(each.peer_us, 2)
        lines.append(json.dumps({"shape": each.shape, "peer_us": peer})[:-1] + ', "times": [')
        lines += [f" {json.dumps(_make_entry(it))}," for it in each.configs]
        lines[-1] = lines[-1].removesuffix(",") + "]},"
    lines[-1] = lines[-1].removesuffix(",") + "]}"
    write_file(file, "\n".join(lines) + "\n")


def _make_entry(it: TimedConfig) -> dict[str, Any]:
    entry: dict[str, Any] = {"config": it.config, "us": None if it.us is None else round(it.us, 2)}
    return {**entry, "note": it.note} if it.note else entry


def read_set(file: Path) -> TimedSet:
    """What `write_set` wrote."""
    found = json.loads(file.read_text(encoding="utf-8"))
    shapes = tuple(
        TimedShape(
            tuple(case["shape"]),
            tuple(TimedConfig(it["config"], it["us"], it.get("note", "")) for it in case["times"]),
            case["peer_us"],
        )
        for case in found["cases"]
    )
    return TimedSet(found["gpu"], found["date"], shapes, dict(found["versions"]))
