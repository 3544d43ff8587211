"""What a check returns, and the error of a check that cannot be made."""

from __future__ import annotations

from dataclasses import dataclass, replace


class CheckError(ValueError):
    """A check cannot be made as asked: one sentence of what is wrong and what to do."""


@dataclass(frozen=True)
class Finding:
    """Something that a check found wrong. No findings: all is well.

    Attributes
    ----------
    check : ``"golden"``, ``"numbers"``, ``"threads"`` (`find_unfinished`), or the device that
        watched, ``"simulator"``
    where : the recipe and the step, as ``matmul_naive 01_bound``
    message : one sentence
    detail : what to look at, such as a unified diff; may be empty
    source : ``file:line`` of the recipe's statement that ended the step; empty where no recipe ran
    """

    check: str
    where: str
    message: str
    detail: str = ""
    source: str = ""

    @property
    def place(self) -> str:
        """Where it is for people: the step with the recipe's line, where that is known."""
        return f"{self.where} [{self.source}]" if self.source else self.where

    def at(self, source: str) -> Finding:
        """The same, with the recipe's line."""
        return replace(self, source=source)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}"
        return f"{text}\n{self.detail}" if self.detail else text
