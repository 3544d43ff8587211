"""Families, rungs and ladders: a rung is a recipe and one declared change, with its reason.

A family is one schedule of one kernel with one dataclass of knobs::

    strips = fragments.plus("strips", strided=True, why="Adjacent threads read adjacent vectors")

makes the recipe ``matmul_strips`` of the recipe ``matmul_fragments``; its docstring, knobs, choices
and golden example follow from those of its base.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar, overload

from tvm.s_tir import Schedule

from ..schedule import TransformError
from .recipe import Example, Expectation, Recipe, is_pair, read_expectations, read_hints
from .recipe import Pair as Pair

Value = TypeVar("Value")
Expects = Mapping[str, Sequence[str | Expectation]]


def knob(default: Value, about: str, *, choices: Sequence[object] = (), least: int = 1) -> Value:
    """A field of a family's config.

    `about` says what it is; `choices` are the values worth searching; `least` is that of numbers.
    """
    metadata = {"about": about, "choices": tuple(choices), "least": least}
    declared: Any = field(default=default, metadata=metadata)
    return declared


def pairs(rows: Sequence[int], columns: Sequence[int]) -> tuple[Pair, ...]:
    """All pairs of some numbers of rows and of columns."""
    return tuple(itertools.product(rows, columns))


@dataclass(frozen=True, kw_only=True)
class Family:
    """One schedule of one kernel, and what all of its rungs share.

    Attributes
    ----------
    config : a frozen dataclass of `knob` fields
    schedule : ``schedule(sch, config)``, which yields the names of its steps
    small : the example of the goldens, with the knobs that all of them have
    tiles : the knobs that every rung may be searched by, before a rung sets them
    options : of the kernel, which a rung may set in place of a knob
    dtypes, arch : of the recipes
    rungs : all that were made of it, in order
    """

    kernel: str
    config: type
    schedule: Callable[[Schedule, Any], Iterator[str]]
    blocks: tuple[str, ...]
    default_example: Example
    small: Example
    tiles: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    arch: str = ""
    rungs: list[Rung] = field(default_factory=list, init=False, repr=False, compare=False)

    def root(self, name: str, *, why: str, **declared: Any) -> Rung:
        """The first rung, ``<kernel>_<name>``: the config's defaults, with any number of knobs set.

        The options are those of `Rung.plus`.
        """
        defaults = {knob.name: knob.default for knob in dataclasses.fields(self.config)}
        bare = Rung(
            name="",
            doc="",
            kernel=self.kernel,
            config=defaults,
            blocks=self.blocks,
            default_example=self.default_example,
            golden=self.small,
            choices=self.find_choices(self.tiles),
            symbolic=(),
            dtypes=self.dtypes,
            arch=self.arch,
            expects=read_expectations(None),
            body=self.schedule,
            family=self,
        )
        return bare.plus(name, why=why, **declared)

    def of_kernel(self, **options: object) -> Family:
        """The same schedule of the kernel with other options."""
        first, small = (_with_options(it, options) for it in (self.default_example, self.small))
        return replace(self, default_example=first, small=small)

    def find_choices(self, names: Sequence[str]) -> dict[str, tuple[object, ...]]:
        knobs = dataclasses.fields(self.config)
        choices = {knob.name: knob.metadata["choices"] for knob in knobs if knob.name in names}
        return {name: values for name, values in choices.items() if values}


@dataclass(frozen=True)
class Rung(Recipe):
    """A recipe of a family; one without a name is what a family's roots begin with."""

    family: Family = field(kw_only=True, repr=False, compare=False)

    def plus(
        self,
        name: str,
        *,
        why: str,
        expects: Expects | None = None,
        golden: Mapping[str, object] = MappingProxyType({}),
        searched: tuple[str, ...] = (),
        changes: Mapping[str, object] = MappingProxyType({}),
        **delta: object,
    ) -> Rung:
        """The rung ``<kernel>_<name>``: this one with one knob, or option, at another value; or
        with several, of which no other one is worth a rung.

        `why` is one line for whoever reads the ladder. The golden is that of the base but for the
        same knobs, with values in `golden` where the delta's are too large for it. `searched`
        knobs have choices, too, as those that a rung sets have; `expects` comes in place of the
        base's; `changes` are other values of fields of the recipe, such as ``symbolic``.
        """
        family = self.family
        option = {name: value for name, value in delta.items() if name in family.options}
        knobs = {} if option else delta
        is_other = all(it in self.config and self.config[it] != knobs[it] for it in knobs)
        if self.name and not (delta and is_other and set(golden) <= set(knobs)):
            sets = {**delta, "golden": dict(golden)} if golden else dict(delta)
            raise TransformError(
                "plus", f"the rung '{name}' sets {sets}", "set knobs to other values"
            )
        config = {**self.config, **knobs}
        small = {**self.config, **self.golden.config, **knobs, **golden}
        added = ", ".join(f"{knob}={value!r}" for knob, value in delta.items())
        told = [f"{why}.", *([f"Adds {added} to {self.name}."] if self.name else [])]
        abouts = [f"{it.name}: {it.metadata['about']}" for it in dataclasses.fields(family.config)]
        declared: dict[str, Any] = {
            "name": f"{family.kernel}_{name}",
            "doc": "\n\n".join([*told, "\n".join(abouts)]),
            "config": config,
            "default_example": _with_options(self.default_example, option),
            "golden": replace(
                _with_options(self.golden, option),
                config={knob: value for knob, value in small.items() if value != config[knob]},
            ),
            "choices": family.find_choices([*self.choices, *delta, *searched]),
            "expects": self.expects if expects is None else read_expectations(expects),
            "base": self.name or None,
            "delta": MappingProxyType(delta if self.name else {}),
            "why": why,
        }
        made = replace(self, **{**declared, **changes})
        family.rungs.append(made)
        return made

    @property
    def hints(self) -> Mapping[str, Any]:
        return read_hints(self.family.config)

    def _start(self, sch: Schedule, config: Mapping[str, object]) -> Iterator[str]:
        given = read_pairs(config)
        for name, value in given.items():
            if self.has_pairs(name) and not is_pair(value, least=None):
                raise TransformError(
                    self.name,
                    f"{name}={value!r} is not a pair of integers",
                    f"pass rows and columns, as {name}=(4, 8)",
                )
        return self.body(sch, self.family.config(**{**self.config, **given}))

    def explain_wrong(self, name: str, value: object, least: int = 1) -> str:
        knobs = {knob.name: knob.metadata for knob in dataclasses.fields(self.family.config)}
        return super().explain_wrong(name, value, int(knobs[name]["least"]))


