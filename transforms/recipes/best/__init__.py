"""The sizes that searches found best, in one JSON file for each kernel, and how they are picked.

``tirstep search`` writes the files, with what was measured beside the sizes:
``{device: {dtype: {"1024x512x2048": {"recipe": name, "config": {...}, ...}}}}``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import TransformError

FOLDER = Path(__file__).parent


class Choice(NamedTuple):
    """A recipe by name, its sizes, and the shape at which they were found."""

    recipe: str
    config: Mapping[str, object]
    shape: tuple[int, ...]


def find_best(kernel: str, *, device: str, dtype: str, shape: Sequence[int]) -> Choice:
    """What a search found for a shape, or for the nearest one by the sum of the sizes' ratios.

    A dtype that was not searched takes what was found for float32. Raises `TransformError` for a
    kernel or a device without a search, and for a file that holds something else.
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
    for one in shapes:
        if one.count("x") + 1 != len(shape):
            raise TransformError(
                "find_best",
                f"{FOLDER / kernel}.json has the shape {one}, and {kernel} has {len(shape)} sizes",
                "take the file that tirstep came with, or search again: tirstep search",
            )
    name = min(shapes, key=lambda one: _distance(_parse(one), shape))
    entry = shapes[name]
    return Choice(str(entry["recipe"]), dict(entry["config"]), _parse(name))


@cache
def _read(kernel: str) -> dict[str, Any]:
    file = FOLDER / f"{kernel}.json"
    if not file.exists():
        return {}
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        flaw = find_flaw(table)
    except (OSError, ValueError):
        flaw = "it is no JSON"
    if flaw:
        raise TransformError(
            "find_best",
            f"{file} is no table of best sizes: {flaw}",
            "take the file that tirstep came with, or delete it and search again: tirstep search",
        )
    return dict(table)


def find_flaw(table: Any) -> str:
    """Why something is no table of best sizes; empty where it is one."""
    if not isinstance(table, dict):
        return "it is no object of devices"
    for device, types in table.items():
        if not isinstance(types, dict) or not types:
            return f"'{device}' is no object of dtypes"
        for dtype, shapes in types.items():
            if not isinstance(shapes, dict) or not shapes:
                return f"{dtype} of '{device}' is no object of shapes"
            if len({shape.count("x") for shape in shapes}) > 1:
                return f"the shapes of {dtype} of '{device}' have different numbers of sizes"
            for shape, entry in shapes.items():
                if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", shape, re.ASCII):
                    return f"'{shape}' is no shape"
                if not _is_entry(entry):
                    return f"{shape} of {dtype} of '{device}' has no recipe with sizes"
    return ""


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    return isinstance(entry.get("recipe"), str) and isinstance(entry.get("config"), dict)


def _parse(shape: str) -> tuple[int, ...]:
    return tuple(int(size) for size in shape.split("x"))


def _distance(one: Sequence[int], other: Sequence[int]) -> float:
    return sum(abs(math.log2(a / b)) for a, b in zip(one, other, strict=True))
