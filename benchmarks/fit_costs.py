"""Time products at drawn shapes, and fit the costs of the model of time to them.

``python benchmarks/fit_costs.py`` on a machine with a GPU does both; ``fit`` alone needs no GPU,
and fits the costs of the tiles to the times in benchmarks/results. These are JSON files,
``{gpu, versions, date, dtype, peer, cases: [{shape, peer_us, times: [{config, us}]}]}``, with the
fastest config by the model first, and without the knobs that are those of `RECIPE`.

The fit is one by least squares of the times' logarithms, from the costs and rates of the file on.
They are varied by factors; each is held near where it began, so that what no time tells apart stays
where it was. The steps are
those of Levenberg and Marquardt (D. Marquardt, An algorithm for least-squares estimation of
nonlinear parameters, 1963). Then the tiles' rates are varied by a few percent while what the model
chooses becomes faster by that: which of two tiles is the faster one is often a matter of less than
the error of the fit. Time what it then chooses and nobody timed, and fit again.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tirstep.bench.cases import PRODUCTS_DRAWN, SEED, TEST, PlannedCase, Sizes, draw_shapes
from tirstep.bench.compile_pool import CompileJob, compile_all, name_library
from tirstep.bench.peers import PEERS
from tirstep.bench.session import Settings, Tell, run_case
from tirstep.files import write_file
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.matmul_best import MeasuredTile, keep_tiles, list_tiles, rank_gemm
from tirstep.transforms.recipes.rungs import read_pairs
from tirstep.transforms.recipes.time_model import (
    FILE,
    Costs,
    Gpu,
    Product,
    Ranked,
    TileRate,
    estimate,
    read_costs,
    read_gpu,
)

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
RECIPE = RECIPES["matmul_split_k"]
"""The last rung of matmul's fast ladder whose knobs may all be set."""
DTYPE, BYTES, PEER = "float32", 4, "torch"
SETS = {"calibration": 1.0, "near": 2.0, "suites": 4.0}
"""What costs are fitted to, and how much a time of each counts: drawn shapes, those near others of
suites, and those of suites and models, whose sizes are multiples of 128."""
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
BEST, OTHERS, HOPELESS = 4, 3, 2.0
"""Of a shape: the fastest tiles, and others that were timed least so far, of so
many times the fastest's time at most."""
COMPILE_SECONDS = 150.0
FITTED = (
    "sums_bytes_per_us",
    "dram_bytes_per_us",
    "l2_bytes_per_us",
    "fill_us",
    "store_us",
    "crowd",
    "hidden",
    "sums_us",
    "launch_us",
    "step_us",
    "load_flops",
    "begun",
    "sums_step_us",
    "scatter",
)
"""Costs that are fitted; the rate of all multiprocessors is known."""
HELD = {"costs": 0.05, "rates": 0.05}
"""How much a factor weighs against an error of the same factor in one time, squared."""
NEAR, FAR = 1.1, 1.3
"""Times that count twice and once, in times of the fastest; others count less."""
TURNS = 3
_STEP, _ROUNDS = 1e-4, 60
CLOSE, UNTIMED, VARIED = 0.012, 0.04, 0.02
"""How close to the fastest a config counts as chosen, which falls off as exp(-distance / CLOSE);
what choosing a config without a time costs at least; and how much a factor of a rate weighs against
what it gains, both in logarithms of times."""
FACTORS = (1.02, 1 / 1.02, 1.05, 1 / 1.05)


class TimedConfig(NamedTuple):
    """A config and its time; None where it did not run, or was wrong, which `note` says."""

    config: dict[str, Any]
    us: float | None = None
    note: str = ""


class TimedShape(NamedTuple):
    """A shape with the times of a peer and of configs."""

    shape: Sizes
    configs: tuple[TimedConfig, ...]
    peer_us: float | None = None

    @property
    def ratio(self) -> float | None:
        """How often the first config is as fast as the peer."""
        us = self.configs[0].us
        return None if us is None or self.peer_us is None else self.peer_us / us


class TimedTile(NamedTuple):
    """A product that was timed with a tile, by its place in a list, and slices of k."""

    product: Product
    tile: int
    parts: int
    us: float


