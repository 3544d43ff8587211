"""What a check returns, and the error of a check that cannot be made."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace


class CheckError(ValueError):
    """A check cannot be made as requested: one sentence of what is wrong and what to do."""


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """``did you mean a or b?``; `otherwise` where no known name is near."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


@dataclass(frozen=True)
class Finding:
    """Something that a check found wrong. No findings: all is well.

    Attributes
    ----------
    check : ``"golden"``, ``"numbers"``, ``"threads"`` (`check_ownership`), ``"expectations"``,
        ``"lowering"``, ``"recipe"`` (one that does not run), or the device that watched,
        ``"simulator"``
    where : the recipe and the step, as ``matmul_naive 01_bound``
    message : one sentence
    detail : what to look at, such as a unified diff; may be empty
    location : ``file:line`` of the recipe where the step ends; empty where no recipe ran
    """

    check: str
    where: str
    message: str
    detail: str = ""
    location: str = ""

    @property
    def place(self) -> str:
        """Where it is for people: the step with the recipe's line, where that is known."""
        return f"{self.where} [{self.location}]" if self.location else self.where

    def at(self, location: str) -> Finding:
        """The same, with the recipe's line."""
        return replace(self, location=location)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}"
        return f"{text}\n{self.detail}" if self.detail else text
