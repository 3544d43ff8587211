"""What tiles and the parts of a product cost, fitted to measured times: a JSON file a GPU.

``{schedule: {"dtype": dtype, "costs": {...}, "fit": {...}, "tiles": [{..., "rate": ..., "crowded":
...}]}}``: `costs` are fields of `Costs`, tiles those of `TileRate`, but for "matmul", whose tiles
have the config of their schedule; `fit` says on how many times they were fitted and how far off
they are there. `benchmarks/fit_costs.py` writes those of "matmul".
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from ..rungs import read_pairs
from ..time_model import Costs, TileRate

FILE = Path(__file__).parent / "nvidia-h200.json"


@cache
def read_table(schedule: str) -> dict[str, Any]:
    """What the file has of a schedule."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))[schedule]
    return found


@cache
def read_costs(schedule: str) -> Costs:
    """What the parts of a product cost by a schedule."""
    return Costs(**read_table(schedule)["costs"])


@cache
def read_tiles(schedule: str) -> tuple[TileRate, ...]:
    """The tiles of a schedule of tensor cores."""
    return tuple(TileRate(**read_pairs(tile)) for tile in read_table(schedule)["tiles"])  # type: ignore[arg-type]
