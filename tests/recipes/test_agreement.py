"""The simulator and the GPU compute the same bits on integer-valued inputs."""

import numpy as np
import pytest
from drawn_recipes import DRAWN
from golden_runs import run_golden
from hypothesis import given, settings
from hypothesis import strategies as st

from tirstep.lowering_checks import get_device, run_recipe
from tirstep.lowering_checks.devices import run
from tirstep.lowering_checks.steps import Run, make_golden_problem
from tirstep.strategies.hypothesis_strategies import options, shapes, sizes
from tirstep.transforms.recipes import RECIPES, Recipe

pytestmark = pytest.mark.gpu
# An exponential or a root has other bits on a GPU: those are compared within their bounds.
EXACT = [recipe for recipe in RECIPES.values() if make_golden_problem(recipe).is_exact]
ALL = pytest.mark.parametrize("recipe", EXACT, ids=lambda recipe: recipe.name)
OFTEN = pytest.mark.parametrize(
    "recipe", [it for it in EXACT if it in DRAWN], ids=lambda recipe: recipe.name
)


def assert_same_bits(made: Run, seed: int) -> None:
    module, problem = made.steps[-1].module, made.problem
    inputs = problem.integer_inputs(seed)
    ours, theirs = (
        run(get_device(name).compile(module), inputs, problem.outputs)[0]
        for name in ("simulator", "cuda")
    )
    np.testing.assert_array_equal(ours.view(np.uint8), theirs.view(np.uint8))


@ALL
def test_the_simulator_and_the_gpu_agree_on_the_golden_example(recipe: Recipe) -> None:
    assert_same_bits(run_golden(recipe), seed=0)


@OFTEN
@settings(max_examples=5)
@given(data=st.data())
def test_the_simulator_and_the_gpu_agree_at_drawn_shapes(
    recipe: Recipe, data: st.DataObject
) -> None:
    made = run_recipe(
        recipe,
        data.draw(shapes(recipe, "simulator")),
        options=data.draw(options(recipe)),
        config=data.draw(sizes(recipe)),
    )
    assert_same_bits(made, seed=data.draw(st.integers(0, 1000)))
