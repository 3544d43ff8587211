"""``tirstep readme``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    readme: Annotated[Path, typer.Option(metavar="FILE", help="The file to fill.")] = Path(
        "README.md"
    ),
    ladder_json: Annotated[
        Path,
        typer.Option(metavar="FILE", help="What tirstep ladder matmul --json wrote on a GPU."),
    ] = Path("benchmarks/results/ladder-matmul.json"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 and a diff if it is stale.")
    ] = False,
) -> int:
    """Fill in the generated parts of README.md, and write docs/ladders.

    The first program's diff, the transforms, the recipes, the ladder of matmul on a GPU, the tables
    of tirstep bench, and beside the README a page for each ladder that bench measured.
    """
    from ..readme import fill_readme

    return fill_readme(readme, ladder_json, only_check=check)
