"""What a mutant is: an original, and the mistake that somebody made in it.

In a recipe the mistake is an edit of the schedule's trace, a wrong knob or a wrong call; in a
module it is an edit of its TIR as TVM prints it. Nothing here reads the source of a recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tvm.s_tir import Schedule

from .traces import TraceEdit

RECIPE, SCHEDULED, LOWERED, GOLDEN = "recipe", "scheduled module", "lowered module", "golden"
LEVELS = (RECIPE, SCHEDULED, LOWERED, GOLDEN)


@dataclass(frozen=True)
class Edit:
    """Replace one occurrence of a text; further lines of `new` are indented like its first.

    `which` counts the occurrences from 0. `old` must not span lines.
    """

    old: str
    new: str
    which: int = 0

    def apply(self, text: str) -> str:
        """The text with the edit; raises `LookupError` where there is nothing to edit."""
        at = -1
        for _ in range(self.which + 1):
            at = text.find(self.old, at + 1)
            if at < 0:
                raise LookupError(f"no occurrence {self.which} of {self.old!r}: fix the mutant")
        line = text[text.rfind("\n", 0, at) + 1 :]
        indent = line[: len(line) - len(line.lstrip())]
        return text[:at] + self.new.replace("\n", "\n" + indent) + text[at + len(self.old) :]


def drop(line: str, which: int = 0) -> Edit:
    """A TIR statement left out: what is `line` becomes a statement that does nothing."""
    return Edit(line, "T.evaluate(0)", which)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A planted bug.

    Attributes
    ----------
    name, kind, text : what it is called, the kind of mistake, and what was done, for people
    original : the name of the program that is changed (originals.py)
    level : where the bug is planted, one of `LEVELS`
    chance : devices where it reads memory that nobody wrote, so that the result is luck
    survives : why nothing kills it, for a declared survivor
    equivalent : the argument, for a change that alters no result on any input
    """

    name: str
    kind: str
    text: str
    original: str
    level: str
    chance: tuple[str, ...] = ()
    survives: str = ""
    equivalent: str = ""


@dataclass(frozen=True, kw_only=True)
class ModuleMutant(Mutant):
    """A bug in a module: edits of its text, one after the other."""

    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Misuse:
    """A wrong call of our transforms, on a schedule of the module of a recipe's step."""

    after: str
    call: Callable[[Schedule], object]


@dataclass(frozen=True, kw_only=True)
class RecipeMutant(Mutant):
    """A recipe as somebody would write it wrongly.

    What our transforms say to it, they say to `misuse`, or to the recipe with a `config`. The
    program that the other layers judge is made with TVM's own primitives, which refuse little.

    Attributes
    ----------
    misuse : the mistake with our transforms; None where it is not a call of one
    config : the mistake as knobs of the recipe
    trace : the mistake as edits of the original's trace
    primitives : the mistake as what is done to the schedule after all other instructions
    """

    level: str = RECIPE
    misuse: Misuse | None = None
    config: Mapping[str, object] = field(default_factory=dict, hash=False)
    trace: tuple[TraceEdit, ...] = ()
    primitives: Callable[[Schedule], object] | None = None


@dataclass(frozen=True, kw_only=True)
class GoldenMutant(Mutant):
    """A fault in the folder of goldens: `plant` gets a fresh copy of the original's.

    `trace` is edited before the goldens are written.
    """

    level: str = GOLDEN
    plant: Callable[[Path], None]
    trace: tuple[TraceEdit, ...] = ()
