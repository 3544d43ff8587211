"""The sizes that searches found best, in one JSON file for each kernel, and how they are picked.

``tirstep search`` writes the files, with what was measured beside the sizes:
``{device: {dtype: {"1024x512x2048": {"recipe": name, "sizes": {...}, ...}}}}``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import TransformError

FOLDER = Path(__file__).parent


class Choice(NamedTuple):
    """A recipe by name, its sizes, and the shape at which they were found."""

    recipe: str
    sizes: Mapping[str, object]
    shape: tuple[int, ...]


def find_best(kernel: str, *, device: str, dtype: str, shape: Sequence[int]) -> Choice:
    """What a search found for a shape, or for the nearest one by the sum of the sizes' ratios.

    A dtype that was not searched takes what was found for float32. Raises `TransformError` for a
    kernel or a device without a search.
    """
    table = _read(kernel)
    if device not in table:
        raise TransformError(
            "find_best",
            f"there are no sizes of {kernel} for '{device}'",
            f"use one of {', '.join(table) or 'none yet'}, or search some: tirstep search",
        )
    types = table[device]
    shapes = types.get(dtype) or types.get("float32") or next(iter(types.values()))
    name = min(shapes, key=lambda one: _distance(_parse(one), shape))
    entry = shapes[name]
    return Choice(str(entry["recipe"]), dict(entry["sizes"]), _parse(name))


@cache
def _read(kernel: str) -> dict[str, Any]:
    file = FOLDER / f"{kernel}.json"
    if not file.exists():
        return {}
    return dict(json.loads(file.read_text(encoding="utf-8")))


def _parse(shape: str) -> tuple[int, ...]:
    return tuple(int(size) for size in shape.split("x"))


def _distance(one: Sequence[int], other: Sequence[int]) -> float:
    return sum(abs(math.log2(a / b)) for a, b in zip(one, other, strict=True))
