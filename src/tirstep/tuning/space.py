"""A recipe as a design space of MetaSchedule's, whose decisions are the recipe's choices.

A candidate's trace begins with one `sample_categorical` for each choice, whose result is noted on
the root block. Then comes `enter_postproc`, and behind it what the recipe did for these decisions.
MetaSchedule's strategies mutate what stands before the postprocessing alone, so a changed decision
runs the recipe again, and a mutated trace is never one of a schedule that was made for others.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tvm
import tvm_ffi
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.mutator import PyMutator
from tvm.s_tir.meta_schedule.postproc import PyPostproc
from tvm.s_tir.meta_schedule.space_generator import PySpaceGenerator, SpaceGenerator
from tvm.s_tir.schedule import Trace

from tirstep.bench.search import classify
from tirstep.programs.program_error import describe_error
from tirstep.transforms.errors import TransformError
from tirstep.transforms.plans.rules import is_by_plan, schedule_by_recipe
from tirstep.transforms.recipes import Recipe

CHOICE = "tirstep.choice."
"""How the keys begin under which the root block has the decisions, until they are carried out."""
ATTEMPTS = 256
"""Configs of which one must fit, for a space to be one."""

Config = dict[str, object]
Decisions = dict[str, int]
"""A place among the values of each choice."""
Choices = Mapping[str, tuple[object, ...]]


class Scheduled(NamedTuple):
    """What a recipe made of a module with one config, or why it refused.

    `reason` begins with the kind, ``refused:`` or ``failed:``.
    """

    trace: Trace | None
    reason: str = ""


@dataclass
class RecipeSpace:
    """The configs of a recipe, and what it makes of them, each worked out once.

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
    _known: dict[tuple[object, ...], Scheduled] = field(default_factory=dict, repr=False)

    def get_config(self, decisions: Mapping[str, int]) -> Config:
        """The config of some decisions, each a place among the values of its choice."""
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

    def unrank(self, place: int) -> Decisions:
        """The decisions at a place of the space."""
        decisions: Decisions = {}
        for name, values in self.choices.items():
            place, decisions[name] = divmod(place, len(values))
        return decisions

    def schedule(self, module: tvm.IRModule, decisions: Mapping[str, int]) -> Scheduled:
        """Run the recipe on a fresh schedule of a module; a config is refused for a reason."""
        places = tuple(decisions[name] for name in self.choices)
        key = (tvm_ffi.structural_hash(module), places)
        if key not in self._known:
            self._known[key] = made = self._run(module, self.get_config(decisions))
            if made.reason:
                kind = name_kind(made.reason)
                self.refused[kind] += 1
                self.samples.setdefault(kind, made.reason.partition(": ")[2])
        return self._known[key]

    def _run(self, module: tvm.IRModule, config: Config) -> Scheduled:
        try:
            if is_by_plan(self.recipe, module):
                sch = Schedule(module)
                schedule_by_recipe(sch, self.recipe, config)
                trace = sch.trace
            else:
                trace = self.recipe.steps(module, **config)[-1].trace
        except TransformError as error:
            return Scheduled(None, f"refused: {error}")
        except Exception as error:  # of a user's own recipe, on a thread of TVM's
            return Scheduled(None, f"failed: {describe_error(error)}")
        return Scheduled(trace)


def name_kind(reason: str) -> str:
    """The kind of a reason: of a refusal the transform, of what else went wrong its first words."""
    return classify(reason) if reason.startswith("refused") else reason.partition(": ")[0]


def as_space(
    recipe: Recipe, *, among: Mapping[str, Sequence[object]] | None = None, **config: object
) -> SpaceGenerator:
    """A recipe as a design space, for ``meta_schedule.tune_tir(..., space=as_space(recipe))``.

    `config` are knobs with one value, `among` values to choose from in place of those that the
    recipe declares; the recipe's own value is always one of these. A config that the recipe refuses
    is no candidate; `space.recipe_space` counts the reasons. Any strategy of MetaSchedule's takes
    the space. A function with other blocks than the recipe knows, as Relax makes them, is scheduled
    by the plan of its family, if that finds its blocks.

    Raises `TransformError` for a recipe without choices and for knobs that it does not have; while
    it is tuned, where a recipe fits with none of its configs.
    """
    choices = read_choices(recipe, among or {}, config)
    return _Space(RecipeSpace(recipe, read_fixed(recipe, choices, config), choices))


def read_fixed(recipe: Recipe, choices: Choices, config: Mapping[str, object]) -> Config:
    """The knobs with one value: those of a config, and of the recipe's example what is no choice.

    The persistent recipes, say, fit nowhere without the tail of their example.
    """
    own = recipe.default_example.config
    return {**{name: value for name, value in own.items() if name not in choices}, **config}


def read_choices(
    recipe: Recipe, among: Mapping[str, Sequence[object]], config: Mapping[str, object]
) -> Choices:
    """The values of each knob that is to be chosen; see `as_space`."""
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
            "as_space",
            f"{recipe.name} {declares}, so there is nothing to tune",
            "give a knob several values, or the recipe choices={...}",
        )
    for name, values in choices.items():
        if not values:
            raise TransformError("as_space", f"'{name}' has no value", "give it one or more")
    return choices


