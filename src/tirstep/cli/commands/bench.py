"""``tirstep bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..catalogue import complete_kernel
from ..options import Seed
from ..refusals import UseError

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        help="Suites (matmul, bandwidth, convolution, tutorial) or kernels. [default: all]",
        autocompletion=complete_kernel,
    ),
]
File = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the run to a file, after each case."),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="DIR",
        help="Write it into a folder instead, named after the GPU, with plots.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="One shape of each entry, few rounds: does all run?")
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape", metavar="SIZES", help="Only this shape, 1024x512x2048; may be repeated."
    ),
]
Type = Annotated[
    str | None,
    typer.Option("--dtype", metavar="TYPE", help="Only this data type, such as float16."),
]
Recipes = Annotated[
    list[str] | None,
    typer.Option(
        "--recipe", metavar="RECIPE", help="Instead of the suite's recipes; may be repeated."
    ),
]
Pair = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        "--compare", metavar="OLD NEW", help="Measure nothing; compare two files of --json."
    ),
]


def command(
    names: Names = None,
    file: File = None,
    save: Folder = None,
    quick: Quick = False,
    shape: Shapes = None,
    dtype: Type = None,
    recipe: Recipes = None,
    seed: Seed = 0,
    compare: Pair = None,
) -> int:
    """Time recipes against PyTorch, Triton and dlight on a GPU.

    All run in one process, on the same tensors and the same stream, in turns and with cold caches;
    whoever computes something wrong gets no time. Needs the extra bench: pip install '.[bench]'.
    """
    if file is not None and save is not None:
        raise UseError("--json and --save both say where the run is written; give one")
    from ..bench import Wanted, show_comparison, show_run

    if compare is not None:
        return show_comparison(*compare)
    wanted = Wanted(names or [], shape or [], dtype, recipe or [], quick, seed)
    return show_run(wanted, file, save)
