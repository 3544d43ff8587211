"""The output for people: colours and progress in a terminal, plain text in a pipe."""

from __future__ import annotations

import contextlib
import copy
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from tirstep.printing import print_error

if TYPE_CHECKING:
    from tirstep.bench.metrics import Table as TextTable
    from tirstep.lowering_checks import Diff, Run
    from tirstep.lowering_checks.facts import Fact
    from tirstep.transforms.recipes import Step

Part = str | tuple[str, str]
"""A piece of a line: text, or text and its style."""

DIFF_STYLES = (
    ("---", "bold"),
    ("+++", "bold"),
    ("@@", "cyan"),
    ("-", "red"),
    ("+", "green"),
)
TOLD_BY_TEXT = ("_loads", "_stores", "load_bytes", "store_bytes")
"""So end the keys of numbers that are in a row of text, too."""
PATIENCE = 10.0
"""Seconds after which somebody wants to know how it goes on."""
WORD_STYLES = {
    "ok": "green",
    "right": "green",
    "clean": "green",
    "failed": "bold red",
    "wrong": "bold red",
    "not judged": "yellow",
    "none": "dim",
}
"""Styles of the words of goldens and verdicts."""

# In a pipe nothing is wrapped or cut; tables take the width that they need.
_ENDLESS = 100_000


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError  # and not an exit with 1, which here means that a check failed


def change_words(diff: Diff | None) -> list[Part]:
    """``+12 −3``; nothing where there is nothing to compare with."""
    if diff is None:
        return []
    return [(f"+{diff.added}", "green"), (f" −{diff.removed}", "red")]


def step_heading(run: Run, step: Step) -> list[Part]:
    """The line above a step: its recipe, number and name, shape, and the recipe's source line."""
    from tirstep.lowering_checks.steps import step_label

    return [
        (f"# {run.recipe.name} ", "bold"),
        (step_label(step), "bold cyan"),
        tell_place(run.problem.shape_text, step),
    ]


def tell_place(shape: str, step: Step) -> Part:
    """A shape, which may be none, and the line of the recipe that made a step."""
    return "  ".join(["", *filter(None, (shape, step.location))]), "dim"


def make_table(
    left: Sequence[str], right: Sequence[str], rows: Iterable[Sequence[str | Text]], **look: Any
) -> Table:
    """A table whose columns are aligned to the left and to the right, as rich's `look` has it."""
    numbers = (Column(heading, justify="right") for heading in right)
    table = Table(*left, *numbers, **{"box": None, "pad_edge": False, **look})
    for row in rows:
        table.add_row(*row)
    return table


