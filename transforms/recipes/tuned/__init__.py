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
from typing import Any

from ...schedule import TransformError

FOLDER = Path(__file__).parent
NEAR, WHOLE = 0.1, 4
"""How far a shape may be that a search found something for, by the sum of the sizes' ratios in
powers of two: sizes that differ by a few percent; and what the same sizes are multiples of."""
SIMILAR = 1.0
"""How far, on tensor cores, whose tiles are padded: twice a size, say, whatever divides it."""
ALIKE = {"float16": "bfloat16", "bfloat16": "float16"}
"""Types for which the same configs are fast on tensor cores."""


def find_tuned(
    table: str, *, device: str, dtype: str, shape: Sequence[int]
) -> dict[str, object] | None:
    """The config that a search found at a shape, or at the nearest one that is near it and, without
    tensor cores, has the same whole vectors; None where there is none.

    Raises `TransformError` for a file that holds something else.
    """
    near, whole = (SIMILAR, 1) if table.endswith("mma") else (NEAR, WHOLE)
    types = _read(table).get(device, {})
    shapes = types.get(dtype) or types.get(ALIKE.get(dtype), {})
    found = []
    for name, entry in shapes.items():
        pairs = [*zip(map(int, name.split("x")), shape, strict=False)]
        distance = sum(abs(math.log2(known / size)) for known, size in pairs)
        is_alike = all((known % whole == 0) == (size % whole == 0) for known, size in pairs)
        if name.count("x") == len(shape) - 1 and is_alike and distance <= near:
            found.append((distance, dict(entry["config"])))
    return min(found, key=lambda it: it[0])[1] if found else None


@cache
def _read(table: str) -> Mapping[str, Any]:
    file = FOLDER / f"{table}.json"
    if not file.exists():
        return {}
    try:
        found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        flaw = find_flaw(found)
    except (OSError, ValueError):
        flaw = "it is not JSON"
    if flaw:
        raise TransformError(
            "find_tuned",
            f"{file} is not a table of best configs: {flaw}",
            "take the file that tirstep came with, or delete it and search again: tirstep search",
        )
    return found


def find_flaw(table: Any) -> str:
    """Why something is no table of best configs; empty where it is one."""
    levels = [("", table)]
    for what in ("devices", "dtypes", "shapes"):
        for name, level in levels:
            if not isinstance(level, dict) or (name and not level):
                return f"{name or 'it'} is not an object of {what}"
        levels = [(f"'{key}'", it) for _, level in levels for key, it in level.items()]
    for name, entry in levels:
        if not re.fullmatch(r"'[1-9]\d*(x[1-9]\d*)*'", name, re.ASCII):
            return f"{name} is not a shape"
        if not isinstance(entry, dict) or not isinstance(entry.get("config"), dict):
            return f"{name} has no config"
    return ""
