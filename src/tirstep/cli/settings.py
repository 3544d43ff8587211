"""``[tool.tirstep]`` in a project's pyproject.toml: options of commands where none are given.

::

    [tool.tirstep]                 # of every command that has them
    golden-dir = "kernels/golden"  # a path is the project's
    device = "simulator"

    [tool.tirstep.check]
    strict = true
    may-be-not-judged = ["legacy_*"]
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from .formatting import suggest
from .wrong_use import UseError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PATHS = {"golden_dir"}
Defaults = dict[str, dict[str, Any]]


def read_settings(commands: dict[str, Any]) -> Defaults:
    """The options of each command, as the nearest pyproject.toml above the current folder has them.

    Raises `UseError` for a file that is not TOML, and for unknown options.
    """
    here = Path.cwd()
    files = (folder / "pyproject.toml" for folder in (here, *here.parents))
    file = next((it for it in files if it.is_file()), None)
    if file is None:
        return {}
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("tirstep", {})
    except (OSError, ValueError) as error:
        raise UseError(f"{file}: cannot be read: {error}") from None
    options = {
        name: {str(it.opts[0])[2:]: it.name for it in command.params if it.opts[0][:2] == "--"}
        for name, command in commands.items()
    }
    known = {key for own in options.values() for key in own}
    everywhere = {key: value for key, value in given.items() if key not in commands}
    _require_known(everywhere, known, f"{file}: [tool.tirstep]")
    found: Defaults = {}
    for name, own in options.items():
        table = given.get(name, {})
        if not isinstance(table, dict):
            raise UseError(f"{file}: [tool.tirstep]: {name} must be a table of options")
        _require_known(table, own, f"{file}: [tool.tirstep.{name}]")
        values = {own[key]: it for key, it in {**everywhere, **table}.items() if key in own}
        found[name] = values | {it: str(file.parent / values[it]) for it in _PATHS & {*values}}
    return found


def _require_known(table: dict[str, Any], known: Collection[str], where: str) -> None:
    for key in table:
        if key not in known:
            told = suggest(key, known, "tirstep COMMAND --help lists them")
            raise UseError(f"{where}: no command takes '{key}'; {told}")
