"""``tirstep readme``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    readme: Annotated[
        Path, typer.Option("--readme", metavar="FILE", help="The file to fill.")
    ] = Path("README.md"),
    results: Annotated[
        Path,
        typer.Option("--results", metavar="DIR", help="The folder of what tirstep bench measured."),
    ] = Path("benchmarks/results"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 and a diff if it is stale.")
    ] = False,
) -> int:
    """Fill README.md and docs/speed.md, and write docs/ladders.

    Between markers: what the programs and the commands above them print, and the tables of tirstep
    bench. Also a page for each ladder that bench measured, and the plots beside the runs.
    """
    from ..readme import fill_readme

    return fill_readme(readme, results, only_check=check)
