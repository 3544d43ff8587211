"""``tirstep golden``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GoldenDir, Json


def command(
    write: Annotated[
        bool, typer.Option("--write", help="Write them anew, and delete all others; not under CI.")
    ] = False,
    golden_dir: GoldenDir = None,
    json: Json = False,
) -> int:
    """Say which goldens would change, or write them anew."""
    from ..golden import compare_goldens, write_goldens

    return (write_goldens if write else compare_goldens)(golden_dir, as_json=json)
