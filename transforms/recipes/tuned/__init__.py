"""The configs that searches found best, in one JSON file for each kernel, and how one is picked.

``tirstep search`` writes the files, with what was measured beside the config:
``{device: {dtype: {"1024x512x2048": {"config": {...}, "us": ..., ...}}}}``.
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


class Tuned(NamedTuple):
    """A config, and the shape and dtype at which it was found."""

    config: Mapping[str, object]
    shape: tuple[int, ...]
    dtype: str


def find_tuned(kernel: str, *, device: str, dtype: str, shape: Sequence[int]) -> Tuned | None:
    """What a search found for a shape, or for the nearest one by the sum of the sizes' ratios; None
    for a kernel or a device without a search.

    A dtype that was not searched takes what was found for float32, or else for the first one.
    Raises `TransformError` for a file that holds something else.
    """
    table = _read(kernel)
    if device not in table:
        return None
    types = table[device]
    found = next((name for name in (dtype, "float32") if name in types), next(iter(types)))
    shapes = types[found]
    for known in shapes:
        if known.count("x") + 1 != len(shape):
            raise TransformError(
                "find_tuned",
                f"{FOLDER / kernel}.json has the shape {known}, and {kernel} has "
                f"{len(shape)} sizes",
                "take the file that tirstep came with, or search again: tirstep search",
            )
    name = min(shapes, key=lambda known: measure_distance(_parse(known), shape))
    entry = shapes[name]
    return Tuned(dict(entry["config"]), _parse(name), found)


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
            "find_tuned",
            f"{file} is no table of best configs: {flaw}",
            "take the file that tirstep came with, or delete it and search again: tirstep search",
        )
    return dict(table)


def find_flaw(table: Any) -> str:
    """Why something is no table of best configs; empty where it is one."""
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
                if not isinstance(entry, dict) or not isinstance(entry.get("config"), dict):
                    return f"{shape} of {dtype} of '{device}' has no config"
    return ""


def _parse(shape: str) -> tuple[int, ...]:
    return tuple(int(size) for size in shape.split("x"))


def measure_distance(shape: Sequence[int], other: Sequence[int]) -> float:
    """How far two shapes are from each other: the sum of their sizes' ratios, in powers of two."""
    return sum(abs(math.log2(a / b)) for a, b in zip(shape, other, strict=True))
