"""Who is shown in a plot, and in which colour: by part, since recipes are too many for colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..figures import find_best
from ..results import Case, Outcome
from ..tables import NAMES

FASTEST, OTHERS = "fastest recipe", "other recipes"
COLOURS: Mapping[str, str] = MappingProxyType(
    {
        FASTEST: "#5b2a48",
        OTHERS: "#cc79a7",
        "PyTorch": "#d55e00",
        "Triton": "#0072b2",
        "dlight": "#009e73",
    }
)
"""From Okabe and Ito's palette, which colour-blind people can tell apart; recipes share a hue."""


def find_shown(case: Case, *, all_recipes: bool) -> list[tuple[str, Outcome]]:
    """Who ran on the GPU, with their parts: peers, and all recipes or the fastest alone.

    Where no recipe has a time, all of them are shown, with what is wrong.
    """
    best = find_best(case)
    shown = []
    for one in case.outcomes:
        part = NAMES.get(one.contender, one.contender)
        if one.kind == "recipe":
            part = FASTEST if one is best else OTHERS
        if one.kind != "cpu" and (all_recipes or best is None or part != OTHERS):
            shown.append((part, one))
    return shown


def make_legend(parts: Iterable[str]) -> dict[str, str]:
    """The colours of the parts that there are."""
    there = set(parts)
    return {part: colour for part, colour in COLOURS.items() if part in there}
