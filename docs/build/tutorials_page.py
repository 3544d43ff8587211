"""The last column of docs/tutorials.md: our times of the steps that the texts have."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from tirstep.bench.metrics import format_rate, format_ratio, format_time, speedup
from tirstep.bench.results import BenchRun, Case, Outcome

_BLOCK = re.compile(r"^<!-- begin (tutorial-[\w-]+) -->\n(.*?)^<!-- end \1 -->$", re.M | re.S)
_TIMED = re.compile(r"`tirstep (?:lower|steps) (\w+) --shape (\w+) (?:--pass \w+|--step (\w+))`")
NOT_LAST = ("input", "split", "window_in_every_thread")
"""Steps of rows that a recipe goes on from: they have no time of their own."""


def find_tutorial_writers(text: str, run: BenchRun) -> dict[str, Callable[[], str]]:
    """What fills the markers of the page, from a run of the suite tutorial."""
    return {name: partial(fill_table, table, run) for name, table in _BLOCK.findall(text)}


def fill_table(table: str, run: BenchRun) -> str:
    """The table with its last cells filled: a time, a rate, and the gain over the row above, where
    that has the same shape.
    """
    head, rule, *rows = table.splitlines()
    lines, above = [_fill(head, str(run.device["name"])), rule], None
    for row in rows:
        timed, found, cell = _TIMED.search(row), None, ""
        if timed is not None and timed[3] not in NOT_LAST:
            found = _find(run, timed[1], timed[2])
            if found is None:
                cell = "not measured"
            else:
                rate = format_rate(*found, run.ceilings, unit=True)
                cell = f"{format_time(found[1])} µs, {rate}"
            if found and above and found[0] is above[0]:
                cell += f", ×{format_ratio(speedup(*found, above[1].candidate))}"
        lines.append(_fill(row, cell))
        above = found
    return "\n".join(lines)


def _fill(row: str, cell: str) -> str:
    """A row with another last cell."""
    return f"{row.rsplit(' | ', 1)[0]} | {cell} |".replace("  |", " |")


def _find(run: BenchRun, recipe: str, shape: str) -> tuple[Case, Outcome] | None:
    """The case of a shape, and the time of a recipe there; None without one."""
    for case in run.cases:
        for outcome in case.outcomes if case.shape_text == shape else ():
            if outcome.candidate == recipe and outcome.time is not None:
                return case, outcome
    return None
