"""The file with the best sizes that searches found, by device, dtype and shape.

``{device: {dtype: {shape: {recipe, sizes, us, ...}}}}``, where a shape is spelt 1024x512x2048.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import BenchError
from .results import write_json
from .search import Found, Plan


def record_best(
    file: Path, plan: Plan, found: Found, device: Mapping[str, object], versions: Mapping[str, str]
) -> bool:
    """Put what was found into a file; False where the file has a faster recipe for the problem.

    Raises `BenchError` for a file that holds something else, and if nothing was found.
    """
    if found.best is None:
        raise BenchError(f"no candidate of {plan.recipe.name} ran and was exact")
    table = read_best(file)
    problem = plan.problem
    shapes = table.setdefault(str(device["name"]), {}).setdefault(problem.options["dtype"], {})
    shape = "x".join(map(str, problem.sizes.values()))
    if shape in shapes and shapes[shape]["us"] <= found.best.median_us:
        return False
    shapes[shape] = {
        "recipe": plan.recipe.name,
        "sizes": found.sizes,
        "options": dict(problem.options),
        "us": round(found.best.median_us, 3),
        "us_lower": round(found.best.lower_us, 3),
        "us_upper": round(found.best.upper_us, 3),
        "peer": plan.peer,
        "peer_us": None if found.peer is None else round(found.peer.median_us, 3),
        "ratio": None if found.ratio is None else round(found.ratio, 4),
        "architecture": device["architecture"],
        "tried": found.tried,
        "skipped": dict(sorted(found.skipped.items())),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "versions": dict(versions),
    }
    write_json(_sort(table), file)
    return True


def read_best(file: Path) -> dict[str, Any]:
    """The table of a file; empty where there is no file."""
    if not file.exists():
        return {}
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        for types in table.values():
            for shapes in types.values():
                for one in shapes.values():
                    float(one["us"]), dict(one["sizes"]), str(one["recipe"])
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BenchError(
            f"{file} is no table of best sizes; give --into another file, or delete it"
        ) from None
    return dict(table)


def _sort(table: dict[str, Any]) -> dict[str, Any]:
    """In one order, whoever wrote first: a table under version control changes where it changed."""
    return {
        device: {
            dtype: dict(sorted(shapes.items(), key=lambda one: [*map(int, one[0].split("x"))]))
            for dtype, shapes in sorted(types.items())
        }
        for device, types in sorted(table.items())
    }
