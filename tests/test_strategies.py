"""What Hypothesis is given to draw: each kind of value that tests rely on can be drawn.

A strategy of whole tiles only would let every test of a tail pass.
"""

import contextlib
import math
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tirstep.modules import get_kernel
from tirstep.strategies.hypothesis_strategies import EXTENT, open_sizes, options, sizes
from tirstep.transforms.recipes import RECIPES, Recipe

ALL = pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
ENOUGH = settings(
    max_examples=2000,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def draw_many(strategy: st.SearchStrategy, count: int = 300) -> list:
    drawn = []
    with_count = settings(ENOUGH, max_examples=count)
    with contextlib.suppress(NoSuchExample):  # nothing is what is looked for
        find(strategy, lambda value: drawn.append(value), settings=with_count)
    return drawn


def draw_until(strategy: st.SearchStrategy, is_enough: Callable[[list], bool], count: int) -> list:
    """As many as are enough, of 8 and four times as many, up to `count`."""
    few = 8
    while few < count and not is_enough(drawn := draw_many(strategy, few)):
        few *= 4
    return drawn if few < count else draw_many(strategy, count)


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def test_extents_are_one_primes_multiples_and_none_of_32():
    drawn = set(draw_many(EXTENT))
    assert 1 in drawn
    assert len([extent for extent in drawn if is_prime(extent) and extent > 4]) >= 4
    assert len([extent for extent in drawn if extent % 8 == 0]) >= 6
    assert len([extent for extent in drawn if extent % 8 == 0 and extent % 32]) >= 4
    # Below, at and above the sizes of tiles, warps and rows of banks.
    for tile in (4, 8, 16, 32):
        assert {extent % tile == 0 for extent in drawn} == {False, True}
        assert {extent < tile for extent in drawn} == {False, True}


def test_every_option_of_a_kernel_is_drawn():
    for recipe in {recipe.kernel: recipe for recipe in RECIPES.values()}.values():
        kernel = get_kernel(recipe.kernel)
        drawn = draw_many(options(recipe))
        assert {option["dtype"] for option in drawn} == set(kernel.dtypes)
        on_cpu = {option["dtype"] for option in draw_many(options(recipe, "cpu"))}
        assert on_cpu == {dtype for dtype in kernel.dtypes if not dtype.startswith("float8")}
        if "transpose_b" in kernel.options:
            assert {option["transpose_b"] for option in drawn} == {False, True}
        if "acc" in kernel.options and "float16" in kernel.dtypes:
            known = kernel.meaning.accumulators["float16"]
            assert {option.get("acc") for option in drawn} == {None, "float32", *known}
        if "C C_cast" in recipe.blocks:
            assert len({option.get("out") for option in drawn}) > 2


@pytest.mark.share(2)
@ALL
def test_every_tail_and_most_sizes_of_a_recipe_are_drawn(recipe: Recipe):
    few = {name: min(len(set(choices)), 2) for name, choices in recipe.choices.items()}

    def find_missing(drawn: list[dict]) -> list[str]:
        seen = {name: {config[name] for config in drawn if name in config} for name in few}
        return [name for name, count in few.items() if len(seen[name]) < count]

    def find_tails(drawn: list[dict]) -> set[str]:
        return {config["tail"] for config in drawn if "tail" in config}

    tails = set(recipe.tails) - {"refuse"}
    drawn = draw_until(
        sizes(recipe), lambda drawn: find_tails(drawn) == tails and not find_missing(drawn), 100
    )
    assert drawn
    assert find_tails(drawn) == tails
    assert find_missing(drawn) == []


def test_sizes_are_left_open_sometimes():
    recipes = [recipe for recipe in RECIPES.values() if recipe.symbolic]
    assert recipes
    for recipe in recipes[:5]:
        drawn = draw_many(open_sizes(recipe), 60)
        assert {bool(names) for names in drawn} == {False, True}
        assert {name for names in drawn for name in names} == set(recipe.symbolic)
