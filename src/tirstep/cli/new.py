"""``tirstep new``: a small project to start from."""

from __future__ import annotations

import shlex
from pathlib import Path

from .formatting import count
from .request import argument


def command(
    folder: Path = argument("DIR", "Where to; a new folder, or an empty one."),
) -> int:
    """Write a small project of your own, to start from.

    Kernel, recipe, test, golden, Makefile and CI; its package has the name of DIR, and make test
    there passes as it is.
    """
    from tirstep.programs.project import make_project

    files = make_project(folder)
    place = shlex.quote(str(folder))
    print(f"{folder}: {count(files, 'file')}; next: cd {place} && make test", flush=True)
    return 0
