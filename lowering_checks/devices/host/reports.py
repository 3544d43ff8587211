"""What the runtime says went wrong, as faults with sentences."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from ..fault import Fault
from .generated import Buffer

EXCERPT = 100
_BARRIERS = {
    "some": "only some threads of a block come to a barrier: the others have ended",
    "different": "threads of a block wait at different barriers",
    "lanes": "lanes of a warp wait for others that never come",
}
_DEPENDS = {
    "race": "the order in which threads run: a barrier is missing, or two threads write it",
    "uninitialized read": "memory that nobody has written",
}


@dataclass(frozen=True)
class Report:
    """One line of the runtime's (runtime/faults.h): a kind of fault at one place.

    Attributes
    ----------
    detail : a verb, a C++ type in quotes, or which fault of its kind
    buffer : the number of a buffer in global memory; -1 for none
    element : of the buffer, or of the array of the type
    line : of the generated source; 0 where it is not known
    who : thread and block; empty where they are not known
    """

    kind: str
    detail: str
    buffer: int
    element: int
    line: int
    count: int
    who: str

    @classmethod
    def parse(cls, text: str) -> Report:
        """Read a line with tabs between its fields."""
        kind, detail, buffer, element, line, count, known, thread, block = text.split("\t")
        who = f"thread {thread} of block {block}" if known == "1" else ""
        return cls(kind, detail, int(buffer), int(element), int(line), int(count), who)

    def explain(self, buffers: list[Buffer], source: str) -> Fault:
        """The fault, with names for numbers."""
        lines = source.splitlines()
        excerpt = lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""
        shown = excerpt if len(excerpt) <= EXCERPT else f"{excerpt[:EXCERPT]} …"
        place = f" (line {self.line} of the generated source: {shown})" if excerpt else ""
        if self.buffer >= 0:
            buffer = buffers[self.buffer]
            name, text = buffer.name, self._explain_global(buffer)
        else:
            name = _find_array(lines, excerpt, self.detail)
            text = self._explain_local(name)
        return Fault(self.kind, name, text + place, "", self.count)

    def _explain_global(self, buffer: Buffer) -> str:
        place = f"{buffer.name}[{self.element}]"
        size = f"which has {math.prod(buffer.shape)} elements"
        if self.kind in _DEPENDS:
            indices = np.unravel_index(self.element, buffer.shape)
            place = f"{buffer.name}[{', '.join(str(int(index)) for index in indices)}]"
            return f"{place} depends on {_DEPENDS[self.kind]}"
        if not self.who:
            return f"somebody writes {place}, {size}"
        if self.kind == "misaligned access":
            return (
                f"{self.who} touches {place} as {_plain(self.detail)}, for which it is not aligned"
            )
        verb = "touches" if self.detail.startswith("'") else self.detail
        return f"{self.who} {verb} {place}, {size}"

    def _explain_local(self, name: str) -> str:
        if self.detail in _BARRIERS:
            return _BARRIERS[self.detail]
        if self.kind == "misaligned access":
            place = "a place in shared memory or a local"
            return (
                f"{self.who} touches {place} as {_plain(self.detail)}, for which it is not aligned"
            )
        if self.kind == "undefined operation" and self.detail == "shift":
            return f"{self.who} shifts by {self.element} bits, and the type does not have as many"
        if self.kind == "undefined operation":
            return (
                f"{self.who} converts a number that {_plain(self.detail)} does not hold: a GPU "
                "takes the nearest that it does, and a CPU another one"
            )
        if self.kind != "out of bounds":
            return f"{self.who} {self.detail}"
        if "[" in self.detail:
            return (
                f"{self.who} touches {name or 'an array'}[{self.element}], a {_plain(self.detail)}"
            )
        if self.detail.startswith("'"):
            return f"{self.who} touches a {_plain(self.detail)} beyond the end of an array"
        return f"{self.who} {self.detail} an address far from every array"


def _plain(type_name: str) -> str:
    """A type as the source writes it: ``'const struct float4'`` is ``float4``."""
    return re.sub(r"\b(?:const|struct) |\s+(?=\[)", "", type_name.strip("'"))


def _find_array(lines: list[str], excerpt: str, type_name: str) -> str:
    """The array of a type that a line of the source names; empty unless there is just one."""
    size = re.search(r"\[(\d+)\]", type_name)
    if size is None:
        return ""
    declared = re.compile(rf"\b(\w+)\[{size[1]}\];")
    names = {found[1] for line in lines if (found := declared.search(line))}
    here = sorted(name for name in names if re.search(rf"\b{name}\b", excerpt))
    return re.sub(r"_ptr(?=_\d+$|$)", "", here[0]) if len(here) == 1 else ""
