"""What is chosen for products by wgmma: that it fits, that it is right, and where blocks stay."""

from dataclasses import replace
from typing import Any

import pytest
from golden_runs import require_right
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import DataType

from tirstep.lowering_checks import run_recipe
from tirstep.transforms.gpu_limits import MAX_SHARED_BYTES
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.matmul_best import choose_for, rank_wgmma, rank_wgmma_gathered
from tirstep.transforms.recipes.time_model import H200, Product

HALF = {"dtype": "bfloat16", "out": "bfloat16"}
INT8 = {"dtype": "int8", "out": "int32", "transpose_b": True}
FLOAT8 = {"dtype": "float8_e4m3fn", "acc": "fp22", "out": "float32", "transpose_b": True}
LAST = RECIPES["matmul_wgmma_persistent"]
BY_WGMMA = {"tensorized", "stored_by_tma", "warps_specialized", "blocks_stay"}


def choose(*shape: int, batch: int = 1, size: int = 2, stored: int = 2) -> Any:
    return rank_wgmma(Product(*shape, size, batch, stored), H200)[0].config


def test_blocks_stay_for_many_tiles_of_a_short_k():
    config = choose(8192, 8192, 128)
    assert config.persistent in (132, 264)
    assert (config.copies, config.roles, config.store) == ("tma", True, "tma")
    assert choose(512, 512, 64, batch=128).tile_k == 32  # one step has no pipeline
    assert choose(8192, 8192, 32).persistent == 0
    assert choose(8192, 8193, 128).persistent == 0  # rows that the TMA cannot write


def test_few_tiles_of_a_long_k_are_cut_and_no_block_stays_for_slices():
    assert choose(64, 64, 30000).split_k > 16
    for it in rank_wgmma(Product(64, 64, 30000, 2, 1, 2), H200):
        assert it.choice.parts == 1 or not it.config.persistent
    assert choose(1152, 1152, 4096).copies == "tma"


def test_stages_lie_beside_a_result():
    for stored in (2, 4):
        for shape in ((8192, 8192, 128), (8192, 8192, 8192), (4096, 64, 4096)):
            for it in rank_wgmma(Product(*shape, 2, 1, stored), H200):
                config = it.config
                if config.persistent:
                    stages = sum(config.tile) * config.tile_k * 2 * config.stages
                    row = config.tile[1] * stored
                    blocks = config.persistent // 132
                    if blocks == 1 and row % 256 == 0:  # two slabs of 128 bytes are enough
                        row = min(row, 256)
                    least = config.tile[0] * row
                    assert blocks * (stages + least) <= MAX_SHARED_BYTES["shared.dyn"]


def test_int8_has_no_roles_whose_products_ptxas_serializes():
    for it in rank_wgmma(Product(4096, 4096, 4096, 1, 1, 4), H200):
        config = it.config
        assert config.persistent or not config.roles or config.tile[0] == 64


def test_elements_of_half_the_bytes_take_half_as_long():
    narrow, wide = (rank_wgmma(Product(*[8192] * 3, size, 1, 2), H200)[0] for size in (1, 2))
    assert narrow.choice.us == pytest.approx(wide.choice.us / 2, rel=0.1)


@pytest.mark.parametrize(
    ("narrows", "times"), [(False, 1.1), (True, 1.9)], ids=["product", "image"]
)
def test_rows_across_lines_take_more(narrows: bool, times: float):
    """Of 6000 bytes, of which a tile's 128 lie in two lines of the L2 cache each."""
    astride, whole = (
        [
            it.choice.memory
            for it in rank_wgmma(Product(3000, 3072, size, 2, pitch=size), H200, narrows=narrows)
            if it.config.tile == (64, 64) and it.config.split_k == 1
        ]
        for size in (3000, 3072)
    )
    assert min(astride) > times * min(whole)


def test_threads_gather():
    for it in rank_wgmma_gathered(Product(8192, 8192, 128, 2), H200):
        assert (it.config.copies, it.config.roles, it.config.persistent) == ("threads", False, 0)
    recipe = RECIPES["conv2d_wgmma_best"]
    shape = {**recipe.default_example.shape, "co": 60}  # rows that the TMA does not store
    names = [step.name for step in run_recipe(recipe, shape, options=HALF).steps]
    assert not {"stored_by_tma", "next_tiles_by_tma", "blocks_stay"} & {*names}


@settings(max_examples=max(4, settings.default.max_examples // 3))
@given(
    st.tuples(*[st.integers(9, 5000)] * 3),
    st.sampled_from([HALF, {"dtype": "bfloat16"}, INT8, FLOAT8, {"dtype": "tf32"}]),
    st.booleans(),
)
def test_what_is_chosen_is_accepted(shape: tuple[int, ...], options: dict, whole: bool):
    if whole:
        shape = tuple(-(-size // 64) * 64 for size in shape)
    sizes = dict(zip("mnk", shape, strict=True))
    run = run_recipe(RECIPES["matmul_wgmma_best"], sizes, options=options)
    if run.steps[-1].name not in BY_WGMMA:  # other ladders, for odd rows alone
        assert sizes["n"] % 8 or sizes["k"] % 8
        assert "tiled" in [step.name for step in run.steps]


@pytest.mark.share(2)
def test_what_stays_is_right():
    """On a GPU of two multiprocessors, which have several tiles each."""
    shape = 200, 392, 72
    ranked = rank_wgmma(Product(*shape, 2, 1, 2), replace(H200, multiprocessors=2))
    config = {**vars(next(it.config for it in ranked if it.config.persistent)), "tail": "pad"}
    run = run_recipe(LAST, dict(zip("mnk", shape, strict=True)), options=HALF, config=config)
    assert run.steps[-1].name == "blocks_stay"
    require_right(run)


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        # Tiles divide, and slices of k do not.
        ((64, 64, 1408), "bfloat16", {"split_k": 24, "tile_k": 64, "tail": "pad"}),
        # B is transposed by a kernel before: a tile that divides comes before faster ones.
        ((1088, 1088, 1024), "int8", {"tile": (64, 64), "tail": "refuse"}),
        # Of so few rows in tiles, which threads copy.
        ((256, 1088, 1024), "int8", {"copies": "threads", "transpose": "tile"}),
    ],
)
def test_what_is_chosen_where_something_does_not_divide_or_is_transposed(shape, dtype, expected):
    operand, stored = DataType(dtype), 2 if dtype == "bfloat16" else 4
    product = Product(*shape, operand.itemsize, 1, stored, operand, across_k=True)
    chosen = choose_for(product, "wgmma", H200)
    assert {name: getattr(chosen.config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("n", "out", "config"),
    [
        # Shared memory has no room for sums beside the stages: they are stored from registers.
        (512, "float32", {"tile": (128, 256), "stages": 4, "store": "shared"}),
        # Rows of 1000 bytes, which the TMA does not address.
        (500, "bfloat16", {"tile": (64, 64), "stages": 3, "store": "tma", "tail": "pad"}),
    ],
)
def test_where_a_result_is_stored_from(n: int, out: str, config: dict):
    options = {"dtype": "bfloat16", "out": out}
    config = {**config, "persistent": 2}
    run = run_recipe(LAST, {"m": 256, "n": n, "k": 512}, options=options, config=config)
    names = [step.name for step in run.steps]
    assert ("stored_by_tma" in names, names[-1]) == (False, "blocks_stay")
