"""The options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .catalogue import complete_recipe
from .parsers import whole_number

RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="A recipe: see tirstep list.", autocompletion=complete_recipe
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        metavar="SIZES",
        help="The kernel's sizes, 1024x512x2048 or m=64,n=48,k=32. [default: those of the "
        "recipe's example]",
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option("--dtype", metavar="TYPE", help="The kernel's data type, such as float16."),
]
KernelOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=VALUE", help="An option of the kernel: transpose_b=true."
    ),
]
Sizes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A size of the recipe: tile_k=8."),
]
StepName = Annotated[
    str | None,
    typer.Option("--step", metavar="STEP", help="A step, by name or number. [default: the last]"),
]
TargetName = Annotated[
    str,
    typer.Option(
        "--target", metavar="TARGET", help="cuda, opencl, llvm, sm_80 and the like, or TVM's tags."
    ),
]
DeviceName = Annotated[
    str,
    typer.Option(
        "--device", metavar="NAME", help="Where modules run: auto, cuda, simulator, host or cpu."
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", parser=whole_number("--seed", least=0), help="Of the random inputs."
    ),
]
Context = Annotated[
    int,
    typer.Option(
        "--context",
        metavar="N",
        parser=whole_number("--context", least=0),
        help="Lines around a change.",
        show_default=True,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
GoldenDir = Annotated[
    Path | None,
    typer.Option(
        "--golden-dir",
        metavar="DIR",
        help="The folder of the goldens. [default: tests/golden, if any]",
    ),
]
