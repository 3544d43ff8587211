"""Kernels and recipes of other packages, which appear by name beside ours.

A package names the module that has them in its entry points::

    [project.entry-points.tirstep]
    mine = "my_package.recipes"

What is broken there is a `PluginWarning`, and the rest works.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from .program_error import ProgramError, describe_error

if TYPE_CHECKING:
    from tirstep.modules import Kernel
    from tirstep.transforms.recipes import Ladder, Recipe

GROUP = "tirstep"


class PluginWarning(UserWarning):
    """A package's kernels or recipes cannot be had, or not under their name."""


def find_plugins() -> list[EntryPoint]:
    """The modules that installed packages name; nothing of them is imported."""
    return sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def list_kernels() -> dict[str, Kernel]:
    """Every kernel by name, ours first."""
    from tirstep.modules import kernels

    return {**kernels(), **_load().kernels}


def list_ladders() -> dict[str, Ladder]:
    """Every ladder by name, ours first."""
    from tirstep.transforms.recipes import LADDERS

    return {**LADDERS, **_load().ladders}


def list_recipes() -> dict[str, Recipe]:
    """Every recipe by name, ours first."""
    from tirstep.transforms.recipes import RECIPES

    theirs = (recipe for ladder in _load().ladders.values() for recipe in ladder)
    return {**RECIPES, **{recipe.name: recipe for recipe in theirs}}


def spell_plugin(name: str) -> str | None:
    """``module:NAME`` of a plugin's kernel or recipe; None of every other name."""
    module = _load().modules.get(name)
    return None if module is None else f"{module}:{name}"


@dataclasses.dataclass(frozen=True)
class Known:
    """What plugins add to what the commands know by name."""

    kernels: dict[str, Kernel] = dataclasses.field(default_factory=dict)
    ladders: dict[str, Ladder] = dataclasses.field(default_factory=dict)
    modules: dict[str, str] = dataclasses.field(default_factory=dict)  # of kernels and recipes


@functools.cache
def _load() -> Known:
    known = Known()
    for entry in find_plugins():
        try:
            for sentence in _add(entry, known):
                warnings.warn(f"plugin {entry.name}: {sentence}", PluginWarning, stacklevel=2)
        except Exception as error:  # whatever a package of somebody else's raises
            told = str(error) if isinstance(error, ProgramError) else describe_error(error)
            text = f"plugin {entry.name} ({entry.value}) is left out: {told}"
            warnings.warn(text, PluginWarning, stacklevel=2)
    return known


def _add(entry: EntryPoint, known: Known) -> Iterator[str]:
    """Add what a plugin has; yields what could not be added."""
    from tirstep.modules import kernels
    from tirstep.transforms.recipes import LADDERS, RECIPES, Ladder

    from .picking import collect_plugin

    found_kernels, recipes, ladders = collect_plugin(entry.module, entry.attr)
    for kernel in found_kernels:
        if kernel.name in kernels() or kernel.name in known.kernels:
            yield _describe_clash(entry, "kernel", kernel.name)
        else:
            known.kernels[kernel.name] = kernel
            known.modules[kernel.name] = entry.module
    taken = {*RECIPES, *(it.name for ladder in known.ladders.values() for it in ladder)}
    loose: dict[str, list[Recipe]] = {}
    for ladder in ladders:
        if clash := [it.name for it in ladder if it.name in taken]:
            yield _describe_clash(entry, "recipe", clash[0])
        elif ladder.name in LADDERS or ladder.name in known.ladders:
            yield _describe_clash(entry, "ladder", ladder.name)
        else:
            known.ladders[ladder.name] = ladder
    in_ladders = {recipe.name for ladder in ladders for recipe in ladder}
    for recipe in recipes:
        if recipe.name in taken:
            yield _describe_clash(entry, "recipe", recipe.name)
        elif recipe.name not in in_ladders:
            loose.setdefault(recipe.kernel_name, []).append(recipe)
    for rung in (*recipes, *(it for ladder in ladders for it in ladder)):
        if rung.name not in taken:
            known.modules[rung.name] = entry.module
    for of, theirs in loose.items():
        name = f"{entry.name}-{of}" if of in LADDERS or of in known.ladders else of
        shape = theirs[-1].default_example.shape
        title = f"of the plugin {entry.name}"
        known.ladders[name] = Ladder(name, of, title, tuple(theirs), shape)


def _describe_clash(entry: EntryPoint, kind: str, name: str) -> str:
    return (
        f"the {kind} '{name}' is left out, since there is one of that name already; name it "
        f"{entry.module}:{name}"
    )
