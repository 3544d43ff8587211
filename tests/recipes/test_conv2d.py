"""conv2d on tensor cores: windows gathered as they are copied, on the simulator and on a GPU."""

import numpy as np
import pytest
from golden_runs import DEVICES, require_right
from tvm.s_tir import Schedule

from tirstep.lowering_checks import run_recipe
from tirstep.modules import KernelError, conv2d
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.conv2d import choose_config
from tirstep.transforms.recipes.time_model import H200

SIZES = ("n", "h", "w", "ci", "co", "kh", "kw")


BFLOAT16 = {"dtype": "bfloat16", "out": "bfloat16"}


@pytest.mark.share(4)
@DEVICES
@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        # Rows that end within a tile, a rim wider than the window, steps and gaps.
        ("wgmma_best", (2, 9, 7, 16, 24, 3, 2), {"stride": 2, "padding": 3, "dilation": 2}),
        # Three channels: a kernel of its own writes the windows.
        ("wgmma_best", (1, 5, 6, 3, 5, 3, 3), {"padding": 1}),
        # One image, and a window of one pixel.
        ("wgmma_best", (1, 4, 3, 2, 3, 1, 1), {}),
        ("wgmma_best", (2, 4, 4, 32, 8, 1, 1), {"dtype": "int8", "out": "int32"}),
        ("mma", (1, 5, 6, 8, 20, 2, 3), {"padding": 1, "dtype": "float16", "out": "float16"}),
        ("naive", (1, 5, 6, 3, 4, 2, 3), {"dtype": "float32", "out": "float32"}),
        ("naive", (2, 5, 6, 3, 4, 2, 3), {"padding": 1, "stride": 2, "out": "bfloat16"}),
    ],
    ids=str,
)
def test_other_windows(name: str, shape: tuple, options: dict, device: str) -> None:
    recipe = RECIPES[f"conv2d_{name}"]
    config = recipe.golden.config
    sizes = dict(zip(SIZES, shape, strict=True))
    # Without what the example has besides.
    chosen = {**BFLOAT16, "padding": 0, "stride": 1, **options}
    require_right(run_recipe(recipe, sizes, options=chosen, config=config), device)


SMALL_TILE = {"tile": (64, 32), "warpgroups": (1, 1), "tile_k": 32, "stages": 3}


@pytest.mark.share(4)
@DEVICES
@pytest.mark.parametrize(
    ("shape", "options", "config"),
    [
        ((3, 9, 7, 24, 40, 3, 2), {"stride": 2, "padding": 2}, {}),
        ((2, 6, 11, 8, 16, 2, 3), {"dilation": 3, "stride": 3, "padding": 4}, {"split_k": 2}),
        # Three channels, and rows of whole lines: copies that go through the TMA.
        ((1, 9, 9, 3, 8, 3, 3), {"padding": 1}, {"tail": "copy"}),
        ((2, 5, 5, 72, 48, 3, 3), {}, {"tail": "copy", "tile_k": 64, "tile": (64, 48)}),
        ((4, 7, 6, 40, 24, 3, 3), {"padding": 1}, {"persistent": 2, "tile": (128, 32)}),
        ((2, 7, 7, 64, 16, 1, 1), {"stride": 2, "dtype": "int8", "out": "int32"}, {"roles": False}),
        ((1, 8, 8, 16, 32, 3, 3), {"dtype": "float16", "out": "float32"}, {"swizzle": 1}),
    ],
    ids=str,
)
def test_rectangles_by_the_tma(shape: tuple, options: dict, config: dict, device: str) -> None:
    chosen = {**BFLOAT16, "padding": 0, "stride": 1, **options}
    sizes = dict(zip(SIZES, shape, strict=True))
    run = run_recipe(
        RECIPES["conv2d_wgmma_tma"], sizes, options=chosen, config={**SMALL_TILE, **config}
    )
    assert "next_tiles_by_tma" in [step.name for step in run.steps]
    require_right(run, device)


def test_lines_are_copied_where_that_pays() -> None:
    """Of 616 channels, whose rows lie across lines, and not of 640, nor where tiles are few."""
    shape = {"n": 16, "h": 35, "w": 35, "ci": 616, "co": 560, "kh": 3, "kw": 3}
    wanted = ((shape, "copy"), ({**shape, "ci": 640}, "refuse"), ({**shape, "n": 1}, "refuse"))
    for sizes, tail in wanted:
        module = conv2d.problem(**sizes, **BFLOAT16, padding=1).module
        assert choose_config(Schedule(module), H200).tail == tail, sizes


def test_the_reference_is_the_sum_that_the_kernel_describes():
    problem = conv2d.problem(1, 4, 5, 2, 3, 2, 3, stride=2, padding=1, dilation=2)
    images, filters = problem.integer_inputs(0)
    (result,) = problem.reference([images, filters])
    assert result.shape == (1, 2, 2, 3)
    expected = np.zeros_like(result)
    for _, y, x, o in np.ndindex(*result.shape):
        for i, j in np.ndindex(2, 3):
            row, column = 2 * y + 2 * i - 1, 2 * x + 2 * j - 1
            if 0 <= row < 4 and 0 <= column < 5:
                expected[0, y, x, o] += images[0, row, column] @ filters[o, i, j]
    np.testing.assert_array_equal(result, expected)


def test_a_window_larger_than_the_image_is_refused():
    with pytest.raises(KernelError, match=r"a window of 3x3 .* is larger than the image of 2x8"):
        conv2d(1, 2, 8, 4, 4, 3, 3)


def test_a_product_of_one_pixel_is_refused():
    sizes = dict(zip(SIZES, (1, 1, 1, 16, 3, 1, 1), strict=True))
    with pytest.raises(TransformError, match="1 by 3 by 16 has a dimension of one element"):
        run_recipe(RECIPES["conv2d_wgmma"], sizes, options={**BFLOAT16, "padding": 0})
