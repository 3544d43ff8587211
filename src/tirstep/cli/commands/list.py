"""``tirstep list``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..catalogue import complete_either
from ..options import Json


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="Only this kernel or recipe.",
            autocompletion=complete_either,
        ),
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="With the steps of every recipe.")] = False,
    json: Json = False,
) -> int:
    """List kernels, ladders and recipes, with their knobs and steps."""
    from ..listing import list_kernels

    return list_kernels(name, with_steps=steps, as_json=json)
