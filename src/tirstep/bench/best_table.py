"""The best configs that searches found, in a file, by device, dtype and shape.

``{device: {dtype: {shape: {recipe, config, us, ...}}}}``, where a shape is spelt 1024x512x2048.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tirstep.files import locked, require_writable
from tirstep.transforms.recipes.tuned import find_flaw

from . import BenchError
from .results import write_json
from .search import SearchPlan, SearchResult


def record_best(
    file: Path,
    plan: SearchPlan,
    found: SearchResult,
    device: Mapping[str, object],
    versions: Mapping[str, str],
) -> bool:
    """Put what was found into a file; False where the file has a faster one for the problem.

    Other processes may do the same at the same time. Raises `BenchError` for a file that holds
    something else, and if nothing was found.
    """
    if found.best is None:
        raise BenchError(f"no candidate of {plan.recipe.name} ran and was exact")
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file):
        table, problem, best = read_best(file), plan.problem, found.best
        dtype = str(problem.options.get("dtype", problem.accumulator))
        shapes = table.setdefault(str(device["name"]), {}).setdefault(dtype, {})
        shape = problem.shape_text
        if shape in shapes and float(shapes[shape]["us"]) <= best.median_us:
            return False
        shapes[shape] = {
            "config": {**plan.recipe.config, **(found.config or {})},
            "searched": plan.recipe.name,
            "options": dict(problem.options),
            "us": round(best.median_us, 3),
            "us_lower": round(best.lower_us, 3),
            "us_upper": round(best.upper_us, 3),
            "peer": plan.peer.name,
            "peer_us": None if found.peer is None else round(found.peer.median_us, 3),
            "ratio": None if found.ratio is None else round(found.ratio, 4),
            **({} if found.expected_us is None else {"expected_us": round(found.expected_us, 3)}),
            "architecture": device["architecture"],
            "tried": found.tried,
            "skipped": dict(sorted(found.skipped.items())),
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "versions": dict(versions),
        }
        ordered = {  # whoever wrote first: under version control it changes where it changed
            device: {
                dtype: dict(sorted(some.items(), key=lambda it: [*map(int, it[0].split("x"))]))
                for dtype, some in sorted(types.items())
            }
            for device, types in sorted(table.items())
        }
        write_json(ordered, file)
    return True


def require_table(file: Path) -> None:
    """Raise before a search what `record_best` would raise after it."""
    read_best(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    require_writable(file)


def read_best(file: Path) -> dict[str, Any]:
    """The table of a file; empty where there is no file, or nothing in it.

    Raises `BenchError` for a file that holds something else.
    """
    if not file.exists() or (file.is_file() and not file.stat().st_size):
        return {}
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        flaw = find_flaw(table)
        for shapes in [] if flaw else [it for types in table.values() for it in types.values()]:
            untimed = [it for it in shapes if not isinstance(shapes[it].get("us"), int | float)]
            flaw = flaw or (f"{untimed[0]} has no time" if untimed else "")
    except ValueError:
        flaw = "it is no JSON"
    if flaw:
        raise BenchError(
            f"{file} is no table of best configs ({flaw}); give --into another file, or delete it"
        )
    return dict(table)
