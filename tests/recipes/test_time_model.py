"""The model of time: what it chooses, from how many, and that it can be scheduled."""

import math
from dataclasses import replace
from typing import Any

import pytest
from golden_runs import require_right
from hypothesis import given, settings
from hypothesis import strategies as st

from tirstep.lowering_checks import run_recipe
from tirstep.modules import get_kernel
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.matmul_best import (
    describe_tile,
    keep_tiles,
    list_tiles,
    make_forecast,
    rank_gemm,
)
from tirstep.transforms.recipes.time_model import (
    GPUS,
    H200,
    Product,
    TileRate,
    estimate,
    read_costs,
    read_gpu,
)

SPLIT = RECIPES["matmul_split_k"]
SIZES = st.one_of(st.integers(1, 50), st.just(64))


def choose(m: int, n: int, k: int, device: str = "NVIDIA H200"):
    return rank_gemm(Product(m, n, k, 4), read_gpu(device))[0]


@settings(max_examples=3 * settings.default.max_examples // 5)
@given(st.tuples(SIZES, SIZES, st.integers(1, 100)))
def test_what_is_chosen_is_right(shape: tuple[int, int, int]):
    config = vars(choose(*shape).config)
    run = run_recipe(SPLIT, dict(zip("mnk", shape, strict=True)), config=config)
    require_right(run)


def test_few_tiles_take_many_slices():
    assert choose(16, 16, 16384).choice.parts > 32
    assert choose(4096, 4096, 4096).choice.parts == 1
    tiles = choose(320, 320, 12928).choice.tiles
    assert 100 < tiles < 1000


def test_any_config_has_the_rates_of_the_tile_that_is_most_like_it():
    problem = get_kernel("matmul").problem(320, 320, 12928)
    forecast = make_forecast(SPLIT, problem, H200)
    assert forecast is not None
    ranked, times = rank_gemm(forecast.product, H200), dict[Any, list[float]]()
    for config, choice in ranked:  # some differ in no more than the order of their loops
        alike = describe_tile(config, 4), config.split_k
        times.setdefault(alike, []).append(choice.us)
    best = keep_tiles(ranked)
    for config, _ in best[:: len(best) // 5]:
        alike = times[describe_tile(config, 4), config.split_k]
        assert forecast.predict(vars(config)) in [pytest.approx(us) for us in alike]


def test_what_does_not_divide_is_padded():
    for it in rank_gemm(Product(128, 128, 704, 4), H200):
        multiples = *it.config.tile, it.config.tile_k * it.config.split_k
        divides = all(size % by == 0 for size, by in zip((128, 128, 704), multiples, strict=True))
        assert it.config.tail == ("refuse" if divides else "pad")


def test_few_configs_are_tried_for_a_shape():
    """Each takes some 20 us, and all slices of k would be a hundred times as many."""
    assert count_configs(320, 320, 12928) < 1500
    assert count_configs(1, 1, 1 << 28) == count_configs(1, 1, 1 << 24) < 15000


def count_configs(m: int, n: int, k: int):
    return len(rank_gemm(Product(m, n, k, 4), read_gpu("NVIDIA H200")))


def test_a_gpu_is_its_properties():
    half = choose(4096, 4096, 4096, "multiprocessors=66 gigabytes=2400")
    ratio = half.choice.us / choose(4096, 4096, 4096).choice.us
    assert 1.8 < ratio < 2.2
    assert read_gpu("sm=86 shared_kib=99").shared_bytes == 99 << 10
    assert {gpu.name for gpu in GPUS.values()} == set(GPUS)
    for text, sentence in (("NVIDIA H20", "use 'NVIDIA H200'"), ("cores=7", "'cores=7' is no")):
        with pytest.raises(TransformError, match=sentence):
            read_gpu(text)


def test_a_tile_that_does_not_fit_is_never_chosen():
    tile = TileRate((128, 256), (2, 1), 1.0, 256)
    product, costs = Product(512, 512, 512, 2), read_costs("matmul_mma")
    assert estimate(product, tile, 1, costs).us < math.inf
    small = read_gpu("shared_kib=99")
    assert estimate(product, tile, 1, costs.scale(small)).us == math.inf


def test_tiles_differ():
    """Each tile is there once, and its rates are those of its size."""
    tiles = list_tiles(4)
    assert len({tile.config for tile in tiles}) == len(tiles)
    assert all(tile.config.tile == tile.rate.tile for tile in tiles)


def count_full(threads: int, tiles: int, sharp: float) -> float:
    """The microseconds of so many tiles of each multiprocessor, along a long k."""
    tile = TileRate((64, 64), (4, 8), 0.9, threads, 64, 2, crowded=0.7, is_staged=False)
    product = Product(64 * 132, 64 * tiles, 1 << 14, 4)
    costs = replace(read_costs("matmul_mma"), flops_per_us=1e7, sharp=sharp)
    return estimate(product, tile, 1, costs).us


def test_warps_of_tiles_share_schedulers():
    """Three tiles of two warps leave two of four schedulers half of the time without work."""
    narrow, wide = (
        count_full(threads, 4, math.inf) / count_full(threads, 3, math.inf) for threads in (64, 128)
    )
    assert narrow == pytest.approx(1, rel=0.01)
    assert wide == pytest.approx(4 / 3, rel=0.01)


def test_tiles_slow_each_other_down_before_they_fill_a_multiprocessor():
    alone, together = (count_full(128, 1, sharp) for sharp in (3.0, math.inf))
    assert alone == together
    assert 1.01 < count_full(128, 2, 3.0) / count_full(128, 2, math.inf) < 2 ** (1 / 3)


def test_blocks_that_stay_share_a_multiprocessor():
    """Of four tiles for each, two blocks have two waves, each of which takes twice as long."""
    tile, product = TileRate((64, 64), (1, 1), 1.0, 128), Product(64 * 132 * 4, 64, 1 << 14, 2)
    one, two = (
        estimate(product, tile._replace(stays=stays), 1, read_costs("matmul_wgmma"))
        for stays in (1, 2)
    )
    assert (one.waves, two.waves) == (4, 2)
    assert two.compute == pytest.approx(one.compute, rel=0.05)
