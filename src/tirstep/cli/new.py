"""``tirstep new``: a small project to start from."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from .formatting import count
from .request import argument, with_options


@with_options()
def command(
    *,
    folder: Path = argument("DIR", "A new or empty folder."),
    json: bool,
) -> int:
    """Create a small project to start from.

    It has a kernel, a recipe, a test, a golden, a Makefile and CI; its package is named after DIR,
    and make test passes there from the start.
    """
    from tirstep.programs.project import make_project

    from .json_output import print_document

    files = make_project(folder)
    place = shlex.quote(str(folder))
    found = shutil.which("python3")  # the project's Makefile takes this one by itself
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    make = "make test" if is_ours else f"make test PYTHON={shlex.quote(sys.executable)}"
    if json:
        print_document("new", folder=folder, files=files, next=f"cd {place} && {make}")
    else:
        print(f"{folder}: {count(files, 'file')}; next: cd {place} && {make}", flush=True)
    return 0
