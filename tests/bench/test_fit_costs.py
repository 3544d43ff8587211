"""Drawn shapes, times at them, and the model that is fitted to these."""

import json
import math
from dataclasses import replace
from itertools import islice
from pathlib import Path

import fit_costs
import numpy as np
import pytest
from fake_machine import FakeMachine

from tirstep.bench.cases import MOST_PRODUCTS, PRODUCTS_DRAWN, TEST, draw_shapes
from tirstep.transforms.recipes.matmul_best import keep_tiles, list_tiles, rank_gemm
from tirstep.transforms.recipes.time_model import (
    FILE,
    H200,
    Product,
    estimate,
    read_costs,
    read_table,
)


def test_the_sets_are_always_the_same_and_never_meet():
    assert PRODUCTS_DRAWN[:2] == ((448, 896, 640), (76, 53, 591))
    both = {*PRODUCTS_DRAWN, *fit_costs.draw_calibration()}
    assert len(both) == TEST + fit_costs.CALIBRATION + len(fit_costs.MORE)
    assert max(map(math.prod, both)) <= MOST_PRODUCTS
    some = [*islice(draw_shapes(3), 400)]
    assert sum(all(size % 64 == 0 for size in shape) for shape in some) >= 200


def test_configs_are_timed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fit_costs, "compile_all", lambda jobs, *_, **named: [""] * len(jobs))
    monkeypatch.setattr(fit_costs, "BEST", 2)
    monkeypatch.setattr(fit_costs, "OTHERS", 1)
    machine = FakeMachine()
    machine.seconds = [3e-3, 2e-3]
    chosen = fit_costs.choose_configs([(8, 12, 16)], H200)
    (shape,) = fit_costs.time_shapes(chosen, machine, lambda line: None)
    assert [it.us for it in shape.configs] == [3e3, 2e3, 1e3]
    assert (shape.peer_us, shape.ratio) == (1e3, 1 / 3)
    wrong = fit_costs.TimedConfig(shape.configs[0].config, None, "wrong")
    timed = [shape._replace(configs=(wrong, *shape.configs[1:]))]
    assert timed[0].ratio is None
    fit_costs.write_set(tmp_path / "set.json", timed, machine)
    assert fit_costs.read_set(tmp_path / "set.json") == timed
    assert [it.us for it in fit_costs.list_times(timed, list_tiles(4))] == [2e3, 1e3]


def test_the_fit_finds_what_times_were_made_with(monkeypatch: pytest.MonkeyPatch):
    """Times of a model whose launch, slices and rates are other ones."""
    monkeypatch.setattr(fit_costs, "HELD", {"costs": 1e-4, "rates": 1e-4})
    known = read_costs("matmul")
    tiles = [fit_costs.guess_rates(tile.rate) for tile in list_tiles(4)[::9]]
    true = replace(known, launch_us=6.0, sums_us=3.0)
    rates = [tile._replace(rate=tile.rate * 0.8, crowded=tile.crowded * 0.9) for tile in tiles]
    times = [
        fit_costs.TimedTile(shape, place, parts, estimate(shape, rates[place], parts, true).us)
        for shape in (Product(*sizes, 4) for sizes in islice(draw_shapes(5), 24))
        for place in range(len(tiles))
        for parts in (1, 4)
    ]
    costs, found = fit_costs.fit_costs(known, tiles, times, np.ones(len(times)))
    pairs = [(fit_costs.predict(it, found, costs), it.us) for it in times]
    assert fit_costs.measure_error(pairs) < 0.03
    assert 5.5 < costs.launch_us < 6.5


@pytest.mark.parametrize("faster", [0, 1])
def test_rates_are_varied_while_what_is_chosen_becomes_faster(faster: int):
    """Of two tiles the model expects about the same, and the one that it chooses is slower."""
    known, tiles = read_costs("matmul"), list_tiles(4)
    product, rates = Product(4096, 4096, 4096, 4), [tile.rate for tile in tiles]
    times = [
        fit_costs.TimedTile(product, rates.index(it.rate), it.parts, 100.0 if at == faster else 110)
        for at, (_, it) in enumerate(keep_tiles(rank_gemm(product, known.gpu))[:2])
    ]
    found = fit_costs.fit_choices(known, tiles, rates, times, {product: 1.0})
    expected = [fit_costs.predict(it, found, known) for it in times]
    assert expected[faster] < expected[1 - faster]


def test_the_file_of_costs_is_as_it_is_written():
    names = json.loads(FILE.read_text())
    written = fit_costs.spell_table({name: read_table(name) for name in names})
    assert FILE.read_text() == written