def main() -> None:
    """Measure and fit; or fit alone."""
    known = read_costs("matmul").gpu.name
    if sys.argv[1:] != ["fit"]:
        from tirstep.bench.torch_machine import TorchMachine

        machine = TorchMachine()
        name = str(machine.device["name"])
        for what, shapes in (("calibration", draw_calibration()), ("test", PRODUCTS_DRAWN)):
            timed = time_shapes(choose_configs(shapes, read_gpu(name)), machine, print)
            write_set(get_file(name, what), timed, machine)
        if name != known:  # the costs are those of that GPU
            return
    tiles, costs = list_tiles(BYTES), read_costs("matmul")
    sets = {name: list_times(read_set(get_file(known, name)), tiles) for name in SETS}
    times = [it for found in sets.values() for it in found]
    weights = np.concatenate([[SETS[name]] * len(found) for name, found in sets.items()])
    costs, rates = fit_costs(costs, [tile.rate for tile in tiles], times, weights)
    counted = {it.product: SETS[name] for name, found in sets.items() for it in found}
    rates = fit_choices(costs, tiles, rates, times, counted)
    table = json.loads(FILE.read_text(encoding="utf-8"))
    fitted = table["matmul"]
    fitted["costs"].update({name: float(f"{getattr(costs, name):.4g}") for name in FITTED})
    for entry, rate in zip(fitted["tiles"], rates, strict=True):
        entry.update(rate=round(rate.rate, 4), crowded=round(rate.crowded or rate.rate, 4))
    pairs = [(predict(it, rates, costs), it.us) for it in times]
    fitted["fit"] = {
        "times": len(times),
        "shapes": len({it.product for it in times}),
        "seed": SEED,
        "error": round(measure_error(pairs), 3),
        "worst": round(max(max(a / b, b / a) for a, b in pairs) - 1, 3),
    }
    write_file(FILE, spell_table(table))
    print(json.dumps(fitted["fit"]))


def get_file(gpu: str, name: str) -> Path:
    """Where a set's times are kept."""
    return RESULTS / f"shapes-{'-'.join(gpu.lower().split())}-{name}.json"


def draw_calibration() -> tuple[Sizes, ...]:
    """Shapes to calibrate with: drawn behind those of the test, and `MORE`."""
    return (*islice(draw_shapes(SEED), TEST, TEST + CALIBRATION), *MORE)


def choose_configs(shapes: Iterable[Sizes], gpu: Gpu) -> list[TimedShape]:
    """What is to be timed: the fastest tiles by the model, and to tell its costs apart the fastest
    of all with other slices of k, and tiles timed least.
    """
    used: dict[TileRate, int] = {}
    dice = random.Random(0)
    chosen = []
    for shape in shapes:
        ranked = rank_gemm(Product(*shape, BYTES), gpu)
        tiles, first = keep_tiles(ranked), ranked[0].choice
        slices = [it for it in ranked[1:] if it.choice.rate == first.rate]
        others = [it for it in tiles[BEST:] if it.choice.us < HOPELESS * first.us]
        others.sort(key=lambda it: (used.get(it.choice.rate, 0), dice.random()))
        picked = [*tiles[:BEST], *dice.sample(slices, min(1, len(slices))), *others[:OTHERS]]
        for it in picked:
            used[it.choice.rate] = used.get(it.choice.rate, 0) + 1
        chosen.append(TimedShape(shape, tuple(TimedConfig(_shorten(it)) for it in picked)))
    return chosen


def _shorten(ranked: Ranked) -> dict[str, Any]:
    return {
        name: list(it) if isinstance(it, tuple) else it
        for name, it in vars(ranked.config).items()
        if it != RECIPE.config[name]
    }


def time_shapes(shapes: Sequence[TimedShape], machine: Any, tell: Tell) -> list[TimedShape]:
    """Compile, check and time configs, beside a peer."""
    jobs = {
        (each.shape, at): CompileJob(
            RECIPE.name,
            dict(zip("mnk", each.shape, strict=True)),
            {"dtype": DTYPE},
            read_pairs(it.config),
            str(name_library()),
        )
        for each in shapes
        for at, it in enumerate(each.configs)
    }
    compile_all(
        [*jobs.values()],
        machine.target,
        limit=COMPILE_SECONDS,
        report=lambda done: tell(f"compiled {done} of {len(jobs)} configs"),
    )
    timed = []
    for number, each in enumerate(shapes, 1):
        tell(f"timing shape {number} of {len(shapes)}, {'x'.join(map(str, each.shape))}")
        problem = get_kernel("matmul").problem(*each.shape, dtype=DTYPE)
        mine = [jobs[each.shape, at] for at in range(len(each.configs))]
        built = {(problem, RECIPE.name): {Path(job.library): job.config for job in mine}}
        planned = PlannedCase("shapes", problem, (RECIPE,), (PEERS[PEER],))
        *ours, peer = run_case(planned, machine, Settings(rounds=11), tell, built=built).outcomes
        us = [None if it.time is None else it.time.median_us for it in (*ours, peer)]
        configs = zip(each.configs, us, ours, strict=False)
        told = tuple(TimedConfig(it.config, time, one.note) for it, time, one in configs)
        timed.append(TimedShape(each.shape, told, us[-1]))
    return timed


