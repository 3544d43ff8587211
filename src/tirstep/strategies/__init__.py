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
    "kernel_strategies": ("EXTENT", "open_sizes", "options", "shapes", "sizes"),
    "module_strategies": ("Drawn", "kernels", "programs", "recipe_steps", "schedules"),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    """A strategy, imported when it is asked for: `players` and `plays` need no Hypothesis."""
    homes = [home for home, names in _HOMES.items() if name in names]
    if not homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = importlib.import_module(f".{homes[0]}", __name__)
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise ImportError(
            f"tirstep.strategies.{name} needs Hypothesis: pip install 'tirstep[strategies]'"
        ) from error
    return getattr(home, name)