def make_decided(
    space: RecipeSpace, module: tvm.IRModule, decisions: Mapping[str, int], seed: int = 1
) -> Schedule:
    """A schedule that has decided, and in which nothing is done yet."""
    sch = Schedule(module, seed=seed)
    root = _get_root(sch)
    for name, values in space.choices.items():
        count = len(values)
        decided = sch.sample_categorical([*range(count)], [1 / count] * count, decisions[name])
        sch.annotate(root, CHOICE + name, decided)
    return sch


def carry_out(space: RecipeSpace, sch: Schedule) -> str:
    """Do what the recipe does for a schedule's decisions; why it refuses, or ""."""
    root = _get_root(sch)
    notes = sch.get(root).annotations
    decisions = {name: int(notes[CHOICE + name]) for name in space.choices}
    for name in space.choices:
        sch.unannotate(root, CHOICE + name)
    made = space.schedule(sch.mod, decisions)
    if made.trace is None:
        return made.reason
    try:
        made.trace.apply_to_schedule(sch, remove_postproc=False)
    except Exception as error:  # TVM's are of many kinds
        return f"failed: its trace does not replay: {describe_error(error)}"
    return ""


def read_decisions(trace: Trace) -> Decisions:
    """The decisions of a candidate's trace, by the name of the choice; empty of other traces."""
    return {
        name: int(item.attrs[0][int(trace.decisions[item])])
        for name, item in _find_choices(trace).items()
    }


def _find_choices(trace: Trace) -> dict[str, Any]:
    """The instruction that samples each choice: its result is noted on the root block."""
    sampled = [item for item in trace.insts if str(item.kind.name) == "SampleCategorical"]
    noted = [item for item in trace.insts if str(item.kind.name) == "Annotate"]
    return {
        str(item.attrs[0]).removeprefix(CHOICE): source
        for item in noted
        if str(item.attrs[0]).startswith(CHOICE)
        for source in sampled
        if source.outputs[0].same_as(item.inputs[1])
    }


def _get_root(sch: Schedule) -> Any:
    return sch.get_sblock("root", func_name=str(sch.func_working_on.name_hint))


@derived_object
class _CarryOut(PyPostproc):
    """Runs the recipe."""

    def __init__(self, space: RecipeSpace) -> None:
        super().__init__()
        self.space = space

    def _initialize_with_tune_context(self, context: Any) -> None:
        """It needs nothing of it."""

    def apply(self, sch: Schedule) -> bool:
        return not carry_out(self.space, sch)

    def clone(self) -> Any:
        return _CarryOut(self.space)


@derived_object
class _ChangeChoice(PyMutator):
    """Decides one choice otherwise."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.rng = random.Random(seed)

    def _initialize_with_tune_context(self, context: Any) -> None:
        self.rng = random.Random(int(context.rand_state))

    def apply(self, trace: Trace, _: object) -> Trace | None:
        several = [item for item in _find_choices(trace).values() if len(item.attrs[0]) > 1]
        if not several:
            return None
        item = self.rng.choice(several)
        others = [at for at in range(len(item.attrs[0])) if at != int(trace.decisions[item])]
        return trace.with_decision(item, self.rng.choice(others), remove_postproc=True)

    def clone(self) -> Any:
        return _ChangeChoice(self.rng.randrange(1 << 30))


@derived_object
class _Space(PySpaceGenerator):
    """The decisions, at random, and the recipe that carries them out as its postprocessing."""

    def __init__(self, space: RecipeSpace, seed: int = 0) -> None:
        super().__init__()
        self.recipe_space = space
        self.sch_rules: list[object] = []
        self.postprocs = [_CarryOut(space)]
        self.mutator_probs = {_ChangeChoice(seed): 1.0}
        self.rng = random.Random(seed)

    def _initialize_with_tune_context(self, context: Any) -> None:
        self.rng = random.Random(int(context.rand_state))

    def generate_design_space(self, mod: tvm.IRModule) -> list[Schedule]:
        """One schedule whose decisions the recipe takes: MetaSchedule replays without an end where
        none fits.
        """
        space, rng = self.recipe_space, self.rng
        for _ in range(ATTEMPTS):
            decisions = {name: rng.randrange(len(it)) for name, it in space.choices.items()}
            if space.schedule(mod, decisions).trace is not None:
                return [make_decided(space, mod, decisions, seed=rng.randrange(1, 1 << 30))]
        ((kind, number),) = space.refused.most_common(1)
        first = f"{number} of {space.refused.total()}, the first of them: {space.samples[kind]}"
        raise TransformError(
            "as_space",
            f"{space.recipe.name} fits with none of {ATTEMPTS} configs that were drawn",
            f"choose others: {first}",
        )

    def clone(self) -> Any:
        return _Space(self.recipe_space, self.rng.randrange(1 << 30))
