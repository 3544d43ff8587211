"""From suites, and the wishes of whoever runs them, to the problems that are measured."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tirstep.modules import Kernel, Problem, get_kernel
from tirstep.transforms.recipes import LADDERS, RECIPES, Recipe

from .errors import BenchError
from .suites import SUITES, Entry


@dataclass(frozen=True)
class Work:
    """A problem, the recipes and the peers that solve it, and the suite that asks for it."""

    suite: str
    problem: Problem
    recipes: tuple[Recipe, ...]
    peers: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """What of the suites is wanted.

    Attributes
    ----------
    names : suites, kernels with all that the suites have of them, or ladders of other
        names at their own shape; all suites if there are none
    shapes : instead of those of the suites; a shape of another number of sizes than a kernel has
        is refused
    dtype, recipes : only these; recipes come instead of those that a suite names
    quick : only the first shape and type of each entry
    """

    names: Sequence[str] = ()
    shapes: Sequence[tuple[int, ...]] = ()
    dtype: str | None = None
    recipes: Sequence[str] = ()
    quick: bool = False


def find_works(
    choice: Choice, suites: Mapping[str, Sequence[Entry]] = SUITES
) -> tuple[list[Work], list[str]]:
    """The works that are wanted, and the kernels of the suites that are not here.

    A suite has each problem once: the first entry that names it counts.

    Raises `BenchError` for a name that is neither suite nor kernel and for unknown recipes,
    `KernelError` for a shape that a kernel cannot have.
    """
    _require_known(choice, suites)
    works: dict[object, Work] = {}
    absent: dict[str, None] = {}
    for suite, entry in _find_entries(choice, suites):
        if entry.kernel not in LADDERS:
            absent[entry.kernel] = None
            continue
        for work in _expand(suite, _narrow(entry, choice), choice):
            works.setdefault((suite, work.problem), work)
    if not works:
        here = f"{', '.join(absent)} is not here yet" if absent else "no recipe fits"
        raise BenchError(f"there is nothing to measure: {here}; see tirstep list")
    return list(works.values()), list(absent)


def _require_known(choice: Choice, suites: Mapping[str, Sequence[Entry]]) -> None:
    entries = [entry for one in suites.values() for entry in one]
    known = dict.fromkeys([*suites, *(entry.kernel for entry in entries), *LADDERS])
    for name in choice.names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise BenchError(f"there is no suite and no kernel '{name}'; {hint}")
    for name in choice.recipes:
        if name not in RECIPES:
            near = difflib.get_close_matches(name, RECIPES, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "see tirstep list"
            raise BenchError(f"there is no recipe '{name}'; {hint}")


def _find_entries(
    choice: Choice, suites: Mapping[str, Sequence[Entry]]
) -> Iterator[tuple[str, Entry]]:
    for name in choice.names or suites:
        if name in suites:
            yield from ((name, entry) for entry in suites[name])
            continue
        if name in LADDERS and LADDERS[name].kernel != name:
            ladder = LADDERS[name]
            yield name, Entry(ladder.kernel, (tuple(ladder.shape.values()),), recipes=(name,))
            continue
        found = [
            (suite, entry)
            for suite, entries in suites.items()
            for entry in entries
            if entry.kernel == name
        ]
        yield from found or [(name, Entry(name, _seed_shapes(name)))]


def _seed_shapes(kernel: str) -> tuple[tuple[int, ...], ...]:
    """The shapes of its ladders' examples, for a kernel that no suite has."""
    recipes = (recipe for recipe in RECIPES.values() if recipe.kernel == kernel)
    shapes = (tuple(recipe.default_example.shape.values()) for recipe in recipes)
    return tuple(dict.fromkeys(shapes))


def _narrow(entry: Entry, choice: Choice) -> Entry:
    """The entry with the shapes, types and recipes that are wanted."""
    shapes = tuple(choice.shapes) or entry.shapes
    options = entry.options
    if choice.dtype is not None:
        options = ({**options[0], "dtype": choice.dtype, "out": choice.dtype},)
    if choice.quick:
        shapes, options = shapes[:1], options[:1]
    return dataclasses.replace(entry, shapes=shapes, options=options)


def _expand(suite: str, entry: Entry, choice: Choice) -> Iterator[Work]:
    kernel = get_kernel(entry.kernel)
    recipes = tuple(_pick(entry.kernel, choice.recipes or entry.recipes))
    if not recipes:
        return
    for shape in entry.shapes:
        for options in entry.options:
            problem = kernel.problem(*_fit(kernel, shape), **_known(kernel, options))
            yield Work(suite, problem, recipes, entry.peers)


def _pick(kernel: str, words: Sequence[str]) -> Iterator[Recipe]:
    """A kernel's recipes by name, ladder, or ``first``, ``last``, ``all`` of them, in order."""
    known = [recipe for recipe in RECIPES.values() if recipe.kernel == kernel]
    wanted = {recipe.name for recipe in known if recipe.name in words or "all" in words}
    wanted |= {recipe.name for word in words for recipe in LADDERS.get(word, ())}
    if "first" in words:
        wanted.add(known[0].name)
    if "last" in words:
        wanted.add(known[-1].name)
    return (recipe for recipe in known if recipe.name in wanted)


def _fit(kernel: Kernel, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (math.prod(shape),) if len(kernel.size_names) == 1 else shape


def _known(kernel: Kernel, options: Mapping[str, object]) -> dict[str, Any]:
    """The options that a kernel has; its output's type only where it is not the only one."""
    known = {name: value for name, value in options.items() if name in kernel.options}
    if known.get("out") == known.get("dtype") and str(known.get("dtype")).startswith("int"):
        del known["out"]  # sums of integers do not go back into a narrow type
    return known
