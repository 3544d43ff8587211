"""What a check returns, and the error of a check that cannot be made."""

from __future__ import annotations

from dataclasses import dataclass


class CheckError(ValueError):
    """A check cannot be made as asked: one sentence of what is wrong and what to do."""


@dataclass(frozen=True)
class Finding:
    """Something that a check found wrong. No findings: all is well.

    Attributes
    ----------
    check : ``"golden"``, ``"numbers"``, or the device that watched, ``"simulator"``
    where : the recipe and the step, as ``matmul_naive 01_bound``
    message : one sentence
    detail : what to look at, such as a unified diff; may be empty
    """

    check: str
    where: str
    message: str
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}"
        return f"{text}\n{self.detail}" if self.detail else text