class Screen:
    """Standard output, and a line of progress on standard error while work goes on.

    With `quiet`, for ``--json``, only the progress is shown.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        width = None if sys.stdout.isatty() else _ENDLESS
        self._out = _Console(width=width, highlight=False, markup=False, emoji=False)
        self._wide = _Console(width=_ENDLESS, highlight=False, markup=False, emoji=False)
        self._err = _Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._status: Status | None = None
        self._doing, self._printed = ("", 0.0), 0.0

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

    def line(self, *parts: Part) -> None:
        """Print one line, folded at the terminal's width, under its text where a word in another
        style begins it.
        """
        text, start = Text.assemble(*parts), "" if not parts else parts[0]
        label = "" if isinstance(start, str) else start[0]
        room = len(label) if label.endswith(" ") else len(text.plain) - len(text.plain.lstrip())
        folded = text.wrap(self._out, self.width - room) if text.cell_len > self.width else [text]
        for place, part in enumerate(folded):
            self._print(Text.assemble(" " * (room * bool(place)), part))

    def title(self, name: str, shape: str) -> None:
        """Print the line above what is told of a program at a shape."""
        self.line((name, "bold"), (f"  {shape}" if shape else "", "dim"))

    def program(self, text: str, language: str = "python") -> None:
        """Print a program, highlighted in a terminal; `language` is a name that Pygments knows."""
        shown = Text(text.rstrip("\n"))
        if self.is_terminal:
            from rich.syntax import Syntax

            # The terminal's own colours, so that its background may be light or dark.
            shown = Syntax("", language, theme="ansi_dark").highlight(text.rstrip("\n"))
            shown.rstrip()
        self._print(shown)

    def diff(self, lines: Iterable[str]) -> None:
        """Print a unified diff, as it is but for its colours."""
        for line in lines:
            styles = (style for start, style in DIFF_STYLES if line.startswith(start))
            self._print(Text(line, next(styles, "")))

    def table(self, table: Table, *, wraps: bool = False) -> None:
        """Print a table at the width that it needs, for numbers cut short would be wrong: in a
        narrower terminal as several, each with the first column; one of prose wraps within its
        cells there.
        """
        console = self._out if wraps else self._wide
        if self.is_terminal and not self._quiet:
            self._stop_status()
            for place, part in enumerate([table] if wraps else self._split(table)):
                is_wide = self.measure(part) > self.width  # two columns, which wrap within cells
                shown = self._out if is_wide else console
                shown.print(*[""] * bool(place), part, sep="\n")
            return
        with console.capture() as captured:
            console.print(table)
        # Cells are filled up with spaces, which only a terminal has a use for.
        for line in captured.get().splitlines():
            self._print(Text(line.rstrip()))

    def _split(self, table: Table) -> list[Table]:
        """Tables of columns that the terminal has room for, each with the first of them."""
        parts: list[Table] = []
        for column in table.columns[1:]:
            for before in (parts[-1].columns if parts else [], table.columns[:1]):
                made = copy.copy(table)
                made.columns = [replace(it, _index=at) for at, it in enumerate([*before, column])]
                if before and (self.measure(made) <= self.width or len(before) == 1):
                    break
            parts = [*(parts[:-1] if len(before) > 1 else parts), made]
        return parts or [table]

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Show what `doing` says: in a terminal until something else is printed, elsewhere a line
        for every `PATIENCE` seconds in which nothing was.
        """
        self._printed = time.monotonic()
        if self._err.is_terminal:
            self._status = self._err.status("")
        is_done = threading.Event()

        def tell() -> None:
            while not is_done.wait(PATIENCE):
                (what, begun), now = self._doing, time.monotonic()
                if what and now - self._printed >= PATIENCE:
                    seconds = now - begun
                    print_error(f"{what}: {seconds:.0f} s so far" if seconds >= PATIENCE else what)

        if self._status is None:
            threading.Thread(target=tell, daemon=True).start()
        try:
            yield
        finally:
            is_done.set()
            self._stop_status()
            self._status = None

    def doing(self, what: str, about: float = 0.0) -> None:
        """Say what is being worked on, and where that is long for about how many seconds."""
        is_long = about >= PATIENCE
        what = f"{what}, about {about:.0f} s" if is_long else what
        self._doing = what, time.monotonic()
        if is_long and self._status is None:
            print_error(what)
            self._printed = time.monotonic()
        if self._status is not None:
            self._status.start()
            # With its spinner it is drawn at once, and not when the next tick is due.
            self._status.update(Text(what, "dim"), spinner="dots")

    def _stop_status(self) -> None:
        """Both streams are often one terminal, which the line of progress must not spoil."""
        if self._status is not None:
            self._status.stop()

    def _print(self, text: Text) -> None:
        if self._quiet:
            return
        self._stop_status()
        self._out.print(text, soft_wrap=True)
        self._printed = time.monotonic()


def show_facts_table(screen: Screen, columns: Mapping[str, Sequence[Fact]]) -> None:
    """Print tables one below the other, each with as many columns as the terminal takes."""
    parts: list[dict[str, Sequence[Fact]]] = [{}]
    for heading, facts in columns.items():
        wider = {**parts[-1], heading: facts}
        if parts[-1] and screen.measure(_make_facts_table(wider)) > screen.width:
            parts.append({heading: facts})
        else:
            parts[-1] = wider
    for part in parts:
        screen.line()
        screen.table(_make_facts_table(part))


def _make_facts_table(columns: Mapping[str, Sequence[Fact]]) -> Table:
    """A row for each fact of any column, by group, in the order in which they come."""
    groups: dict[str, dict[str, dict[str, Fact]]] = {}
    for heading, facts in columns.items():
        for fact in facts:
            name = f"{fact.name}, {fact.unit}" if fact.unit else fact.name
            groups.setdefault(fact.group, {}).setdefault(name, {})[heading] = fact
    cells: list[Sequence[str | Text]] = []
    for group, rows in groups.items():
        # Zeros say nothing, but for spills and bank conflicts; and ``2 × 16 B`` says what other
        # rows say again.
        worth = {
            name: own
            for name, own in rows.items()
            if any(
                it.key.startswith(("spill", "bank"))
                or (it.value and not it.key.endswith(TOLD_BY_TEXT))
                for it in own.values()
            )
        }
        if worth:
            cells.append([Text(group, "bold")])
        for name, facts_of in worth.items():
            cells.append([f"  {name}", *(_format_fact(facts_of.get(it)) for it in columns)])
    return make_table([""], [*columns], cells)


def _format_fact(fact: Fact | None) -> str:
    if fact is None:
        return ""
    if fact.key == "occupancy" and isinstance(fact.value, float):
        return f"{fact.value:.0%}"
    if isinstance(fact.value, float):
        return f"{fact.value:.3g}"
    return f"{fact.value:,}" if isinstance(fact.value, int) else str(fact.value or "?")


def show_text_table(screen: Screen, table: TextTable) -> None:
    """A table of text in columns."""
    count = len(table.header) - table.right
    rows = ([cell.strip("`") for cell in row] for row in table.rows)
    left, right = table.header[:count], table.header[count:]
    screen.table(make_table(left, right, rows, padding=(0, 2, 0, 0)))
