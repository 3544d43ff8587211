"""What tirstep's own tests draw, for yours: strategies for kernels, shapes, options, programs.

::

    from hypothesis import given
    from tirstep.strategies import programs

    @given(programs())
    def test_my_pass(module): ...

They need Hypothesis (``pip install 'tirstep[strategies]'``); `drawn_programs` draws the same
programs from a seed, without it.
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
    "shapes",
    "sizes",
]


def __getattr__(name: str) -> Any:
    """A strategy, imported when it is asked for: `drawn_programs` needs no Hypothesis."""
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
