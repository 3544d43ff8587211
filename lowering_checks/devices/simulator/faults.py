"""Collects what the simulator finds wrong with a kernel while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..fault import Fault


class UnsupportedError(NotImplementedError):
    """The simulator does not know something that a module uses: one sentence that names it."""


class UnknownFunctionError(UnsupportedError):
    """A call of a function whose meaning nobody has registered."""


@dataclass
class FaultLog:
    """Collects faults: the first of each kind, buffer and line in words, the others counted.

    `muted` is a kind that is not noted for the time being.
    """

    muted: str = ""
    _texts: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _counts: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        buffer: str,
        line: str,
        wrong: np.ndarray[Any, Any],
        describe: Callable[[tuple[int, ...]], str],
    ) -> None:
        """Note the places where `wrong` holds; `describe` gets the position of the first."""
        count = 0 if kind == self.muted else int(np.count_nonzero(wrong))
        if not count:
            return
        key = (kind, buffer, line)
        if key not in self._texts:
            first = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            self._texts[key] = describe(tuple(int(position) for position in first))
        self._counts[key] = self._counts.get(key, 0) + count

    def add_sentence(self, kind: str, text: str) -> None:
        """Note a fault that has no place in a buffer."""
        key = (kind, "", text)
        self._texts.setdefault(key, text)
        self._counts[key] = 1

    def faults(self) -> list[Fault]:
        """All faults, in the order in which they were first seen."""
        return [
            Fault(
                kind, buffer, text, "" if line == text else line, self._counts[kind, buffer, line]
            )
            for (kind, buffer, line), text in self._texts.items()
        ]


def find_line(node: Any) -> str:
    """A node's ``file:line`` in the kernel; empty where TVM dropped it."""
    span = getattr(node, "span", None)
    return f"{span.source_name.name}:{span.line}" if span is not None else ""
