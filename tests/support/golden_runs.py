"""The runs of recipes at their golden and default examples, each made once in a process and shared.

Nothing changes a run, whose modules TVM shares anyway.
"""

import functools

from tirstep import lowering_checks
from tirstep.lowering_checks import Run
from tirstep.transforms.recipes import RECIPES, Recipe


@functools.cache
def _make_golden(name: str) -> Run:
    return lowering_checks.run_golden(RECIPES[name])


@functools.lru_cache(maxsize=16)  # of large modules
def _make_default(name: str) -> Run:
    return lowering_checks.run_default_example(RECIPES[name])


def run_golden(recipe: Recipe) -> Run:
    """The run of a recipe at its golden example; of recipes beside `RECIPES`, a new one."""
    if RECIPES.get(recipe.name) is recipe:
        return _make_golden(recipe.name)
    return lowering_checks.run_golden(recipe)


def run_default_example(recipe: Recipe) -> Run:
    """The same at its default example."""
    if RECIPES.get(recipe.name) is recipe:
        return _make_default(recipe.name)
    return lowering_checks.run_default_example(recipe)
