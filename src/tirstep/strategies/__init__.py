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

from typing import Any

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
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import hypothesis_strategies
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise ImportError(
            f"tirstep.strategies.{name} needs Hypothesis: pip install 'tirstep[strategies]'"
        ) from error
    return getattr(hypothesis_strategies, name)
