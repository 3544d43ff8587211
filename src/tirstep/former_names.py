"""Names that moved: they warn, say the new one, and go with the next version."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def make_former_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` for names that it had before.

    `names` are the new ones by the old ones, each as ``module.name``.
    """

    def get_former(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now {names[name]}", DeprecationWarning, stacklevel=2)
        home, _, new = names[name].rpartition(".")
        return getattr(importlib.import_module(home), new)

    return get_former


def add_former_modules(package: str, moved: Mapping[str, str]) -> None:
    """Keep modules importable that a package had before: `moved` has the new ones, by their names
    inside of the package, whose own import says so first. What a new one lacks is the package's.
    """
    for old, new in moved.items():
        name, home = f"{package}.{old}", f"{package}.{new}"
        module = ModuleType(name, f"The former name of `{home}`.")
        module.__getattr__ = _make_forward(name, home)  # type: ignore[method-assign]
        sys.modules[name] = module


def _make_forward(old: str, home: str) -> Callable[[str], Any]:
    def get_former(name: str) -> Any:
        if name.startswith("__"):  # of tools that look at all modules that are loaded
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        module = importlib.import_module(home)
        if not hasattr(module, name):
            module = importlib.import_module(home.rpartition(".")[0])
        found = getattr(module, name)
        warnings.warn(f"{old} is now {home}", DeprecationWarning, stacklevel=2)
        return found

    return get_former
