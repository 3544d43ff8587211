"""The tables of docs/shapes.md: how fast the chosen configs are at random shapes, and the slowest
of them.

Products come out of sets of times, rows and elements out of a run of the suite row-shapes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tirstep.bench.metrics import NOTHING, Table, geometric_mean
from tirstep.bench.peers import PEERS
from tirstep.bench.results import read_run
from tirstep.transforms.recipes.matmul_best import list_tiles
from tirstep.transforms.recipes.time_model import read_costs, read_table

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from fit_costs import TimedShape, list_times, measure_error, predict, read_set

TEST_SET = "shapes-nvidia-h200-test.json"
RUNS = {
    "shapes-products": ("bench-nvidia-h100-80gb-hbm3-product-shapes.json", "dtype", 0.8),
    "shapes-rows": ("bench-nvidia-h100-80gb-hbm3-row-shapes.json", "kernel", 0.97),
}
"""By marker: a run, what its cases are grouped by, and the ratio below which they are counted."""
LEAST = 0.85
"""That each ratio of the test set shall reach."""
SLOWEST = 12
"""Rows of the tables of those that are slowest beside the peer."""


def find_shapes_writers(results: Path) -> dict[str, Callable[[], str]]:
    """What fills the markers of the page."""
    writers: dict[str, Callable[[], str]] = {
        "shapes-model": partial(write_test_set, results / TEST_SET)
    }
    for name, (file, by, least) in RUNS.items():
        writers[name] = partial(write_cases, results / file, by, least)
    return writers


def write_test_set(file: Path) -> str:
    """What the model chose at shapes that it was not fitted to, and how far off it is."""
    test = [each for each in read_set(file) if each.ratio is not None]
    ratios = [each.ratio or 0.0 for each in test]
    chosen = [_compare_with_fastest(each) for each in test if len(each.configs) > 1]
    fit = read_table("matmul")["fit"]
    rows = [
        ["test shapes, chosen and not searched", str(len(test))],
        ["geometric mean of PyTorch's time over ours", f"{geometric_mean(ratios):.2f}"],
        ["lowest ratio", f"{min(ratios):.2f}"],
        [f"ratios below {LEAST}", str(sum(ratio < LEAST for ratio in ratios))],
        [
            "speed of what is chosen over the fastest that was timed",
            f"{geometric_mean(chosen):.3f}",
        ],
        ["error of the model where it was fitted", f"{100 * fit['error']:.0f} %"],
        ["error at test shapes", f"{100 * measure_error(list_predicted(test)):.0f} %"],
    ]
    slowest = [_describe(each) for each in sorted(test, key=lambda each: each.ratio or 0)]
    head = ["slowest m×n×k", "config", "us", "PyTorch, us", "ratio"]
    tables = Table(["float32 on one H200", ""], rows, 1), Table(head, slowest[:SLOWEST], 3)
    return "\n\n".join(table.to_markdown() for table in tables)


def list_predicted(shapes: Sequence[TimedShape]) -> list[tuple[float, float]]:
    """Times as predicted and as measured."""
    tiles, costs = list_tiles(4), read_costs("matmul")
    rates = [tile.rate for tile in tiles]
    return [(predict(it, rates, costs), it.us) for it in list_times(shapes, tiles)]


def _compare_with_fastest(each: TimedShape) -> float:
    """The time of the fastest config over that of the first, which was chosen."""
    times = [it.us for it in each.configs if it.us is not None]
    return min(times) / (each.configs[0].us or math.inf)


def _describe(each: TimedShape) -> list[str]:
    first = each.configs[0]
    threads, thread_tile = (
        first.config.get(name, own)
        for name, own in (("threads", (16, 16)), ("thread_tile", (8, 8)))
    )
    slices = first.config.get("split_k", 4)
    tile = "×".join(str(a * b) for a, b in zip(threads, thread_tile, strict=True))
    words = f"{tile}, {slices} slice{'s' * (slices != 1)}"
    times = [f"{us or 0:,.1f}" for us in (first.us, each.peer_us)]
    return ["×".join(map(str, each.shape)), words, *times, f"{each.ratio:.2f}"]


def write_cases(file: Path, by: str, least: float) -> str:
    """The faster peer's times over the recipe's, by kernel or type, and the slowest cases."""
    cases = [case for case in read_run(file).cases if not case.skipped]
    times = {
        case.title: {it.candidate: it.time.median_us for it in case.outcomes if it.time is not None}
        for case in cases
    }
    ratios = {title: find_ratio(found) for title, found in times.items()}
    lines = []
    for name in (*dict.fromkeys(getattr(case, by) for case in cases), "all"):
        found = [ratios[case.title] for case in cases if name in (getattr(case, by), "all")]
        below = sum(it < least for it in found)
        mean = geometric_mean(found)
        lines.append([name, str(len(found)), f"{mean:.2f}", f"{min(found):.2f}", str(below)])
    peers = [name for name in PEERS if any(name in found for found in times.values())]
    rows = []
    for case in sorted(cases, key=lambda case: ratios[case.title])[:SLOWEST]:
        found_us = [_get_ours(times[case.title]), *map(times[case.title].get, peers)]
        cells = [NOTHING if us is None else f"{us:,.1f}" for us in found_us]
        rows.append([case.title, f"{ratios[case.title]:.2f}", *cells])
    head = [by, "cases", "geometric mean", "lowest", f"below {least}"]
    columns = ["slowest cases", "ratio", "ours, us", *(f"{name}, us" for name in peers)]
    tables = Table(head, lines, 4), Table(columns, rows, len(columns) - 1)
    return "\n\n".join(table.to_markdown() for table in tables)


def find_ratio(times: dict[str, float]) -> float:
    """The time of the faster peer over that of the recipe; hardly anything where that has none."""
    peers, ours = [us for name, us in times.items() if name in PEERS], _get_ours(times)
    return min(peers) / ours if peers and ours else 1e-9


def _get_ours(times: dict[str, float]) -> float | None:
    return next((us for name, us in times.items() if name not in PEERS), None)
