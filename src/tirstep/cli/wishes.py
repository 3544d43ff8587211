"""What the user asks of a kernel and of its recipes, read from the command line."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .refusals import UseError, nearest
from .texts import count, spell

if TYPE_CHECKING:
    from tirstep.transforms.recipes import Recipe


@dataclass(frozen=True)
class Wish:
    """Sizes and options over those of a recipe's example.

    Attributes
    ----------
    shape : as in ``--shape``; None for the shape of the recipe's example
    options : the kernel's, its dtype among them
    sizes : the recipe's own
    """

    shape: str | None
    options: Mapping[str, object]
    config: Mapping[str, object]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked: the examples are to be taken as they are."""
        return self.shape is None and not self.options and not self.config


@dataclass(frozen=True)
class Request:
    """What `check` and `ladder` are asked for.

    Attributes
    ----------
    golden_dir : None for tests/golden below the current folder, if it is there
    device : a device's name, or ``"auto"``
    seed : of the random inputs
    """

    wish: Wish
    golden_dir: Path | None
    device: str
    seed: int


@dataclass(frozen=True)
class Pair:
    """The steps to diff, by name or number, and their recipes.

    Attributes
    ----------
    before : None for the last step where there is another recipe, else for all pairs of neighbours
    after : None for the last step
    against : the recipe of `after`, where it is another one
    """

    recipe: str
    before: str | None
    after: str | None
    against: str | None


def make_pair(
    recipe: str,
    against: str | None,
    places: tuple[str | None, str | None],
    steps: tuple[str | None, str | None],
) -> Pair:
    """The pair of FROM and TO, or with ``--against`` of ``--step`` and ``--against-step``."""
    if against is None and steps != (None, None):
        raise UseError("--step and --against-step go with --against; without it, give FROM and TO")
    if against is not None and places != (None, None):
        raise UseError("FROM and TO go without --against; with it, give --step and --against-step")
    before, after = places if against is None else steps
    return Pair(recipe, before, after, against)


def make_wish(
    shape: str | None,
    dtype: str | None,
    options: Sequence[str] | None,
    sizes: Sequence[str] | None,
) -> Wish:
    """The wish of the options ``--shape``, ``--dtype``, ``--option`` and ``--set``."""
    chosen = _parse_settings("--option", options or ())
    if dtype is not None:
        if chosen.get("dtype", dtype) != dtype:
            raise UseError(f"--dtype {dtype} and --option dtype={chosen['dtype']}; give one")
        chosen["dtype"] = dtype
    return Wish(shape, chosen, _parse_settings("--set", sizes or ()))


def parse_shape(text: str, kernel: str, names: Sequence[str]) -> dict[str, int]:
    """The sizes of a kernel from ``1024x512x2048``, by place, or ``m=64,n=48,k=32``, by name."""
    sample = {name: 64 >> place for place, name in enumerate(names)}
    wanted = (
        f"{kernel} has the sizes {', '.join(names)}: give --shape "
        f"{'x'.join(map(str, sample.values()))}, or "
        f"--shape {','.join(f'{name}={size}' for name, size in sample.items())}"
    )
    if "=" not in text:
        sizes = re.split("[x×,]", text)
        if len(sizes) != len(names):
            raise UseError(f"--shape {text} has {count(len(sizes), 'size')}, and {wanted}")
        given = dict(zip(names, sizes, strict=True))
    else:
        pairs = [part.partition("=") for part in text.split(",")]
        given = {name.strip(): size.strip() for name, _, size in pairs}
        if sorted(name.strip() for name, _, _ in pairs) != sorted(names):
            raise UseError(f"--shape {text} does not give each size once; {wanted}")
    for name, size in given.items():
        if not re.fullmatch(r"-?\d+", size):
            raise UseError(
                f"--shape {text}: {name} is {size!r}, which is no whole number; {wanted}"
            )
    return {name: int(given[name]) for name in names}


def choose_sizes(wish: Wish, recipe: Recipe, all_known: Collection[str]) -> dict[str, object]:
    """The sizes of a wish that one of several recipes has.

    `all_known` are those of all the recipes asked for; a size that none of them has is refused, and
    so is a value that no size can have.
    """
    for name in wish.config:
        if name not in all_known:
            hint = nearest(name, all_known)
            raise UseError(f"no recipe that is asked for has a size '{name}'; {hint}")
    chosen = {name: value for name, value in wish.config.items() if name in recipe.config}
    for name, value in chosen.items():
        wanted = "" if name in recipe.words else recipe.explain_wrong(name, value)
        if wanted:
            raise UseError(f"--set {name}={spell(value)}: give {wanted}")
    return chosen


def separate_lists(
    texts: Sequence[str],
) -> tuple[list[str], dict[str, tuple[object, ...]]]:
    """The settings with one value as they are, and those with several, ``tile_k=8,16``, by name."""
    single = [text for text in texts if "," not in text]
    several: dict[str, tuple[object, ...]] = {}
    for text in texts:
        if "," not in text:
            continue
        name, _, values = text.partition("=")
        parts = values.split(",")
        if not (name and all(parts)) or "," in name:
            raise UseError(f"--set {text}: give --set NAME=VALUE,VALUE")
        if name in several or any(one.partition("=")[0] == name for one in single):
            raise UseError(f"--set {name} is given twice; give all of its values at once")
        several[name] = tuple(map(_parse_value, parts))
    return single, several


def _parse_settings(option: str, texts: Sequence[str]) -> dict[str, object]:
    settings: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UseError(f"{option} {text}: give {option} NAME=VALUE")
        if settings.get(name, _parse_value(value)) != _parse_value(value):
            raise UseError(f"{option} {name} is given twice, with different values; give it once")
        settings[name] = _parse_value(value)
    return settings


def _parse_value(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?\d+([x,]-?\d+)+", text):  # 16x8 among several: threads=16x8,8x8
        return tuple(map(int, re.split("[x,]", text)))
    return int(text) if re.fullmatch(r"-?\d+", text) else text
