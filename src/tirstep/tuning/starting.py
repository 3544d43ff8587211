"""Where a tuning starts: configs of its space that a search, or a model of time, has found fast."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping

from tvm.s_tir import Schedule

from tirstep.modules import AnyProblem
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.recipes.gemm import GemmConfig
from tirstep.transforms.recipes.gemm_best import choose_config, rank_product
from tirstep.transforms.recipes.gpus import GPUS, H200
from tirstep.transforms.recipes.ladder import Rung

from .proposing import Decisions
from .space import Choices, Config

MOST = 5
"""Configs of a model of time."""


def list_promising(
    recipe: Recipe, problem: AnyProblem, fixed: Config, choices: Choices, device: str
) -> list[Decisions]:
    """Of the product's recipes: the config of `matmul_best` on a GPU, and its model's next ones.

    Those that the space has not are left out, and the same one comes once. Of other recipes none
    are known. A GPU that is in no table is taken for an H200.
    """
    if not (isinstance(recipe, Rung) and recipe.family.config is GemmConfig):
        return []
    if recipe.kernel_name != "matmul":
        return []
    found: list[Decisions] = []
    for config in _list_configs(problem, device if device in GPUS else H200.name):
        decisions = find_decisions({**recipe.config, **config}, recipe, fixed, choices)
        if decisions is not None and decisions not in found:
            found.append(decisions)
    return found


def _list_configs(problem: AnyProblem, device: str) -> Iterator[Config]:
    sch = Schedule(problem.module)
    try:
        yield dataclasses.asdict(choose_config(sch, device))
        for ranked in rank_product(sch, device)[:MOST]:
            yield dataclasses.asdict(ranked.config)
    except TransformError:  # of a product that no tile is for
        return


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
