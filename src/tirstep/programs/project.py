"""A new project to start from: the files of the folder `template`, under a name of one's own."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tirstep.files import write_file

from .program_error import ProgramError

TEMPLATE = Path(__file__).with_name("template")
NAME = "my_kernels"
"""Of the package in the template, wherever it stands there."""
PROGRAMS = (".ci/run",)


def make_project(folder: Path) -> list[Path]:
    """Write the project into a new or empty folder; return its files.

    Raises `ProgramError`, and `OSError` where it cannot be written: then the folder is as it was.
    """
    name = _choose_name(folder)
    _require_room(folder)
    was_there = folder.exists()
    try:
        return list(_write_files(folder, name))
    except BaseException:
        _empty(folder)
        if not was_there and folder.exists():
            folder.rmdir()
        raise


def _write_files(folder: Path, name: str) -> Iterator[Path]:
    for source in sorted(path for path in TEMPLATE.rglob("*") if path.is_file()):
        if source.suffix == ".pyc":
            continue
        relative = source.relative_to(TEMPLATE).as_posix()
        target = folder / relative.replace(NAME, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, source.read_text(encoding="utf-8").replace(NAME, name), durable=False)
        if relative in PROGRAMS:
            target.chmod(0o755)
        yield target


def _empty(folder: Path) -> None:
    """Remove what was made in a folder in which nothing was."""
    for path in list(folder.iterdir()) if folder.exists() else []:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _choose_name(folder: Path) -> str:
    """The package's name, out of the folder's."""
    name = re.sub(r"\W+", "_", folder.absolute().name.lower()).strip("_")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ProgramError(
            f"'{folder.name}' gives no name of a Python package; begin DIR's name with a letter"
        )
    if name == "tests" or importlib.util.find_spec(name) is not None:
        raise ProgramError(
            f"there is a package '{name}' already, which the project's own would be taken for; "
            "give DIR another name"
        )
    return name


def _require_room(folder: Path) -> None:
    if not folder.absolute().parent.is_dir():
        raise ProgramError(f"there is no folder {folder.absolute().parent}; make it first")
    if folder.exists() and not folder.is_dir():
        raise ProgramError(f"{folder} is no folder; give another DIR")
    if folder.is_dir() and any(folder.iterdir()):
        raise ProgramError(f"{folder} has files, and they stay; give a new DIR, or an empty one")