def list_times(shapes: Iterable[TimedShape], tiles: Sequence[MeasuredTile]) -> list[TimedTile]:
    """The times that a model can be fitted to: those of its tiles."""

    def tell(config: dict[str, Any]) -> tuple[object, ...]:
        """What tells tiles apart: all but how a shape is cut and padded."""
        return tuple(config[name] for name in sorted(config) if name not in ("split_k", "tail"))

    places = {tell(vars(tile.config)): place for place, tile in enumerate(tiles)}
    found = []
    for each in shapes:
        for it in each.configs:
            config: dict[str, Any] = {**RECIPE.config, **read_pairs(it.config)}
            place = places.get(tell(config))
            if it.us is not None and place is not None and config["tail"] != "copy":
                product = Product(*each.shape, BYTES)
                found.append(TimedTile(product, place, config["split_k"], it.us))
    return found


def fit_costs(
    costs: Costs, tiles: Sequence[TileRate], times: Sequence[TimedTile], weights: np.ndarray
) -> tuple[Costs, list[TileRate]]:
    """The costs and rates that fit times of such weights best, from given ones on: each tile's
    rates by its own times, then the costs `FITTED` by all, by turns. What is nearly as fast as the
    fastest counts most: among these the model chooses.
    """
    fastest, rates = dict[Product, float](), [*tiles]
    for it in times:
        fastest[it.product] = min(it.us, fastest.get(it.product, it.us))
    slower = np.array([it.us / fastest[it.product] for it in times])
    weights = np.sqrt(weights * np.select([slower < NEAR, slower < FAR], [2.0, 1.0], 0.3))
    own = [[at for at, it in enumerate(times) if it.tile == place] for place in range(len(tiles))]
    for _ in range(TURNS):
        for place, tile in enumerate(tiles):
            some = [times[at]._replace(tile=0) for at in own[place]]
            rates[place] = _fit_rates(tile, some, weights[own[place]], costs)
        costs = _fit_costs(costs, rates, times, weights)
    return costs, rates


def _fit_rates(
    tile: TileRate, times: Sequence[TimedTile], weights: np.ndarray, costs: Costs
) -> TileRate:
    def scale(point: np.ndarray) -> TileRate:
        alone, many = map(float, np.exp(point))
        crowded = (tile.crowded or tile.rate) * many
        return tile._replace(rate=tile.rate * alone, crowded=crowded)

    def miss(point: np.ndarray) -> np.ndarray:
        errors = [math.log(predict(it, [scale(point)], costs) / it.us) for it in times]
        return np.concatenate([weights * np.array(errors), math.sqrt(HELD["rates"]) * point])

    return scale(_minimize(miss, np.zeros(2)))


def _fit_costs(
    costs: Costs, rates: Sequence[TileRate], times: Sequence[TimedTile], weights: np.ndarray
) -> Costs:
    start = np.array([getattr(costs, name) for name in FITTED])

    def scale(point: np.ndarray) -> Costs:
        found: Any = zip(FITTED, map(float, start * np.exp(point)), strict=True)
        return replace(costs, **dict(found))

    def miss(point: np.ndarray) -> np.ndarray:
        errors = [math.log(predict(it, rates, scale(point)) / it.us) for it in times]
        return np.concatenate([weights * np.array(errors), math.sqrt(HELD["costs"]) * point])

    return scale(_minimize(miss, np.zeros(len(FITTED))))


