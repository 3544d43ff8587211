"""A new project to start from: the files of the folder `template`, under a name of one's own."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path

from tirstep.files import made_aside, write_file

from .naming import ProgramError

TEMPLATE = Path(__file__).with_name("template")
NAME = "my_kernels"
"""The template's package, whose name is replaced everywhere."""
PROGRAMS = (".ci/run",)


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
