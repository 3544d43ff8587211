"""What tiles and the parts of a product cost, fitted to measured times: a JSON file a kernel.

``{"gpu": name, "dtype": dtype, "costs": {...}, "tiles": [{"config": {...}, "rate": ..., "crowded":
..., "registers": ...}], "fit": {...}}``: `costs` are fields of `Costs`, `fit` says on how many
times they were fitted and how far off they are there. `benchmarks/bench_shapes.py` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import TransformError
from ..gpus import GPUS
from ..time_model import Costs

FOLDER = Path(__file__).parent


class Fitted(NamedTuple):
    """Costs of a kernel's schedule, and its tiles as the file has them."""

    costs: Costs
    tiles: tuple[Mapping[str, Any], ...]


@cache
def read_costs(kernel: str) -> Fitted:
    """The costs of a kernel; raises `TransformError` for a file that holds something else."""
    file = FOLDER / f"{kernel}.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return Fitted(Costs(**found["costs"], gpu=GPUS[found["gpu"]]), tuple(found["tiles"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TransformError(
            "read_costs",
            f"{file} has no costs of {kernel}: {type(error).__name__} {error}",
            "take the file that tirstep came with",
        ) from error
