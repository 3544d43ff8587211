"""``tirstep new``: a small project to start from, the files of a folder under a name of its own."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import shutil
import sys
from pathlib import Path

from tirstep.files import made_aside, write_file
from tirstep.programs.naming import ProgramError

from .formatting import count
from .request import argument, with_options

TEMPLATE = Path(__file__).parents[1] / "programs" / "template"
"""The files of the project."""
NAME = "my_kernels"
"""The template's package, whose name is replaced everywhere."""
PROGRAMS = (".ci/run",)


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
    from .formats import print_document

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


def make_project(folder: Path) -> int:
    """Write the project into a new or empty folder; return how many files it has.

    Raises `ProgramError`, and `OSError` where it cannot be written: then the folder is as it was.
    """
    name = re.sub(r"\W+", "_", folder.absolute().name.lower()).strip("_")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ProgramError(
            f"'{folder.name}' cannot name a Python package; begin DIR's name with a letter"
        )
    if name == "tests" or importlib.util.find_spec(name) is not None:
        raise ProgramError(
            f"there is a package '{name}' already, which would be imported instead of the "
            "project's; give DIR another name"
        )
    if not folder.absolute().parent.is_dir():
        raise ProgramError(f"there is no folder {folder.absolute().parent}; make it first")
    if folder.exists() and not folder.is_dir():
        raise ProgramError(f"{folder} is not a folder; give another DIR")
    if folder.is_dir() and any(folder.iterdir()):
        raise ProgramError(f"{folder} is not empty; give a new or an empty DIR")
    sources = [path for path in TEMPLATE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    with made_aside(folder) as made:
        for source in sources:
            relative = source.relative_to(TEMPLATE).as_posix()
            target = made / relative.replace(NAME, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8").replace(NAME, name)
            mode = 0o755 if relative in PROGRAMS else None
            write_file(target, text, mode=mode, durable=False)
    return len(sources)
