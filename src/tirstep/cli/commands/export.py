"""``tirstep export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..catalogue import require_recipe
from ..options import Dtype, KernelOptions, RecipeName, Shape, Sizes, TargetName
from ..parsers import one_of
from ..wishes import make_wish

FORMS = ("git",)
"""What a recipe can be exported as."""


def command(
    recipe: RecipeName,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to; a new folder, or an empty one.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--as", metavar="|".join(FORMS), parser=one_of("--as", FORMS), help="What to write."
        ),
    ] = "git",
    force: Annotated[
        bool, typer.Option("--force", help="Replace DIR, if an export made it.")
    ] = False,
    target: TargetName = "cuda",
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
) -> int:
    """Write a recipe as a git repository with a commit for each step.

    module.py is the step's TIR, kernel.cu its device source, facts.txt its facts, and the message
    has the lines of the trace. So git log -p, git blame, git diff and git bisect run work on a
    schedule. The same recipe gives the same hashes on every machine.
    """
    wish = make_wish(shape, dtype, option, config)
    require_recipe(recipe)
    from ..export import export_recipe

    return export_recipe(recipe, wish, folder, target=target, force=force)
