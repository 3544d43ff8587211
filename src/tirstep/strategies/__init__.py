"""What tirstep's own tests draw, for yours: strategies for kernels, shapes, schedules, programs.

::

    from hypothesis import given
    from tirstep.strategies import programs, schedules

    @given(programs())
    def test_my_pass(module): ...

They need Hypothesis (``pip install 'tirstep[strategies]'``). `players` and `plays` draw the same
schedules from a seed, without it.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "EXTENT": "kernel_strategies",
    "shapes": "kernel_strategies",
    "options": "kernel_strategies",
    "open_sizes": "kernel_strategies",
    "sizes": "kernel_strategies",
    "kernels": "module_strategies",
    "programs": "module_strategies",
    "schedules": "module_strategies",
    "recipe_steps": "module_strategies",
    "Drawn": "module_strategies",
}
__all__ = [
    "EXTENT",
    "Drawn",
    "kernels",
    "open_sizes",
    "options",
    "programs",
    "recipe_steps",
    "schedules",
    "shapes",
    "sizes",
]


def __getattr__(name: str) -> Any:
    """A strategy, imported when it is asked for: `players` and `plays` need no Hypothesis."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = importlib.import_module(f".{_HOMES[name]}", __name__)
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise ImportError(
            f"tirstep.strategies.{name} needs Hypothesis: pip install 'tirstep[strategies]'"
        ) from error
    return getattr(home, name)
