"""``tirstep report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..catalogue import complete_either, require_either
from ..options import DeviceName, Dtype, GoldenDir, KernelOptions, Seed, Shape, Sizes, TargetName
from ..wishes import Request, make_wish


def command(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE",
            help="Recipes, or kernels for their whole ladders: see tirstep list.",
            autocompletion=complete_either,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")
    ] = Path("report.html"),
    checks: Annotated[
        bool, typer.Option("--checks/--no-checks", help="Check, count and time the steps, too.")
    ] = True,
    target: TargetName = "cuda",
    golden_dir: GoldenDir = None,
    device: DeviceName = "auto",
    seed: Seed = 0,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
) -> int:
    """Write an HTML page of every step and every lowering pass.

    One HTML file, opened from disk: diffs and blame of TIR and CUDA, loop nests, facts, traces,
    verdicts, and times or the simulator's counts. A report of ours is replaced, no other file.

    Without --shape, a GPU takes each recipe's shape from the tutorial that it comes from, and the
    CPU that of its goldens.
    """
    request = Request(make_wish(shape, dtype, option, config), golden_dir, device, seed)
    for name in recipes:
        require_either(name)
    from ..report.command import write_report

    return write_report(recipes, request, output, target=target, checks=checks)
