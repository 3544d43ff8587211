"""Refusals of sizes and options that a kernel cannot have, before any module is made.

Each refusal is one sentence: the kernel, what is wrong with names and numbers, what to do.
"""

import difflib
from collections.abc import Iterable, Sequence


class KernelError(ValueError):
    """A kernel cannot be as requested: one sentence of what is wrong, and what to do."""


class UnjudgedError(KernelError):
    """It is not known what a program must compute: why, and what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known names that look like `name`, or all of them: the tail of an error's sentence."""
    names = list(known)
    alike = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if alike:
        return f"the nearest: {', '.join(alike)}"
    return f"there are: {', '.join(names)}" if names else "there are none"


def check_symbolic(kernel: str, names: Sequence[str], symbolic: Sequence[str]) -> None:
    """Refuse names that are no sizes of a kernel, and names given twice."""
    for name in symbolic:
        if name not in names:
            raise KernelError(
                f"{kernel}: there is no size {name!r} that could be symbolic; "
                f"{nearest(name, names)}"
            )
    if len(set(symbolic)) < len(symbolic):
        raise KernelError(
            f"{kernel}: symbolic={tuple(symbolic)!r} names a size twice; name it once"
        )


def list_names(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence: ``m, n and k``."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} {last} {names[-1]}"
