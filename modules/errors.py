"""The one error of this package."""

import difflib
from collections.abc import Iterable


class KernelError(ValueError):
    """A kernel was asked for what it cannot be: one sentence of who, what, and what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known names that look like `name`, or all of them: the tail of an error's sentence."""
    names = list(known)
    alike = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if alike:
        return f"the nearest: {', '.join(alike)}"
    return f"there are: {', '.join(names)}" if names else "there are none"
