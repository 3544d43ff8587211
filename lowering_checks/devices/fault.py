"""What a device sees go wrong with a kernel while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One kind of fault at one statement: the first occurrence, and how many there were.

    Attributes
    ----------
    kind : ``"race"``, ``"uninitialized read"``, ``"out of bounds"``, ``"divergent barrier"``,
        ``"divergent shuffle"``, ``"divergent warp instruction"``, ``"misaligned access"``,
        ``"division by zero"``, ``"undefined operation"`` or ``"launch"``
    buffer : the buffer's name in the lowered module; empty for barriers and launches
    text : one sentence with index and threads
    line : the kernel's ``file:line``, where TVM keeps it; may be empty
    """

    kind: str
    buffer: str
    text: str
    line: str
    count: int

    def __str__(self) -> str:
        where = f" [{self.line}]" if self.line else ""
        more = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.kind}: {self.text}{more}{where}"
