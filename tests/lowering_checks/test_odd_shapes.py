"""Each recipe is run at a shape that no tile divides, and a tail that is wrong is found there."""

import dataclasses

import pytest

from tirstep.lowering_checks import find_device, run_golden, run_recipe
from tirstep.lowering_checks.odd_shapes import find_odd_run, judge_odd_shape
from tirstep.transforms.recipes import RECIPES

CPU = find_device("cpu")


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_every_recipe_takes_an_odd_shape(recipe) -> None:
    odd = find_odd_run(run_golden(recipe))
    assert odd is not None
    changed = {
        name: size for name, size in odd.problem.sizes.items() if size != recipe.golden.shape[name]
    }
    # Not the filter of a convolution of images, which is odd already.
    assert len(changed) >= len(recipe.golden.shape) - (recipe.kernel == "depthwise_conv2d")
    assert all(size % 2 for size in changed.values())
    assert odd.sizes.get("tail", "guard") in ("guard", "pad")


def test_remainders_are_one_and_others() -> None:
    odd = find_odd_run(run_golden(RECIPES["matmul_shared"]))
    assert dict(odd.problem.sizes) == {"m": 67, "n": 53, "k": 33}


def test_without_a_tail_some_extents_change_alone() -> None:
    """A recipe that takes whole tiles of its rows, and any columns."""
    recipe = RECIPES["transpose_naive"]
    run = run_golden(recipe)
    whole = dataclasses.replace(run, sizes={**run.sizes, "tail": "refuse"})
    assert find_odd_run(whole) is None
    fixed = run_recipe(RECIPES["matmul_rows_on_blocks"], {"m": 8, "n": 8, "k": 8})
    assert dict(find_odd_run(fixed).problem.sizes) == {"m": 67, "n": 53, "k": 33}


def test_a_verdict_says_where_and_with_which_tail() -> None:
    run = run_golden(RECIPES["matmul_threads_1d"])
    verdict = judge_odd_shape(run, CPU, seed=3)
    assert (verdict.findings, verdict.checked_on) == ((), "cpu 67x53x33 tail=guard")
    float8 = run_recipe(
        RECIPES["transpose_naive"],
        {"m": 32, "n": 24},
        options={"dtype": "float8_e4m3fn"},
        sizes=run_golden(RECIPES["transpose_naive"]).sizes,
    )
    assert judge_odd_shape(float8, CPU) is None  # no device computes it
    assert judge_odd_shape(float8, find_device("simulator")).findings == ()