def _with_options(example: Example, option: Mapping[str, object]) -> Example:
    return replace(example, options={**example.options, **option})


def read_pairs(config: Mapping[str, object]) -> dict[str, object]:
    """A config out of JSON, which has lists for pairs."""
    return {name: tuple(it) if isinstance(it, list) else it for name, it in config.items()}


@dataclass(frozen=True)
class Ladder(Sequence[Recipe]):
    """Recipes of one kernel in the order in which they are read; a sequence of these.

    Attributes
    ----------
    title : what it is, or the text that it is faithful to
    shape : at which it is timed
    """

    name: str
    kernel: str
    title: str
    recipes: tuple[Recipe, ...]
    shape: Mapping[str, int]

    @overload
    def __getitem__(self, place: int) -> Recipe: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Recipe, ...]: ...
    def __getitem__(self, place: int | slice) -> Recipe | tuple[Recipe, ...]:
        return self.recipes[place]

    def __len__(self) -> int:
        return len(self.recipes)


def order(
    title: str, *recipes: Recipe, name: str = "", shape: Mapping[str, int] | None = None
) -> Ladder:
    """A ladder, named after its kernel and at the shape of its last recipe's example by default."""
    kernel = recipes[-1].kernel_name
    return Ladder(
        name or kernel, kernel, title, recipes, shape or recipes[-1].default_example.shape
    )
