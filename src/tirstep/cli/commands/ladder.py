"""``tirstep ladder``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..catalogue import require_ladder
from ..options import DeviceName, Dtype, GoldenDir, Json, KernelOptions, Seed, Shape, Sizes
from ..wishes import Request, make_wish


def command(
    name: Annotated[
        str, typer.Argument(metavar="LADDER", help="A ladder, or a kernel's: see tirstep list.")
    ],
    diff: Annotated[
        bool, typer.Option("--diff", help="First print each step's diff and verdicts, as it goes.")
    ] = False,
    steps: Annotated[bool, typer.Option("--steps", help="A row for each step, too.")] = False,
    golden_dir: GoldenDir = None,
    device: DeviceName = "auto",
    seed: Seed = 0,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
    json: Json = False,
) -> int:
    """Judge all recipes of a ladder, slow to fast, in a table.

    Goldens and numbers of every step, the lines that each recipe changes, and on a GPU its time.

    Without --shape, a GPU takes each recipe's shape from the tutorial that it comes from, and the
    CPU that of its goldens. A size given with --set goes to every recipe that has it.
    """
    request = Request(make_wish(shape, dtype, option, config), golden_dir, device, seed)
    require_ladder(name)
    from ..ladder import Look, show_ladder

    return show_ladder(name, request, Look(diffs=diff, steps=steps, json=json))
