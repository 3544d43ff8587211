"""What people see: colours and progress in a terminal, plain text in a pipe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import NoReturn

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from .stuck import end_command

Part = str | tuple[str, str]
"""A piece of a line: text, or text and its style."""

DIFF_STYLES = (
    ("---", "bold"),
    ("+++", "bold"),
    ("@@", "cyan"),
    ("-", "red"),
    ("+", "green"),
)
WORD_STYLES = {"ok": "green", "failed": "bold red", "skipped": "yellow", "none": "dim"}
"""Of the words of a verdict."""

# In a pipe nothing is wrapped or cut; tables take the width that they need.
_ENDLESS = 100_000


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError  # and not an exit with 1, which here means that a check failed


def emit(text: str) -> None:
    """Print text as it is."""
    print(text, flush=True)


class Screen:
    """Standard output, and a line of progress on standard error while work goes on."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() else _ENDLESS
        self._out = _Console(width=width, highlight=False, markup=False, emoji=False)
        self._wide = _Console(width=_ENDLESS, highlight=False, markup=False, emoji=False)
        self._err = _Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._status: Status | None = None
        self._doing = ""

    @property
    def is_terminal(self) -> bool:
        """Whether a person is watching."""
        return self._out.is_terminal

    @property
    def width(self) -> int:
        """The columns of the terminal; endless elsewhere."""
        return self._out.width

    def measure(self, table: Table) -> int:
        """The columns that a table needs."""
        return self._wide.measure(table).maximum

    def line(self, *parts: Part, wrap: bool = False) -> None:
        """Print one line; a sentence may wrap at the terminal's width, a program may not."""
        self._print(Text.assemble(*parts), soft_wrap=not wrap)

    def program(self, text: str, language: str = "python") -> None:
        """Print a program, highlighted in a terminal; `language` is a name that Pygments knows."""
        shown = Text(text.rstrip("\n"))
        if self.is_terminal:
            from rich.syntax import Syntax

            # The terminal's own colours, so that its background may be light or dark.
            shown = Syntax("", language, theme="ansi_dark").highlight(text.rstrip("\n"))
            shown.rstrip()
        self._print(shown, soft_wrap=True)

    def diff(self, lines: Iterable[str]) -> None:
        """Print a unified diff, as it is but for its colours."""
        for line in lines:
            styles = (style for start, style in DIFF_STYLES if line.startswith(start))
            self._print(Text(line, next(styles, "")), soft_wrap=True)

    def table(self, table: Table) -> None:
        """Print a table at the width that it needs: figures cut short would be wrong."""
        self._print_table(table, self._wide)

    def prose_table(self, table: Table) -> None:
        """Print a table of prose, which wraps within its cells at the terminal's width."""
        self._print_table(table, self._out)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Show what `doing` says, in a terminal only, until something else is printed.

        While it lasts, a compilation that does not end ends the command.
        """
        from tirstep.lowering_checks.compile.instruments import when_stuck  # imports TVM

        if self._err.is_terminal:
            self._status = self._err.status("")
        try:
            with when_stuck(lambda sentence: end_command(self._doing, sentence)):
                yield
        finally:
            self._stop_status()
            self._status = None

    def doing(self, what: str) -> None:
        """Say what is being worked on."""
        self._doing = what
        if self._status is not None:
            self._status.update(Text(what, "dim"))
            self._status.start()

    def _stop_status(self) -> None:
        """Both streams are often one terminal, which the line of progress must not spoil."""
        if self._status is not None:
            self._status.stop()

    def _print(self, text: Text, *, soft_wrap: bool) -> None:
        self._stop_status()
        self._out.print(text, soft_wrap=soft_wrap)

    def _print_table(self, table: Table, console: Console) -> None:
        if self.is_terminal:
            self._stop_status()
            console.print(table)
            return
        with console.capture() as captured:
            console.print(table)
        # Cells are filled up with spaces, which only a terminal has a use for.
        for line in captured.get().splitlines():
            self._print(Text(line.rstrip()), soft_wrap=True)
