"""The recipes, and the ladders that put the recipes of one kernel in order, slow to fast."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from ..schedule import TransformError
from . import (
    attention,
    attention_mma,
    attention_wgmma,
    conv1d,
    conv2d,
    decoding,
    depthwise_conv2d,
    element_ladders,
    fused_chains,
    matmul_best,
    matmul_tutorials,
    row_ladders,
)
from .recipe import Example as Example
from .recipe import Recipe as Recipe
from .recipe import Step as Step
from .recipe import recipe as recipe
from .rungs import Ladder as Ladder
from .rungs import Rung as Rung

_MODULES = (
    element_ladders,
    row_ladders,
    matmul_tutorials,
    matmul_best,
    conv1d,
    depthwise_conv2d,
    conv2d,
    fused_chains,
    attention_mma,
    attention_wgmma,
    attention,  # the last of its kernel: its recipes are for all
    decoding,
)
LADDERS: Mapping[str, Ladder] = MappingProxyType(
    {ladder.name: ladder for module in _MODULES for ladder in module.LADDERS}
)
"""By name: a kernel's fast ladder has the kernel's name, a tutorial's one of its own."""
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {recipe.name: recipe for ladder in LADDERS.values() for recipe in ladder}
)


def list_ladders(kernel: str) -> list[Ladder]:
    """The ladders of a kernel, tutorials first; none of a kernel without recipes."""
    return [ladder for ladder in LADDERS.values() if ladder.kernel == kernel]


def find_recipe(name: str) -> Recipe:
    """The recipe of a name; an unknown one is refused with the nearest names."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(RECIPES)}"
    raise TransformError("find_recipe", f"there is no recipe '{name}'", hint)
