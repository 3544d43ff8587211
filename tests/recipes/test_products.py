"""Batches of products, and products with a bias and a function, on the simulator and on a GPU."""

import pytest
from golden_runs import DEVICES, require_right, run_golden

from tirstep.lowering_checks import run_recipe
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.matmul_best import PRODUCTS
from tirstep.transforms.recipes.time_model import Product, TileRate, estimate, read_costs

NAMES = [recipe.name for ladder in PRODUCTS for recipe in ladder]


@pytest.mark.share(3)
@DEVICES
@pytest.mark.parametrize("name", NAMES)
def test_numbers_at_the_golden_example(name: str, device: str) -> None:
    require_right(run_golden(RECIPES[name]), device)


@pytest.mark.share(4)
@DEVICES
@pytest.mark.parametrize(
    ("name", "options", "config"),
    [
        ("batched_matmul_mma_best", {"dtype": "int8", "transpose_b": True, "out": "int32"}, {}),
        ("batched_matmul_wgmma_best", {"transpose_b": True, "out": "bfloat16"}, {}),
        ("batched_matmul_wgmma", {}, {"tail": "pad", "tile": (64, 32), "split_k": 2}),
        ("matmul_bias_relu_mma_best", {"acc": "float16", "dtype": "float16", "out": "float16"}, {}),
        ("matmul_bias_gelu_wgmma_best", {"out": "bfloat16"}, {}),
    ],
    ids=str,
)
def test_no_size_divides(name: str, options: dict, config: dict, device: str) -> None:
    recipe = RECIPES[name]
    wanted = {"batch": 3, "m": 37, "n": 40, "k": 136}
    shape = {size: wanted[size] for size in get_kernel(recipe.kernel).size_names}
    options = {"dtype": "bfloat16", **options}
    require_right(run_recipe(recipe, shape, options=options, config=config), device)


def test_the_tiles_of_a_batch_are_counted_together():
    rates = [TileRate((128, 256), (2, 1), 1.0, 256), TileRate((64, 64), (1, 1), 0.5, 128)]
    costs = read_costs("matmul_mma")
    best = {
        batch: min(
            (
                estimate(Product(512, 512, 4096, 2, batch), rate, parts, costs)
                for rate in rates
                for parts in (1, 4, 16)
            ),
            key=lambda it: it.us,
        )
        for batch in (1, 16)
    }
    assert best[1].rate.tile == (64, 64)
    assert (best[16].rate, best[16].parts) == (rates[0], 1)


def test_operands_of_open_sizes_are_copied() -> None:
    """Whether a copy adds zeros was asked of sizes as numbers, which open ones are not."""
    config = {"threads": (4, 8), "thread_tile": (2, 2), "tile_k": 8, "warp": (4, 8), "tail": "copy"}
    shape = {"batch": 2, "m": 5, "n": 12, "k": 9}
    recipe = RECIPES["batched_matmul_prefetched"]
    require_right(run_recipe(recipe, shape, config=config, symbolic=("m", "k")))
