"""Drawn shapes, times at them, and the model that is fitted to these."""

import math
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import shape_runs
from fake_machine import FakeMachine
from shape_runs import (
    CALIBRATION,
    MORE,
    TimedTile,
    choose_configs,
    draw_calibration,
    fit_costs,
    guess_rates,
    list_times,
    measure_error,
    measure_loss,
    predict_left_out,
    read_set,
    time_shapes,
    write_set,
)

from tirstep.bench.cases import MOST_PRODUCTS, PRODUCTS_DRAWN, TEST, draw_shapes
from tirstep.transforms.recipes.costs import read_costs
from tirstep.transforms.recipes.gemm_best import list_tiles
from tirstep.transforms.recipes.gpus import H200
from tirstep.transforms.recipes.time_model import Product, estimate


def test_the_sets_are_always_the_same_and_never_meet():
    assert PRODUCTS_DRAWN[:2] == ((448, 896, 640), (76, 53, 591))
    both = {*PRODUCTS_DRAWN, *draw_calibration()}
    assert len(both) == TEST + CALIBRATION + len(MORE)
    assert max(map(math.prod, both)) <= MOST_PRODUCTS
    some = [*islice(draw_shapes(3), 400)]
    assert sum(all(size % 64 == 0 for size in shape) for shape in some) >= 200


def test_configs_are_timed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def compile_all(jobs: Any, *rest: Any, **named: Any) -> list[str]:
        return ["too slow", *[""] * (len(jobs) - 1)]

    monkeypatch.setattr(shape_runs, "compile_all", compile_all)
    monkeypatch.setattr(shape_runs, "BEST", 2)
    monkeypatch.setattr(shape_runs, "OTHERS", 1)
    machine = FakeMachine()
    machine.seconds = [3e-3, 2e-3]
    chosen = choose_configs([(8, 12, 16)], H200, calibrate=True)
    timed = time_shapes(chosen[:1], machine, tell=lambda line: None)
    (shape,) = timed.shapes
    us = [it.us for it in shape.configs]
    assert (us[:3], shape.configs[0].note) == ([None, 3e3, 2e3], "too slow")
    assert (shape.ratio, shape.peer_us) == (None, 1e3)
    write_set(tmp_path / "set.json", timed)
    assert read_set(tmp_path / "set.json") == timed
    tiles = list_tiles(4)
    assert [it.us for it in list_times(timed.shapes, tiles)] == us[1:]


def test_the_fit_finds_what_times_were_made_with():
    """Times of a model whose launch, slices and rates are other ones."""
    known = read_costs("matmul").costs.scale(H200)
    tiles = [guess_rates(tile.rate) for tile in list_tiles(4)[::9]]
    true = vars(known) | {"launch_us": 9.0, "sums_us": 5.0}
    made = type(known)(**true)
    rates = [tile._replace(rate=tile.rate * 0.7, crowded=tile.crowded * 0.8) for tile in tiles]
    shapes = [Product(*shape, 4) for shape in islice(draw_shapes(5), 24)]
    times = [
        TimedTile(shape, place, parts, estimate(shape, rates[place], parts, made).us)
        for shape in shapes
        for place in range(len(tiles))
        for parts in (1, 4)
    ]
    fit = fit_costs(known, tiles, times)
    assert fit.typical < 0.03
    assert 8 < fit.costs.launch_us < 10
    few = times[::4]
    left_out = predict_left_out(known, tiles, few, folds=2)
    assert measure_error([(it.us, us) for it, us in zip(few, left_out, strict=True)]) < 0.3
    assert 0 <= measure_loss(few, left_out) < 0.3
