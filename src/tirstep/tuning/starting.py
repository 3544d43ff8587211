"""Where a tuning starts: configs of its space that a search, or a model of time, has found fast."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping

from tvm.s_tir import Schedule

from tirstep.modules import AnyProblem
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.recipes.forecast import Forecast, make_forecast
from tirstep.transforms.recipes.gemm import GemmConfig
from tirstep.transforms.recipes.gemm_best import choose_config
from tirstep.transforms.recipes.gpus import GPUS, H200

from .proposing import Decisions
from .space import Choices, Config, RecipeSpace

OWN = 5
"""Configs that a model of time would choose by itself."""
DRAWN, EXPECTED = 2048, 60
"""Configs of the space that the model looks at, and how many of these are tried first."""


def list_promising(
    recipe: Recipe,
    problem: AnyProblem,
    fixed: Config,
    choices: Choices,
    *,
    device: str,
    seed: int = 0,
) -> list[Decisions]:
    """What to try first on a GPU, by its name: none for recipes without a model of time.

    First what the recipe with "best" in its name chooses there and what its model has next, as far
    as the space has them; then those of the space, or of some drawn from it, that the model takes
    for the fastest. A GPU that is in no table is taken for an H200.
    """
    forecast = make_forecast(recipe, problem, GPUS.get(device, H200))
    if forecast is None:
        return []
    known = [*_choose(forecast, problem), *forecast.list_best(OWN)]
    found = [find_decisions({**recipe.config, **it}, recipe, fixed, choices) for it in known]
    sizes, dice = [len(values) for values in choices.values()], random.Random(seed)
    total = math.prod(sizes)
    places = range(total) if total <= DRAWN else dice.sample(range(total), DRAWN)
    space = [_unrank(place, choices) for place in places]
    own = RecipeSpace(recipe, fixed, choices)
    expected = {id(it): forecast.predict(own.get_config(it)) for it in space}
    space.sort(key=lambda it: expected[id(it)])
    found += space[:EXPECTED]
    return [it for at, it in enumerate(found) if it is not None and it not in found[:at]]


def _choose(forecast: Forecast, problem: AnyProblem) -> list[Config]:
    """What the recipe "matmul_best" runs, which searches know more of than the model does."""
    if forecast.recipe.kernel_name != "matmul" or forecast.recipe.family.config is not GemmConfig:
        return []
    try:
        return [dict(vars(choose_config(Schedule(problem.module), forecast.gpu.name)))]
    except TransformError:  # of a product that no tile is for
        return []


def _unrank(place: int, choices: Choices) -> Decisions:
    """The decisions at a place of the space."""
    decisions: Decisions = {}
    for name, values in choices.items():
        place, decisions[name] = divmod(place, len(values))
    return decisions


def find_decisions(
    config: Mapping[str, object], recipe: Recipe, fixed: Config, choices: Choices
) -> Decisions | None:
    """The decisions that make a config; None where the space has it not."""
    rest = {**recipe.config, **fixed}
    decisions: Decisions = {}
    for name, value in config.items():
        if name not in choices:
            if _spell(value) != _spell(rest.get(name)):
                return None
            continue
        spelt = [_spell(each) for each in choices[name]]
        if _spell(value) not in spelt:
            return None
        decisions[name] = spelt.index(_spell(value))
    return {name: decisions[name] for name in choices} if len(decisions) == len(choices) else None


def _spell(value: object) -> str:
    return json.dumps(value)
