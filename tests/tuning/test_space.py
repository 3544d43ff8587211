"""The configs of a recipe: which there are, what the recipe makes of them, and why it refuses."""

from typing import Any

import pytest
import tuned_programs
from tvm.ir import assert_structural_equal

from tirstep.modules import get_kernel
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES, find_recipe
from tirstep.tuning.space import RecipeSpace, read_choices, read_fixed, unrank

TILED = find_recipe("matmul_tiled")
MODULE = get_kernel("matmul").problem(64, 48, 32).module


def make_space(recipe: Any = TILED, **config: object) -> RecipeSpace:
    return RecipeSpace(recipe, dict(config), read_choices(recipe, {}, config))


def test_a_candidate_is_what_the_recipe_makes_of_its_decisions() -> None:
    space = make_space()
    sizes = {name: len(values) for name, values in space.choices.items()}
    for place in range(6):
        decisions = unrank(sizes, place)
        config = space.get_config(decisions)
        assert space.find_decisions(config) == decisions
        sch, reason = space.schedule(MODULE, decisions)
        if reason:
            with pytest.raises(TransformError):
                TILED.steps(MODULE, **config)
        else:
            assert_structural_equal(sch.mod, TILED.steps(MODULE, **config)[-1].module)
    assert space.find_decisions({**config, "rows": 7}) is None


def test_a_refused_config_is_counted() -> None:
    space = make_space(tuned_programs.never_fits)
    module = tuned_programs.twice_plus_one.problem(n=64).module
    _, reason = space.schedule(module, {"inner": 1})
    assert reason.startswith("refused: split_loop: loop 'i' runs 64 times")
    assert space.refused == {"refused by split_loop": 1}


def test_a_recipes_own_value_is_one_of_its_choices() -> None:
    assert make_space(tuned_programs.folded).choices == {"inner": (4, 2, 8, 24), "fold": (1, 2)}
    assert read_choices(tuned_programs.folded, {"inner": (2, 8)}, {"fold": 1}) == {"inner": (2, 8)}


def test_what_is_no_choice_is_as_in_the_recipes_example() -> None:
    """It takes 8 elements a thread, which divide nothing here, and guards its tail."""
    recipe = find_recipe("gelu_persistent")
    choices = read_choices(recipe, {}, {"blocks": 264})
    fixed = read_fixed(recipe, choices, {"blocks": 264})
    assert fixed == {"tail": "guard", "blocks": 264}
    space = RecipeSpace(recipe, fixed, choices)
    module = get_kernel("gelu").problem(1000).module
    assert space.schedule(module, dict.fromkeys(choices, 0))[1] == ""
    assert read_fixed(tuned_programs.folded, {}, {"inner": 2}) == {"inner": 2}


def test_the_choices_of_every_recipe_are_read() -> None:
    for recipe in RECIPES.values():
        if recipe.choices:
            assert {*make_space(recipe).choices} == {*recipe.choices}


@pytest.mark.parametrize(
    ("recipe", "among", "config", "sentence"),
    [
        (tuned_programs.without_choices, {}, {}, "without_choices declares no choices, so there"),
        (tuned_programs.never_fits, {}, {"inner": 4}, "never_fits has no choice left"),
        (tuned_programs.folded, {"inner": ()}, {}, "'inner' has no value"),
        (tuned_programs.folded, {}, {"outer": 4}, "there is no size 'outer'; it has inner, fold"),
        (tuned_programs.folded, {"outer": (1,)}, {}, "there is no size 'outer'"),
    ],
)
def test_wrong_use_is_a_sentence(recipe: Any, among: Any, config: Any, sentence: str) -> None:
    with pytest.raises(TransformError, match=sentence):
        read_choices(recipe, among, config)
