"""What a mutant is: an original, and an edit of the text that somebody would have got wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
                raise LookupError(f"no occurrence {self.which} of {self.old!r}: mend the mutant")
        line = text[text.rfind("\n", 0, at) + 1 :]
        indent = line[: len(line) - len(line.lstrip())]
        return text[:at] + self.new.replace("\n", "\n" + indent) + text[at + len(self.old) :]


def drop(line: str, which: int = 0) -> Edit:
    """A TIR statement left out: what is `line` becomes a statement that does nothing."""
    return Edit(line, "T.evaluate(0)", which)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A planted bug in a program.

    Attributes
    ----------
    name, kind, text : what it is called, the kind of mistake, and what was done, for people
    original : the name of the program that is edited (originals.py)
    level : the text that is edited: the recipe's, the scheduled module's, the lowered module's
    edits : applied one after the other
    raw : for a recipe: the same mistake in TVM's own primitives, for what our transforms refuse
    chance : devices where it reads memory that nobody wrote, so that the result is luck
    survives : why nothing kills it, for a declared survivor
    equivalent : the argument, for an edit that changes no result on any input
    """

    name: str
    kind: str
    text: str
    original: str
    level: str
    edits: tuple[Edit, ...]
    raw: tuple[Edit, ...] = ()
    chance: tuple[str, ...] = ()
    survives: str = ""
    equivalent: str = ""


@dataclass(frozen=True, kw_only=True)
class GoldenMutant:
    """A planted fault in the folder of goldens: `plant` gets a fresh copy of the original's."""

    name: str
    kind: str
    text: str
    original: str
    plant: Callable[[Path], None]
    edits: tuple[Edit, ...] = ()  # of the recipe, made before its goldens were written
    survives: str = ""
    equivalent: str = ""
    level: str = GOLDEN
