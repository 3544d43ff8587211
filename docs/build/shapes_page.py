"""Writes docs/shapes.md and its plots: what is chosen at drawn shapes, and how fast it is.

Products come out of sets of times, rows and elements out of a run of the suite row-shapes.

``python docs/build/shapes_page.py`` writes them out of benchmarks/results and the costs; a test
holds them to these.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from plots import Drawing

from tirstep.bench.cases import (
    CALIBRATION,
    LONGEST_ROW,
    MORE,
    MOST_ELEMENTS,
    MOST_ROWS,
    PLANE_COUNT,
    SHORTEST_ROW,
)
from tirstep.bench.peers import PEERS
from tirstep.bench.results import Case, read_run
from tirstep.bench.shape_runs import TimedShape, list_times, read_set
from tirstep.bench.tables import Table
from tirstep.files import write_file
from tirstep.transforms.recipes.costs import FOLDER, read_costs
from tirstep.transforms.recipes.gemm_best import list_tiles
from tirstep.transforms.recipes.time_model import estimate

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/shapes.md"
STEM = "shapes-nvidia-h200"
SETS = {"calibration": "#cc79a7", "test": "#5b2a48"}
LEFT, TOP, WIDTH, HEIGHT, BOTTOM = 70.0, 70.0, 480.0, 360.0, 50.0
GOAL, LEAST = 1.0, 0.85
"""That the geometric mean and each ratio of the test set shall reach."""
SLOWEST = 12
"""Shapes of the table of those that are slowest beside the peer."""

HEAD = """# Any shape, without a search

`matmul_best` has a table of searches, and chooses elsewhere by a model of time, as
`tirstep choose matmul --shape 3000x3000x3000` shows it. The model counts waves of tiles on the
multiprocessors, the time that a tile takes alone and among others, which is the longer of both and
some of the shorter, as far as warps fill schedulers; its first copies and its store, what DRAM and
the L2 cache take, and the kernel that adds up slices of k; of {tiles} tiles of float32, {times}
times at {shapes} shapes gave the costs of these parts (transforms/recipes/costs/matmul.json).
`tirstep.bench.cases` draws the shapes: m, n and k between 1 and 16384, evenly by their logarithms,
half of the shapes multiples of 64, at most 2^36 products. Those that the model is judged by were
not among those that it was fitted to: {drawn} that were drawn, too, and {more} more, six by hand
and the others with odd rows of many results. `make
bench-shapes` measures, fits and writes this page; caches are cold, as in
[all times](benchmarks.md).

