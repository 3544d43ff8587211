"""Reads what ``tirstep ladder --json`` printed, on another machine perhaps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .refusals import UseError


@dataclass(frozen=True)
class TimedRecipe:
    """A recipe with its figures; None for those that it has not."""

    recipe: str
    summary: str
    time_us: float | None
    gflops: float | None
    speedup: float | None


@dataclass(frozen=True)
class TimedLadder:
    """A ladder with its times; `title` names the device, the versions and the problem."""

    title: str
    rungs: tuple[TimedRecipe, ...]


def read_ladder(file: Path) -> TimedLadder:
    """Read a ladder's document; raises `UseError` for any other, and for one without times."""
    advice = "write it anew on a GPU with: tirstep ladder matmul --shape 1024x512x2048 --json"
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        ladder = _parse(document)
        is_good = document["ok"]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UseError(f"{file} is no document of a ladder; {advice}") from None
    if not is_good:
        raise UseError(f"in {file} a check failed, so its times are worth nothing; {advice}")
    if all(rung.time_us is None for rung in ladder.rungs):
        raise UseError(f"{file} has no times; {advice}")
    return ladder


def _parse(document: dict[str, Any]) -> TimedLadder:
    versions, rows = document["versions"], document["recipes"]
    dtypes = dict.fromkeys(row["options"]["dtype"] for row in rows if row["options"])
    title = ", ".join(
        [
            document["device"]["description"],
            f"TVM {versions['tvm']}",
            f"tirstep {versions['tirstep']}",
            f"{document['kernel']} at {document['shape'].replace('x', '×')}",
            *dtypes,
        ]
    )
    figures = ("recipe", "summary", "time_us", "gflops", "speedup")
    return TimedLadder(title, tuple(TimedRecipe(*(row[key] for key in figures)) for row in rows))
