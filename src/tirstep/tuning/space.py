"""The configs of a recipe that a tuning chooses from, and the program of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tvm
from tvm.s_tir import Schedule

from tirstep.bench.search import classify
from tirstep.programs.program_error import describe_error
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Recipe

Config = dict[str, object]
Decisions = dict[str, int]
"""A place among the values of each choice."""
Choices = Mapping[str, tuple[object, ...]]


@dataclass
class RecipeSpace:
    """The configs of a recipe, and what it makes of them.

    Attributes
    ----------
    fixed : knobs that all configs have
    choices : the values of each of the other knobs
    refused : how many configs were refused, by the kind of reason
    samples : the first whole sentence of each of these
    """

    recipe: Recipe
    fixed: Config
    choices: Choices
    refused: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)

    def get_config(self, decisions: Mapping[str, int]) -> Config:
        """The config of some decisions."""
        chosen = {name: values[decisions[name]] for name, values in self.choices.items()}
        return {**chosen, **self.fixed}

    def find_decisions(self, config: Mapping[str, object]) -> Decisions | None:
        """The decisions that make a config, also one of JSON's; None where there are none."""
        rest = {**self.recipe.config, **self.fixed}
        decisions: Decisions = {}
        for name, value in config.items():
            spelt = [json.dumps(each) for each in self.choices.get(name, (rest.get(name),))]
            if json.dumps(value) not in spelt:
                return None
            decisions[name] = spelt.index(json.dumps(value))
        if not {*self.choices, *self.fixed} <= {*config}:
            return None
        return {name: decisions[name] for name in self.choices}

    def schedule(
        self, workload: tvm.IRModule, decisions: Mapping[str, int]
    ) -> tuple[Schedule, str]:
        """A schedule on which TVM alone has replayed what the recipe does, or why there is none.

        A reason begins with its kind, ``refused:`` or ``failed:``, and what is refused is counted.
        """
        sch, reason = Schedule(workload), ""
        try:
            trace = self.recipe.steps(workload, **self.get_config(decisions))[-1].trace
        except TransformError as error:
            reason = f"refused: {error}"
        except Exception as error:  # of a user's own recipe
            reason = f"failed: {describe_error(error)}"
        if reason:
            kind = name_kind(reason)
            self.refused[kind] += 1
            self.samples.setdefault(kind, reason.partition(": ")[2])
            return sch, reason
        try:
            trace.apply_to_schedule(sch, remove_postproc=False)
        except Exception as error:  # TVM's are of many kinds
            return sch, f"failed: its trace does not replay: {describe_error(error)}"
        return sch, ""


def unrank(sizes: Mapping[str, int], place: int) -> Decisions:
    """The decisions at a place among all, of choices with so many values."""
    decisions: Decisions = {}
    for name, size in sizes.items():
        place, decisions[name] = divmod(place, size)
    return decisions


def name_kind(reason: str) -> str:
    """The kind of a reason: of a refusal the transform, of what else went wrong its first words."""
    return classify(reason) if reason.startswith("refused") else reason.partition(": ")[0]


def read_fixed(recipe: Recipe, choices: Choices, config: Mapping[str, object]) -> Config:
    """The knobs with one value: those of a config, and of the recipe's example what is no choice.

    The persistent recipes, say, fit nowhere without the tail of their example.
    """
    own = recipe.default_example.config
    return {**{name: value for name, value in own.items() if name not in choices}, **config}


def read_choices(
    recipe: Recipe, among: Mapping[str, Sequence[object]], config: Mapping[str, object]
) -> Choices:
    """The values of each knob that is to be chosen: those in `among`, or those that the recipe
    declares, of which its own comes first.

    Raises `TransformError` for a recipe without choices and for knobs that it does not have.
    """
    recipe.require_config(config)
    for name, given in among.items():
        for value in given or (recipe.config.get(name),):
            recipe.require_config({name: value})
    defaults = {**recipe.config, **recipe.default_example.config}
    declared = {
        name: tuple(dict.fromkeys((defaults[name], *values)))
        for name, values in recipe.choices.items()
    }
    choices = {**declared, **{name: tuple(values) for name, values in among.items()}}
    choices = {name: values for name, values in choices.items() if name not in config}
    if not choices:
        declares = "declares no choices" if not recipe.choices else "has no choice left"
        raise TransformError(
            "tune",
            f"{recipe.name} {declares}, so there is nothing to tune",
            "give a knob several values, or the recipe choices={...}",
        )
    for name, values in choices.items():
        if not values:
            raise TransformError("tune", f"'{name}' has no value", "give it one or more")
    return choices
