"""The configs of a recipe: which there are, what the recipe makes of them, and why it refuses."""

from typing import Any

import pytest
import tuned_programs
from inline_workers import make_plan
from tvm.ir import assert_structural_equal

from tirstep.modules import get_kernel
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES, find_recipe
from tirstep.tuning.tuner import schedule

TILED = find_recipe("matmul_tiled")
MATMUL, TWICE = get_kernel("matmul").problem(64, 48, 32), tuned_programs.twice_plus_one.problem(64)


def test_a_candidate_is_what_the_recipe_makes_of_a_config() -> None:
    plan = make_plan(TILED, MATMUL)
    for config in plan.list_configs(None, 0)[:6]:
        assert plan.find_config(config) == config
        sch, reason = schedule(TILED, MATMUL.module, config)
        if reason:
            with pytest.raises(TransformError):
                TILED.steps(MATMUL.module, **config)
        else:
            assert_structural_equal(sch.mod, TILED.steps(MATMUL.module, **config)[-1].module)
    assert plan.find_config({**config, "rows": 7}) is None


def test_a_recipes_own_value_is_one_of_its_choices() -> None:
    folded = tuned_programs.folded
    assert make_plan(folded, TWICE).among == {"inner": (4, 2, 8, 24), "fold": (1, 2)}
    plan = make_plan(folded, TWICE, among={"inner": (2, 8)}, fixed={"fold": 1})
    assert (plan.among, plan.fixed) == ({"inner": (2, 8)}, {"fold": 1})


def test_what_is_no_choice_is_as_in_the_recipes_example() -> None:
    """Its 1031 outputs divide among no threads, and it guards its tail."""
    recipe, conv1d = find_recipe("conv1d_threads_2d"), get_kernel("conv1d").problem(1000, 32)
    plan = make_plan(recipe, conv1d, fixed={"rows": 4})
    assert plan.fixed == {"tail": "guard", "rows": 4}
    own = plan.list_configs(1, 0)[0]
    assert schedule(recipe, conv1d.module, own)[1] == ""


def test_the_choices_of_every_recipe_are_read() -> None:
    for recipe in RECIPES.values():
        if recipe.choices:
            assert {*make_plan(recipe, None).among} == {*recipe.choices}


@pytest.mark.parametrize(
    ("recipe", "config"),
    [(tuned_programs.without_choices, {}), (tuned_programs.never_fits, {"inner": 4})],
)
def test_nothing_to_choose_is_a_sentence(recipe: Any, config: Any) -> None:
    with pytest.raises(TransformError, match="has no knob left to choose, so there is nothing"):
        make_plan(recipe, TWICE, fixed=config)