Where the last wave of tiles would be a short one, all steps of all tiles may be shared equally by
as many GPU blocks as run at a time ([`stream_steps`](transforms.md#stream_steps), the rung
`matmul_stream_k`; stream-K). A block takes up a tile where another one leaves it, and what it adds
up there is one part of the tile's sum. The model takes that for a tile whose steps take a tenth
longer, as eleven shapes had it; it leaves that out where the parts of the result are more than the
L2 cache holds, and of tiles with asynchronous copies, of which none is in flight behind a step in
loops of unknown length. The ladders of tensor cores live on these, and have no such rung.

"""


ROWS = "bench-nvidia-h100-80gb-hbm3-row-shapes.json"
PRODUCTS = "bench-nvidia-h100-80gb-hbm3-product-shapes.json"
LEAST_OF_PRODUCTS = 0.8
PRODUCTS_HEAD = """

## The test shapes in two types

`tirstep bench product-shapes` times what is chosen at the {shapes} test shapes in one run beside
PyTorch, here on one H100: float32 by `matmul_best`, bfloat16 by `matmul_wgmma_best`. Where rows are
no multiples of 16 bytes, small products and those of few columns are not copied between zeros, but
read as they lie by mma.sync or by the schedules of float32 (transforms/recipes/odd_rows.py).
10432x896x5248 takes 4.3 waves of tiles of 128x128, and was at 0.78 to 0.93 in four runs;
no other tile that fits was faster. [Tensor cores](tensor-cores.md#what-was-measured) says more.

"""
COMPILING = "compile-seconds.json"
COMPILING_HEAD = """

## What compiling takes

Seconds of one core, measured without a GPU by `python benchmarks/compile_seconds.py` ({system},
{cores} cores, TVM {tvm}, NVRTC {nvrtc}), of all cases of both suites above: of the schedule with
its checks, of TVM's way to CUDA source, and of NVRTC. A process has imported TVM and compiled a
case of each suite and type before; other processes kept the machine busy, so that this is more than
it takes alone.

"""
NOTHING = 0.01
LEAST_OF_ROWS = 0.97
"""Of the faster of PyTorch and Triton, that each row and each elementwise kernel shall reach."""
ROWS_HEAD = """

## Rows and elements

`tirstep bench row-shapes` draws {planes} planes, of {shortest} to {longest} elements a row and 1 to
{most} rows, evenly by their logarithms, at most 2^{elements} elements: each for one of {kernels}
kernels in three types, with the recipe that ends in "best" and chooses by rules; these are times of
one H100. Triton's programs hold a whole row, of up to 65,536 elements. Ratios are of the faster of
PyTorch and Triton. Those of 0.93 to 0.97 are a few tenths of a microsecond, and other ones from run
to run.

Few long rows of row_sum and matvec are cut in parts of any length by a model of time (`tirstep
choose matvec --shape 40x153099`): 40x153099 was at 0.42 to 0.45 before. It counts rounds of
reading, of which each waits for memory once, what DRAM gives, and the kernel that adds up parts.
Its costs are those of products, and were fitted to 16 times of row_sum and matvec in
[all times](benchmarks.md), to none of these. Halves whose vectors do not share out among threads
get twice the threads, as 1450x3264 of these shapes showed; no other rule was made with them.

"""


def read_sets() -> dict[str, tuple[TimedShape, ...]]:
    """The shapes of each set that was timed on an H200."""
    files = {name: RESULTS / f"{STEM}-{name}.json" for name in SETS}
    return {name: read_set(file).shapes for name, file in files.items() if file.is_file()}


def make_files() -> dict[Path, str]:
    """The page and its plots; without times of the test set, the page of the calibration alone."""
    sets = read_sets()
    predicted = RESULTS / f"{STEM}-predicted.svg"
    ratios = RESULTS / f"{STEM}-ratios.svg"
    found = {predicted: plot_predicted(sets)}
    if "test" in sets:
        found[ratios] = plot_ratios(sets["test"])
    return {PAGE: make_page(sets, [file.name for file in found]), **found}


def make_page(sets: Mapping[str, Sequence[TimedShape]], plots: Sequence[str]) -> str:
    """The text of the page."""
    fit = json.loads((FOLDER / "matmul.json").read_text(encoding="utf-8"))["fit"]
    counts = {"tiles": len(list_tiles(4)), "times": fit["times"], "shapes": fit["shapes"]}
    text = HEAD.format(**counts, drawn=CALIBRATION, more=len(MORE))
    rows = [
        ["error of the model where it was fitted", f"{100 * fit['error']:.0f} %"],
        ["error at shapes left out of the fit", f"{100 * fit['error_left_out']:.0f} %"],
    ]
    test = [each for each in sets.get("test", ()) if each.ratio is not None]
    if test:
        rows = [*_describe_test(test), *rows]
        rows += [["error at test shapes", f"{100 * measure_error(test):.0f} %"]]
    else:
        text += "The test shapes have no times yet.\n\n"
    text += Table(["float32 on one H200", ""], rows, 1).to_markdown()
    text += "\n\nErrors are factors minus one, of root mean squares of logarithms.\n\n"
    text += "\n\n".join(
        f"![{Path(name).stem.replace('-', ' ')}](../benchmarks/results/{name})" for name in plots
    )
    if not test:
        return text + "\n"
    slowest = sorted(test, key=lambda each: each.ratio or 0)[:SLOWEST]
    head = ["m×n×k", "config", "us", "PyTorch, us", "ratio"]
    lines = [_describe(each) for each in slowest]
    title = f"\n\n## The {SLOWEST} slowest beside PyTorch\n\n"
    text += title + Table(head, lines, 3).to_markdown() + "\n"
    text += make_products_part(RESULTS / PRODUCTS)
    text += make_rows_part(RESULTS / ROWS)
    return text + make_compiling_part(RESULTS / COMPILING)


def make_products_part(file: Path) -> str:
    """The part of the test shapes in several types; nothing without a run."""
    if not file.is_file():
        return ""
    cases = [case for case in read_run(file).cases if not case.skipped]
    text = PRODUCTS_HEAD.format(shapes=len({case.shape_text for case in cases}))
    return text + tabulate(cases, "dtype", LEAST_OF_PRODUCTS)


def make_rows_part(file: Path) -> str:
    """The part of rows and elements; nothing without a run."""
    if not file.is_file():
        return ""
    cases = [case for case in read_run(file).cases if not case.skipped]
    numbers = {
        "planes": PLANE_COUNT,
        "shortest": SHORTEST_ROW,
        "longest": f"{LONGEST_ROW:,}",
        "most": f"{MOST_ROWS:,}",
        "elements": MOST_ELEMENTS.bit_length() - 1,
        "kernels": len({case.kernel for case in cases}),
    }
    return ROWS_HEAD.format(**numbers) + tabulate(cases, "kernel", LEAST_OF_ROWS)


def make_compiling_part(file: Path) -> str:
    """The part of what compiling takes; nothing without a run."""
    if not file.is_file():
        return ""
    run = json.loads(file.read_text(encoding="utf-8"))
    parts = ("schedule_s", "lower_s", "nvrtc_s")
    lines = []
    for suite, dtype in dict.fromkeys((row["suite"], row["dtype"]) for row in run["rows"]):
        rows = [row for row in run["rows"] if (row["suite"], row["dtype"]) == (suite, dtype)]
        sums = [sum(row[part] for part in parts) for row in rows]
        medians = [f"{median(row[part] for row in rows):.2f}" for part in parts]
        lines.append(
            [
                f"{suite}, {dtype}",
                str(len(rows)),
                *medians,
                f"{median(sums):.2f}",
                f"{max(sums):.2f}",
            ]
        )
    head = ["suite", "cases", "schedule", "source", "NVRTC", "median of all", "longest"]
    text = COMPILING_HEAD.format(**run["machine"])
    return text + Table(head, lines, 6).to_markdown() + "\n"


def tabulate(cases: Sequence[Case], by: str, least: float) -> str:
    """Ratios by kernel or type, and the slowest cases."""
    ratios = {case.title: find_ratio(case) for case in cases}
    lines = []
    for name in (*dict.fromkeys(getattr(case, by) for case in cases), "all"):
        found = [ratios[case.title] for case in cases if name in (getattr(case, by), "all")]
        below = sum(it < least for it in found)
        lines.append([name, str(len(found)), f"{mean(found):.2f}", f"{min(found):.2f}", str(below)])
    head = [by, "cases", "geometric mean", "lowest", f"below {least}"]
    slowest = sorted(cases, key=lambda case: ratios[case.title])[:SLOWEST]
    rows = [[case.title, f"{ratios[case.title]:.2f}", *_get_times(case)] for case in slowest]
    peers = [name for name in PEERS if any(name in case_times(case) for case in cases)]
    columns = ["slowest cases", "ratio", "ours, us", *(f"{name}, us" for name in peers)]
    shown = [row[: len(columns)] for row in rows]
    tables = (
        Table(head, lines, 4).to_markdown(),
        Table(columns, shown, len(columns) - 1).to_markdown(),
    )
    return "\n\n".join(tables) + "\n"


def find_ratio(case: Case) -> float:
    """The time of the faster peer over that of the recipe; hardly anything where that has none."""
    peers = [us for name, us in case_times(case).items() if name in PEERS]
    ours = [us for name, us in case_times(case).items() if name not in PEERS]
    return min(peers) / ours[0] if peers and ours else NOTHING


def case_times(case: Case) -> dict[str, float]:
    """Microseconds by recipe and peer."""
    return {it.candidate: it.time.median_us for it in case.outcomes if it.time is not None}


def _get_times(case: Case) -> list[str]:
    times = case_times(case)
    ours = next((us for name, us in times.items() if name not in PEERS), None)
    found = [ours, times.get("torch"), times.get("triton")]
    return ["–" if us is None else f"{us:,.1f}" for us in found]


def _describe_test(test: Sequence[TimedShape]) -> list[list[str]]:
    found = [each.ratio or 0 for each in test]
    chosen = [_compare_with_fastest(each) for each in test if len(each.configs) > 1]
    return [
        ["test shapes, chosen and not searched", str(len(test))],
        ["geometric mean of PyTorch's time over ours", f"{mean(found):.2f}"],
        ["lowest ratio", f"{min(found):.2f}"],
        [f"ratios below {LEAST}", str(sum(ratio < LEAST for ratio in found))],
        ["speed of what was chosen over the fastest of four timed", f"{mean(chosen):.3f}"],
    ]


def _compare_with_fastest(each: TimedShape) -> float:
    """The time of the fastest config over that of the first, which was chosen."""
    times = [it.us for it in each.configs if it.us is not None]
    return min(times) / (each.configs[0].us or math.inf)


def _describe(each: TimedShape) -> list[str]:
    first = each.configs[0]
    (ty, tx), (each_y, each_x) = (
        first.config.get("threads", (16, 16)),
        first.config.get("thread_tile", (8, 8)),
    )
    slices = first.config.get("split_k", 4)
    words = f"{ty * each_y}×{tx * each_x}, {slices} slice{'s' * (slices != 1)}"
    times = (first.us or 0.0, each.peer_us or 0.0)
    shape = "×".join(map(str, each.shape))
    return [shape, words, *(f"{us:,.1f}" for us in times), f"{each.ratio:.2f}"]


def mean(values: Sequence[float]) -> float:
    """The geometric one."""
    return math.exp(sum(map(math.log, values)) / len(values))


def list_predicted(shapes: Sequence[TimedShape]) -> list[tuple[TimedShape, float, float]]:
    """Times as predicted and as measured, with their shapes."""
    tiles, costs = list_tiles(4), read_costs("matmul").costs
    return [
        (each, estimate(it.product, tiles[it.tile].rate, it.parts, costs).us, it.us)
        for each in shapes
        for it in list_times([each], tiles)
    ]


def measure_error(shapes: Sequence[TimedShape]) -> float:
    """How far times are from what is predicted, as a factor minus one."""
    squares = [math.log(a / b) ** 2 for _, a, b in list_predicted(shapes)]
    return math.exp(math.sqrt(sum(squares) / len(squares))) - 1


class LogAxis:
    """A logarithmic axis in pixels."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self._low, self._high, self._begin, self._end = low, high, begin, end

    def place(self, value: float) -> float:
        """Where a value lies."""
        part = math.log(value / self._low) / math.log(self._high / self._low)
        return self._begin + part * (self._end - self._begin)


def _start(title: str, x: LogAxis, y: LogAxis, ticks: tuple[list[float], list[float]]) -> Drawing:
    drawing = Drawing(LEFT + WIDTH + 30, TOP + HEIGHT + BOTTOM, title)
    drawing.text(16, 24, title)
    for value in ticks[0]:
        drawing.line(x.place(value), TOP, x.place(value), TOP + HEIGHT)
        place = TOP + HEIGHT + 18
        drawing.text(x.place(value), place, f"{value:g}", anchor="middle", quiet=True)
    for value in ticks[1]:
        drawing.line(LEFT, y.place(value), LEFT + WIDTH, y.place(value))
        drawing.text(LEFT - 8, y.place(value) + 4, f"{value:g}", anchor="end", quiet=True)
    return drawing


def plot_predicted(sets: Mapping[str, Sequence[TimedShape]]) -> str:
    """A dot for each time: predicted over measured."""
    low, high = 2.0, 10_000.0
    x, y = LogAxis(low, high, LEFT, LEFT + WIDTH), LogAxis(low, high, TOP + HEIGHT, TOP)
    ticks = [10.0, 100.0, 1000.0, 10_000.0]
    title = "matmul, float32, NVIDIA H200: predicted over measured times"
    drawing = _start(title, x, y, (ticks, ticks))
    drawing.path([(x.place(low), y.place(low)), (x.place(high), y.place(high))], "#1f2328")
    drawing.legend(16, 46, SETS)
    drawing.text(LEFT + WIDTH / 2, TOP + HEIGHT + 40, "measured, us", anchor="middle")
    drawing.text(16, TOP - 8, "predicted, us", quiet=True)
    for name, colour in SETS.items():
        for each, expected, us in list_predicted(sets.get(name, ())):
            shape = "x".join(map(str, each.shape))
            tip = f"{shape}: predicted {expected:.1f} us, measured {us:.1f} us"
            drawing.dot(x.place(us), y.place(expected), colour, tip)
    return drawing.finish()


def plot_ratios(shapes: Sequence[TimedShape]) -> str:
    """A dot for each test shape: PyTorch's time over ours, by the products that it takes."""
    x = LogAxis(1.0, 2.0**36, LEFT, LEFT + WIDTH)
    y = LogAxis(0.5, 4.0, TOP + HEIGHT, TOP)
    title = "matmul, float32, NVIDIA H200: PyTorch's time over that of what was chosen"
    drawing = _start(title, x, y, ([2.0**power for power in range(0, 37, 6)], [0.5, 1, 2, 4]))
    level = y.place(GOAL)
    drawing.path([(LEFT, level), (LEFT + WIDTH, level)], "#1f2328")
    colours = {"multiples of 64": "#0072b2", "any size": "#d55e00"}
    drawing.legend(16, 46, colours)
    drawing.text(LEFT + WIDTH / 2, TOP + HEIGHT + 40, "products, m n k", anchor="middle")
    for each in shapes:
        if each.ratio is not None:
            whole = all(size % 64 == 0 for size in each.shape)
            colour = colours["multiples of 64" if whole else "any size"]
            tip = f"{'x'.join(map(str, each.shape))}: {each.ratio:.2f}"
            drawing.dot(x.place(math.prod(each.shape)), y.place(each.ratio), colour, tip)
    return drawing.finish()


def main() -> None:
    """Write what is not as it is made."""
    for file, text in make_files().items():
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            write_file(file, text)
            print(f"wrote {file.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