def fit_choices(
    costs: Costs,
    tiles: Sequence[MeasuredTile],
    rates: Sequence[TileRate],
    times: Sequence[TimedTile],
    counted: Mapping[Product, float],
) -> list[TileRate]:
    """The rates, varied by `FACTORS` one after the other as long as the configs that the model
    chooses are faster by that, in the mean over products that count so much.
    """
    places = {tile.config: place for place, tile in enumerate(tiles)}
    measured = {(it.product, it.tile, it.parts): it.us for it in times}
    rows: list[list[TimedTile]] = []  # of a product, all that it may choose
    for product in counted:
        ranked = rank_gemm(product, costs.gpu)
        some = [places[replace(it.config, split_k=1, tail="refuse")] for it in ranked]
        keys = [(product, place, it.choice.parts) for place, it in zip(some, ranked, strict=True)]
        rows.append([TimedTile(*key, measured.get(key, math.inf)) for key in keys])
    fastest = [min(it.us for it in row) for row in rows]

    @functools.cache
    def expect(one: TimedTile, rate: TileRate) -> float:
        return predict(one._replace(tile=0), [rate], costs)

    def lose(at: int, rates: Sequence[TileRate]) -> float:
        """How much slower what is chosen for a product is than the fastest that was timed."""
        expected = [expect(it, rates[it.tile]) for it in rows[at]]
        least, total, weight = min(expected), 0.0, 0.0
        for it, us in zip(rows[at], expected, strict=True):
            if us < least * (1 + 8 * CLOSE):
                share = math.exp((1 - us / least) / CLOSE)
                guess = max(us, fastest[at] * (1 + UNTIMED))
                known = it.us if it.us < math.inf else guess
                total += share * math.log(known / fastest[at])
                weight += share
        return total / weight

    begun, found, dice = [*rates], [*rates], random.Random(0)
    amounts = np.array([*counted.values()])
    lost = np.array([lose(at, found) for at in range(len(rows))])
    uses = [{it.tile for it in row} for row in rows]
    users = [[at for at, use in enumerate(uses) if place in use] for place in range(len(tiles))]
    knobs = [(place, name) for place in range(len(tiles)) for name in ("rate", "crowded")]
    for _ in range(TURNS):
        for place, name in dice.sample(knobs, len(knobs)):
            for factor in FACTORS:
                old, first = getattr(found[place], name), getattr(begun[place], name)
                held = VARIED * (abs(math.log(old * factor / first)) - abs(math.log(old / first)))
                other = [*found]
                other[place] = found[place]._replace(**{name: old * factor})
                changed = lost.copy()
                changed[users[place]] = [lose(at, other) for at in users[place]]
                gain = float(amounts @ (lost - changed)) / float(amounts.sum())
                if gain > held / len(tiles):
                    found, lost = other, changed
    return found


def guess_rates(tile: TileRate) -> TileRate:
    """The rates that a tile's begin with: more results of a thread take fewer loads for each, and
    few warps alone leave a multiprocessor waiting.
    """
    each = tile.tile[0] * tile.tile[1] / tile.threads
    crowded = 0.75 * (each / 64) ** 0.25 * min(1.0, (min(tile.tile) / 16) ** 0.5)
    return tile._replace(rate=min(1.0, (tile.threads / 256) ** 0.6) * crowded, crowded=crowded)


def predict(timed: TimedTile, rates: Sequence[TileRate], costs: Costs) -> float:
    """What the model expects of a time."""
    return estimate(timed.product, rates[timed.tile], timed.parts, costs).us


def measure_error(pairs: Sequence[tuple[float, float]]) -> float:
    """How far pairs of times are apart: the root of the mean square of their logarithms' distance,
    as a factor minus one.
    """
    squares = [math.log(a / b) ** 2 for a, b in pairs]
    return math.exp(math.sqrt(sum(squares) / len(squares))) - 1


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


def spell_table(table: dict[str, Any]) -> str:
    """JSON with a line for each tile."""
    parts = []
    for name, each in table.items():
        text = json.dumps({key: it for key, it in each.items() if key != "tiles"}, indent=1)
        if "tiles" in each:
            tiles = ",\n".join(f"  {json.dumps(entry)}" for entry in each["tiles"])
            text = text.removesuffix("\n}") + f',\n "tiles": [\n{tiles}\n ]\n}}'
        parts.append(f'"{name}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write_set(file: Path, timed: Sequence[TimedShape], machine: Any) -> None:
    """Write times, a line for each."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    head = {"gpu": machine.device["name"], "versions": dict(machine.versions), "date": today}
    cases = []
    for each in timed:
        peer = None if each.peer_us is None else round(each.peer_us, 2)
        told = [
            {"config": it.config, "us": None if it.us is None else round(it.us, 2)}
            | ({"note": it.note} if it.note else {})
            for it in each.configs
        ]
        first = json.dumps({"shape": each.shape, "peer_us": peer})[:-1]
        cases.append(first + ', "times": [\n ' + ",\n ".join(map(json.dumps, told)) + "]}")
    first = json.dumps({**head, "dtype": DTYPE, "peer": PEER})[:-1]
    write_file(file, first + ', "cases": [\n' + ",\n".join(cases) + "]}\n")


def read_set(file: Path) -> list[TimedShape]:
    """What `write_set` wrote."""
    return [
        TimedShape(
            tuple(case["shape"]),
            tuple(TimedConfig(it["config"], it["us"], it.get("note", "")) for it in case["times"]),
            case["peer_us"],
        )
        for case in json.loads(file.read_text(encoding="utf-8"))["cases"]
    ]


if __name__ == "__main__":
    main()
