"""What must hold of a step's lowering, as plain values: whoever lowers it can check them.

A recipe states them by step::

    expects={"decomposed": ("vector_loads == 2", "spills == 0 on sm_90a", SourcePattern("..."))}

The facts' names and their meaning are those of `tirstep.lowering_checks.facts`, which this package
does without.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ..schedule import TransformError

RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
UNITS = {"": 1, "B": 1, "KiB": 1024}
_FORM = re.compile(
    r"(?P<fact>[\w.]+) *(?P<relation>[=!<>]=|[<>]) *(?P<value>\d+(\.\d+)?) *(?P<unit>B|KiB)?"
    r"( on (?P<architecture>sm_\w+))?"
)


@dataclass(frozen=True)
class Expect:
    """A fact and what it must be.

    Attributes
    ----------
    fact : its name, such as ``"vector_loads"``, or of an instruction, such as ``"LDG.128"``
    relation : one of `RELATIONS`
    value : in bytes where it is a size
    architecture : for facts of the compiled kernel; None for sm_90a
    """

    fact: str
    relation: str
    value: float
    architecture: str | None = None

    def __str__(self) -> str:
        place = f" on {self.architecture}" if self.architecture else ""
        return f"{self.fact} {self.relation} {self.value:g}{place}"

    def is_met_by(self, value: float) -> bool:
        """Whether a value of the fact is as expected."""
        return RELATIONS[self.relation](value, self.value)


@dataclass(frozen=True)
class SourcePattern:
    """What the device's source must look like, as FileCheck reads it.

    Attributes
    ----------
    pattern : lines such as ``CHECK: for (int k_0 = 0;``; see LLVM's documentation of FileCheck
    """

    pattern: str

    def __str__(self) -> str:
        lines = [line.strip() for line in self.pattern.strip().splitlines()]
        return lines[0] if len(lines) == 1 else f"{lines[0]} ..."


Expectation = Expect | SourcePattern
Expectations = Mapping[str, tuple[Expectation, ...]]


def parse_expectation(text: str) -> Expect:
    """The expectation of a sentence such as ``shared_bytes <= 48 KiB`` or ``FFMA > 0 on sm_80``."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise TransformError(
            "parse_expectation",
            f"'{text}' is no expectation",
            f"write FACT, one of {' '.join(RELATIONS)}, a number, and where the fact is of the "
            "compiled kernel, 'on sm_80'",
        )
    value = float(found["value"]) * UNITS[found["unit"] or ""]
    return Expect(found["fact"], found["relation"], value, found["architecture"])


def read_expectations(expects: Mapping[str, Sequence[str | Expectation]] | None) -> Expectations:
    """Expectations by step, sentences among them parsed."""
    made = {
        step: tuple(parse_expectation(it) if isinstance(it, str) else it for it in given)
        for step, given in (expects or {}).items()
    }
    return MappingProxyType(made)
