"""Facts as tables in a terminal: a column for each step or architecture, a row for each fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from tirstep.lowering_checks.facts import Fact

from .screen import Screen

TOLD_BY_TEXT = ("_loads", "_stores", "load_bytes", "store_bytes")
"""So end the keys of numbers that are in a row of text, too."""


def print_facts(screen: Screen, columns: Mapping[str, Sequence[Fact]]) -> None:
    """Print tables one below the other, each with as many columns as the terminal takes."""
    parts: list[dict[str, Sequence[Fact]]] = [{}]
    for heading, facts in columns.items():
        wider = {**parts[-1], heading: facts}
        if parts[-1] and screen.measure(_make_table(wider)) > screen.width:
            parts.append({heading: facts})
        else:
            parts[-1] = wider
    for part in parts:
        screen.line()
        screen.table(_make_table(part))


def _make_table(columns: Mapping[str, Sequence[Fact]]) -> Table:
    """A row for each fact of any column, by group, in the order in which they come."""
    groups: dict[str, dict[str, dict[str, Fact]]] = {}
    for heading, facts in columns.items():
        for fact in facts:
            name = f"{fact.name}, {fact.unit}" if fact.unit else fact.name
            groups.setdefault(fact.group, {}).setdefault(name, {})[heading] = fact
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for group, rows in groups.items():
        worth = {
            name: cells
            for name, cells in rows.items()
            if any(_is_worth_a_row(fact) for fact in cells.values())
        }
        if worth:
            table.add_row(Text(group, "bold"))
        for name, cells in worth.items():
            table.add_row(f"  {name}", *(_format(cells.get(heading)) for heading in columns))
    return table


def _is_worth_a_row(fact: Fact) -> bool:
    """Zeros say nothing, but for spills and bank conflicts; and ``2 × 16 B`` says what other rows
    say again.
    """
    if fact.key.startswith(("spill", "bank")):
        return True
    return bool(fact.value and not fact.key.endswith(TOLD_BY_TEXT))


def _format(fact: Fact | None) -> str:
    if fact is None:
        return ""
    if fact.key == "occupancy" and isinstance(fact.value, float):
        return f"{fact.value:.0%}"
    if isinstance(fact.value, float):
        return f"{fact.value:.3g}"
    return f"{fact.value:,}" if isinstance(fact.value, int) else str(fact.value or "?")
