"""Which files of its user's a page depends on: all that its processes imported, but for installed
packages and for Python's own modules.

``--watch`` names a folder by an environment variable, and each process that makes a page leaves
there the names of such files: of what fails, too, whose files are in no page.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tirstep.files import write_file

FOLDER_VARIABLE = "TIRSTEP_OWN_FILES"
"""The environment variable that names the folder, for the processes of ``--watch`` alone."""
INSTALLED = ("site-packages", "dist-packages")


@contextlib.contextmanager
def noting_files() -> Iterator[None]:
    """Leave the names of the files that this process has imported by the end, or failed to."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        yield
        return
    files: set[Path] = set()
    try:
        yield
    except BaseException as error:
        files = find_failed_files(error)
        raise
    finally:
        names = "".join(f"{file}\n" for file in sorted(files | find_imported_files()))
        left = Path(folder, f"{secrets.token_hex(8)}.txt")
        with contextlib.suppress(OSError):  # without it a change is not seen, and the page is made
            write_file(left, os.fsencode(names), durable=False)


def read_left_files(folder: Path) -> set[Path]:
    """The files whose names were left in a folder."""
    found: set[Path] = set()
    for left in folder.glob("*.txt"):
        found.update(map(Path, os.fsdecode(left.read_bytes()).splitlines()))
    return found


def find_imported_files() -> set[Path]:
    """Of all modules that are loaded."""
    # By their dictionaries: a module may do something where a name is missing.
    places = (vars(module).get("__file__") for module in list(sys.modules.values()))
    return _pick_own(place for place in places if isinstance(place, str))


def find_failed_files(error: BaseException | None) -> set[Path]:
    """Where an error came from, and those behind it: what did not import is no module."""
    places: list[str] = []
    while error is not None:
        if isinstance(error, SyntaxError) and error.filename:
            places.append(error.filename)
        traceback = error.__traceback__
        while traceback is not None:
            places.append(traceback.tb_frame.f_code.co_filename)
            traceback = traceback.tb_next
        error = error.__cause__ or error.__context__
    return _pick_own(iter(places))


def _pick_own(places: Iterator[str]) -> set[Path]:
    standard = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    found = (Path(os.path.abspath(place)) for place in places if place.endswith(".py"))
    return {
        file
        for file in found
        if not any(part in INSTALLED for part in file.parts)
        and not any(folder and file.is_relative_to(folder) for folder in standard)
        and file.is_file()
    }
