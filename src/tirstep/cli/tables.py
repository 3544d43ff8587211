"""Tables in a terminal: of a ladder, of the facts of steps, and of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from tirstep.bench.tables import Table as TextTable
from tirstep.lowering_checks import Counts, Device, Diff, Verdict
from tirstep.lowering_checks.devices import Timing
from tirstep.lowering_checks.facts import Fact
from tirstep.lowering_checks.steps import step_label
from tirstep.lowering_checks.verdict import golden_word, numbers_word

from .formatting import format_shape, spell_config
from .judging import JudgedRecipe, compute_speedup, find_baseline, get_common_shape
from .screen import WORD_STYLES, Screen, change_words

NO_DEVICE = "no device"
TOLD_BY_TEXT = ("_loads", "_stores", "load_bytes", "store_bytes")
"""So end the keys of numbers that are in a row of text, too."""


@dataclass(frozen=True)
class _Row:
    """A row, for a rung or for one of its steps."""

    rung: JudgedRecipe
    verdicts: Sequence[Verdict]
    is_step: bool
    change: Diff | None
    timing: Timing | None
    speedup: float | None


_Cell = Callable[[_Row], Text]


def show_ladder_table(
    screen: Screen, rungs: Sequence[JudgedRecipe], device: Device, *, with_steps: bool
) -> None:
    """A row for each rung, and for each of its steps if asked; times where there is a clock."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, padding=(0, 1, 0, 0))
    columns = _columns(
        with_deltas=any(rung.recipe.delta for rung in rungs),
        with_shape=get_common_shape(rungs) is None,
        has_clock=device.has_clock,
    )
    if any(rung.counts is not None for rung in rungs):
        columns |= COUNT_COLUMNS
    for name, (justify, _) in columns.items():
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    baseline = find_baseline(rungs)
    for rung in rungs:
        for row in _rows(rung, baseline, with_steps):
            table.add_row(*(cell(row) for _, cell in columns.values()))
    screen.table(table)
    notes = []
    if baseline is not None:
        notes.append(
            f"speed-up over {baseline.recipe.name}; GFLOP/s by the kernel's count of operations"
        )
    if any(rung.counts is not None for rung in rungs):
        notes.append(
            "traffic: global memory that the last step touches, as a multiple of the least to move"
        )
        notes.append("the rest: of the first GPU block of its launches, a request for each warp")
    devices = {_name_device(place) for rung in rungs for place in rung.checked_on}
    for other in sorted(devices - {device.name, NO_DEVICE}):
        skipped = f"steps that {device.name} cannot run yet"
        notes.append(f"numbers on {other}: of {skipped}, at the shape of their goldens")
    if notes:
        screen.line()
    for note in notes:
        screen.line((note, "dim"), wrap=True)


def _rows(rung: JudgedRecipe, baseline: JudgedRecipe | None, with_steps: bool) -> list[_Row]:
    ratio = compute_speedup(rung, baseline)
    rows = [_Row(rung, rung.verdicts, False, rung.change, rung.timing, ratio)]
    if with_steps:
        rows += [
            _Row(rung, [verdict], True, verdict.diff, verdict.timing, None)
            for verdict in rung.verdicts
        ]
    return rows


def _columns(
    *, with_deltas: bool, with_shape: bool, has_clock: bool
) -> dict[str, tuple[str, _Cell]]:
    columns: dict[str, tuple[str, _Cell]] = {"recipe": ("left", _name)}
    if with_deltas:
        columns["adds"] = ("left", _delta)
    columns |= {
        "steps": ("right", lambda row: Text("" if row.is_step else str(_count_steps(row.rung)))),
        "golden": ("left", lambda row: _styled(_golden(row))),
        "numbers": ("left", _numbers),
        "lines": ("right", _lines),
    }
    if with_shape:
        columns["shape"] = ("left", lambda row: Text("" if row.is_step else _shape(row.rung)))
    if has_clock:
        columns["time us"] = ("right", _microseconds)
        columns["GFLOP/s"] = ("right", _gflops)
        columns["speed-up"] = ("right", lambda row: _number(row.speedup, "x"))
    return columns


