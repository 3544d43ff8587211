"""The runs of recipes at their golden examples, each made once in a process and then shared."""

import functools

from tirstep.lowering_checks import Run, run_golden
from tirstep.transforms.recipes import RECIPES, Recipe


@functools.cache
def _make(name: str) -> Run:
    return run_golden(RECIPES[name])


def get_golden_run(recipe: Recipe) -> Run:
    """The run of one of `RECIPES`; nothing changes a run, whose modules TVM shares anyway."""
    assert RECIPES[recipe.name] is recipe
    return _make(recipe.name)
