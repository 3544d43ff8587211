"""Time products at drawn shapes, fit the model of time to them, and judge it at other shapes.

``python benchmarks/bench_shapes.py`` on a machine with a GPU does all of it; ``fit`` alone needs no
GPU, and fits the costs of the tiles to the times in benchmarks/results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from shape_runs import (
    BEGIN,
    TimedTile,
    choose_configs,
    draw_calibration,
    fit_costs,
    list_times,
    measure_error,
    measure_loss,
    predict_left_out,
    read_set,
    time_shapes,
    write_set,
)

from tirstep.bench.cases import PRODUCTS_DRAWN, SEED
from tirstep.files import write_file
from tirstep.transforms.recipes.costs import FOLDER, read_costs
from tirstep.transforms.recipes.gemm_best import list_tiles
from tirstep.transforms.recipes.gpus import read_gpu

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
COSTS = FOLDER / "matmul.json"
DIGITS = 4


def get_file(gpu: str, name: str) -> Path:
    """Where a set's times are kept."""
    return RESULTS / f"shapes-{'-'.join(gpu.lower().split())}-{name}.json"


def main() -> None:
    """Measure and fit; or fit alone."""
    gpu = read_costs("matmul").costs.gpu
    if sys.argv[1:] == ["fit"]:
        fit(get_file(gpu.name, "calibration"))
        return
    from tirstep.bench.torch_machine import TorchMachine

    machine = TorchMachine()
    name = str(machine.device["name"])
    for what, shapes in (("calibration", draw_calibration()), ("test", PRODUCTS_DRAWN)):
        configs = choose_configs(shapes, read_gpu(name), calibrate=what == "calibration")
        timed = time_shapes(configs, machine, tell=print)
        write_set(get_file(name, what), timed)
        if what == "calibration" and name == gpu.name:  # the costs are those of that GPU
            fit(get_file(name, what))


def fit(file: Path) -> None:
    """Fit the costs to a set of times, and write them."""
    known, tiles = read_costs("matmul"), list_tiles(4)
    rates = [tile.rate for tile in tiles]
    times = list_times(read_set(file).shapes, tiles)
    found = fit_costs(known.costs, rates, times)
    table = json.loads(COSTS.read_text(encoding="utf-8"))
    for name in BEGIN:
        table["costs"][name] = float(f"{getattr(found.costs, name):.{DIGITS}g}")
    for entry, rate in zip(table["tiles"], found.tiles, strict=True):
        entry["rate"] = round(rate.rate, DIGITS)
        entry["crowded"] = round(rate.crowded or rate.rate, DIGITS)
    table["fit"] = describe_fit(times, found.typical, found.worst)
    left_out = predict_left_out(known.costs, rates, times)
    pairs = [(it.us, us) for it, us in zip(times, left_out, strict=True)]
    table["fit"]["error_left_out"] = round(measure_error(pairs), 3)
    table["fit"]["loss_left_out"] = round(measure_loss(times, left_out), 3)
    write_file(COSTS, spell_table(table))
    read_costs.cache_clear()
    list_tiles.cache_clear()
    print(json.dumps(table["fit"]))


def describe_fit(times: list[TimedTile], typical: float, worst: float) -> dict[str, Any]:
    """What the costs were fitted to, and how far they are off there."""
    return {
        "times": len(times),
        "shapes": len({it.product for it in times}),
        "seed": SEED,
        "error": round(typical, 3),
        "worst": round(worst, 3),
    }


def spell_table(table: dict[str, Any]) -> str:
    """JSON with a line for each tile."""
    tiles = ",\n".join(f"  {json.dumps(entry)}" for entry in table["tiles"])
    rest = {name: it for name, it in table.items() if name != "tiles"}
    return json.dumps(rest, indent=1).removesuffix("\n}") + f',\n "tiles": [\n{tiles}\n ]\n}}\n'


if __name__ == "__main__":
    main()
