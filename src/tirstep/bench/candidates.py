"""The configs that a recipe declares worth searching, and a sample of them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from types import MappingProxyType

from tirstep.transforms.recipes import Recipe

from .errors import BenchError

Sizes = dict[str, object]
NONE: Mapping[str, tuple[object, ...]] = MappingProxyType({})

Among = Mapping[str, tuple[object, ...]]
"""Values to choose from, by size: in place of those that a recipe declares."""


def count_candidates(recipe: Recipe, fixed: Sizes, among: Among = NONE) -> int:
    """How many combinations of choices a recipe has beside its `fixed` knobs."""
    choices = {**recipe.choices, **among}
    return math.prod(len(of) for name, of in choices.items() if name not in fixed)


def find_choices(recipe: Recipe, among: Among) -> Among:
    """The values of each size to search; raises `BenchError` for a recipe without any."""
    choices = {**recipe.choices, **among}
    if not choices:
        raise BenchError(f"{recipe.name} declares no choices, so there is nothing to search")
    return choices


def find_candidates(
    recipe: Recipe, fixed: Sizes, among: Among = NONE, *, limit: int | None, seed: int
) -> list[Sizes]:
    """All combinations of a recipe's choices, or `limit` of them at random; each once.

    `fixed` knobs are the same in all of them, and those in `among` have these values in place of
    the recipe's. The config that the recipe has by itself comes first, whether they are among its
    choices or not: what is found is never slower than they. Where `among` has not its own value,
    the first one there is taken. Raises `BenchError` for a recipe without choices.
    """
    choices = find_choices(recipe, among)
    names = [name for name in choices if name not in fixed]
    values = [choices[name] for name in names]
    total = count_candidates(recipe, fixed, among)
    own = {name: recipe.default_example.config.get(name, recipe.config[name]) for name in names}
    own |= {name: of[0] for name, of in among.items() if name in own and own[name] not in of}
    if limit is None or limit >= total:
        picked = [dict(zip(names, one, strict=True)) for one in itertools.product(*values)]
    else:
        places = random.Random(seed).sample(range(total), limit)
        picked = [_unrank(place, names, values) for place in places]
    return _unique([{**config, **fixed} for config in (own, *picked)])


def _unrank(place: int, names: list[str], values: list[tuple[object, ...]]) -> Sizes:
    """The combination at a place of the product, the last size running fastest."""
    config: Sizes = {}
    for name, of in reversed([*zip(names, values, strict=True)]):
        place, rest = divmod(place, len(of))
        config[name] = of[rest]
    return {name: config[name] for name in names}


def _unique(config: list[Sizes]) -> list[Sizes]:
    return [*{tuple(one.items()): one for one in config}.values()]
