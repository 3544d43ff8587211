"""Small pieces of prose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tirstep.transforms.recipes import Recipe


def first_sentence(doc: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join((doc or "").strip().split("\n\n")[0].split())
    # The dots of "a + ... + z" end nothing.
    return re.split(r"(?<=[^.][.!?])\s+(?=[A-Z`])", paragraph, maxsplit=1)[0]


def describe_recipe(recipe: Recipe) -> str:
    """What a rung adds, and why; of other recipes the first sentence of their docstring."""
    added = f"{spell_config(recipe.delta)}: " if recipe.delta else ""
    return added + first_sentence(recipe.doc)


def count(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def spell(value: object) -> str:
    """A value as ``--set`` and ``--option`` take it."""
    if isinstance(value, list | tuple):
        return ",".join(map(spell, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def spell_config(config: Mapping[str, object]) -> str:
    """Knobs with their values, ``threads=16,16 tile_k=8``."""
    return " ".join(f"{name}={spell(value)}" for name, value in config.items())
