"""conv2d on tensor cores: windows gathered as they are copied, on the simulator and on a GPU."""

import numpy as np
import pytest
from golden_runs import DEVICES, require_right

from tirstep.lowering_checks import run_recipe
from tirstep.modules import KernelError, conv2d
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES

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
