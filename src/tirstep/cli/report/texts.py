"""The texts of a report: steps and passes share most of their lines, so each is kept once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """A program, by its lines."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Text:
        """A text, without the empty lines around it."""
        return cls(tuple(text.strip("\n").splitlines()))


class TextTable:
    """Every line once, and every text as the places of its lines.

    Attributes
    ----------
    lines : the distinct lines
    texts : the distinct texts, each as places in `lines`
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.texts: list[list[int]] = []
        self._places: dict[str, int] = {}
        self._numbers: dict[Text, int] = {}

    def add(self, text: Text) -> int:
        """Keep a text; its number in `texts`."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append([self._place(line) for line in text.lines])
        return self._numbers[text]

    def _place(self, line: str) -> int:
        if line not in self._places:
            self._places[line] = len(self.lines)
            self.lines.append(line)
        return self._places[line]