def _name(row: _Row) -> Text:
    if row.is_step:
        return Text(f"  {step_label(row.verdicts[0].step)}", "dim")
    return Text(row.rung.recipe.name, "dim" if row.rung.status == "skipped" else "cyan")


def _delta(row: _Row) -> Text:
    return Text("" if row.is_step else spell_config(row.rung.recipe.delta))


def _count_steps(rung: JudgedRecipe) -> int | str:
    return "" if rung.run is None else len(rung.run.steps) - 1


def _golden(row: _Row) -> str:
    return "skipped" if row.rung.error is not None else golden_word(row.verdicts) or ""


def _name_device(place: str) -> str:
    """``cpu`` of ``cpu 64x48``; ``no device`` where a step was run nowhere, without the reason."""
    return NO_DEVICE if place.startswith(NO_DEVICE) else place.split()[0]


def _numbers(row: _Row) -> Text:
    rung = row.rung
    if rung.error is not None:
        return Text()
    if rung.own_findings and not row.is_step:
        return _styled("failed")
    places = [verdict.checked_on for verdict in row.verdicts] if row.is_step else rung.checked_on
    devices = dict.fromkeys(map(_name_device, places))
    cell = _styled(numbers_word(row.verdicts) or "")
    return cell.append(f" on {', '.join(devices)}", "dim") if devices else cell


def _lines(row: _Row) -> Text:
    return Text.assemble(*change_words(row.change))


def _shape(rung: JudgedRecipe) -> str:
    return "" if rung.run is None else format_shape(rung.run.problem.shape)


def _microseconds(row: _Row) -> Text:
    return _number(None if row.timing is None else row.timing.median * 1e6)


def _gflops(row: _Row) -> Text:
    flops = row.rung.flops_per_second(row.timing)
    return _number(None if flops is None else flops / 1e9)


def _number(number: float | None, unit: str = "") -> Text:
    return Text("" if number is None else f"{number:,.1f}{unit}")


def _styled(word: str) -> Text:
    return Text(word, WORD_STYLES.get(word, ""))


def _count(read: Callable[[Counts], int | str]) -> _Cell:
    def cell(row: _Row) -> Text:
        counts = row.rung.counts
        return Text("" if counts is None or row.is_step else str(read(counts)))

    return cell


def _traffic_over_least(row: _Row) -> Text:
    counts, run = row.rung.counts, row.rung.run
    if counts is None or run is None or row.is_step or not run.problem.bytes:
        return Text()
    return _number(counts.traffic / run.problem.bytes, "x")


def _wavefronts_per_request(counts: Counts) -> str:
    shared = counts.scopes.get("shared")
    return f"{shared.wavefronts_per_request:.1f}" if shared else ""


def _bank_conflicts(counts: Counts) -> int | str:
    return counts.scopes["shared"].bank_conflicts if "shared" in counts.scopes else ""


COUNT_COLUMNS: dict[str, tuple[str, _Cell]] = {
    "traffic": ("right", _traffic_over_least),
    "wavefronts/request": ("right", _count(_wavefronts_per_request)),
    "bank conflicts": ("right", _count(_bank_conflicts)),
    "barriers": ("right", _count(lambda counts: counts.barriers)),
}
"""Of a ladder on the simulator, where times would say nothing."""


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
            table.add_row(f"  {name}", *(_format_fact(cells.get(heading)) for heading in columns))
    return table


def _is_worth_a_row(fact: Fact) -> bool:
    """Zeros say nothing, but for spills and bank conflicts; and ``2 × 16 B`` says what other rows
    say again.
    """
    if fact.key.startswith(("spill", "bank")):
        return True
    return bool(fact.value and not fact.key.endswith(TOLD_BY_TEXT))


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
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, header in enumerate(table.header):
        is_number = place >= len(table.header) - table.right
        shown.add_column(header, justify="right" if is_number else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*(cell.strip("`") for cell in row))
    screen.table(shown)
