"""Tables in a terminal: of a ladder, of the facts of steps, and of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from tirstep.bench.metrics import Table as TextTable
from tirstep.lowering_checks import Device, Verdict
from tirstep.lowering_checks.devices import Timing
from tirstep.lowering_checks.facts import Fact
from tirstep.lowering_checks.steps import step_label
from tirstep.lowering_checks.verdict import golden_word, numbers_word

from .formatting import format_shape, spell_config
from .judging import JudgedRecipe, compute_speedup, find_baseline, get_common_shape
from .screen import WORD_STYLES, Screen, change_words, make_table

NO_DEVICE = "no device"
TOLD_BY_TEXT = ("_loads", "_stores", "load_bytes", "store_bytes")
"""So end the keys of numbers that are in a row of text, too."""
COUNTS = ("wavefronts/request", "bank conflicts", "barriers")
"""Of a ladder on the simulator, where times would say nothing."""
PROSE = ("recipe", "adds", "golden", "numbers", "shape")
"""The columns that are no numbers."""


def show_ladder_table(
    screen: Screen, rungs: Sequence[JudgedRecipe], device: Device, *, with_steps: bool
) -> None:
    """A row for each rung, and for each of its steps if asked; times where there is a clock."""
    baseline = find_baseline(rungs)
    has_counts = any(rung.counts is not None for rung in rungs)
    left_out = {
        *(() if any(rung.recipe.delta for rung in rungs) else ("adds",)),
        *(("shape",) if get_common_shape(rungs) is not None else ()),
        *(() if device.has_clock else ("time us", "GFLOP/s", "speed-up")),
        *(() if has_counts else ("traffic", *COUNTS)),
    }
    rows: list[dict[str, Text]] = []
    for rung in rungs:
        run, counts, is_judged = rung.run, rung.counts, rung.error is None
        numbers = _numbers(rung.verdicts, rung.checked_on) if is_judged else Text()
        numbers = _styled("failed") if is_judged and rung.own_findings else numbers
        least = 0 if run is None else run.problem.bytes
        shared = counts and counts.scopes.get("shared")
        counted = {
            COUNTS[0]: f"{shared.wavefronts_per_request:.1f}" if shared else "",
            COUNTS[1]: str(shared.bank_conflicts) if shared else "",
            COUNTS[2]: str(counts.barriers) if counts else "",
        }
        rows.append(
            {
                "recipe": Text(rung.recipe.name, "dim" if rung.status == "skipped" else "cyan"),
                "adds": Text(spell_config(rung.recipe.delta)),
                "steps": Text("" if run is None else str(len(run.steps) - 1)),
                "golden": _styled((golden_word(rung.verdicts) or "") if is_judged else "skipped"),
                "numbers": numbers,
                "lines": Text.assemble(*change_words(rung.change)),
                "shape": Text("" if run is None else format_shape(run.problem.shape)),
                **_time_cells(rung, rung.timing),
                "speed-up": _number(compute_speedup(rung, baseline), "x"),
                "traffic": _number(counts.traffic / least if counts and least else None, "x"),
                **{name: Text(cell) for name, cell in counted.items()},
            }
        )
        for verdict in rung.verdicts if with_steps else ():
            golden = (golden_word([verdict]) or "") if is_judged else "skipped"
            own = _numbers([verdict], [verdict.checked_on]) if is_judged else Text()
            rows.append(
                {
                    "recipe": Text(f"  {step_label(verdict.step)}", "dim"),
                    "golden": _styled(golden),
                    "numbers": own,
                    "lines": Text.assemble(*change_words(verdict.diff)),
                    **_time_cells(rung, verdict.timing),
                }
            )
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, padding=(0, 1, 0, 0))
    columns = [name for name in rows[0] if name not in left_out]
    for name in columns:
        table.add_column(name, justify="left" if name in PROSE else "right")
    for row in rows:
        table.add_row(*(row.get(name, "") for name in columns))
    screen.table(table)
    notes = []
    if baseline is not None:
        notes.append(
            f"speed-up over {baseline.recipe.name}; GFLOP/s by the kernel's count of operations"
        )
    if has_counts:
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


def _name_device(place: str) -> str:
    """``cpu`` of ``cpu 64x48``; ``no device`` where a step was run nowhere, without the reason."""
    return NO_DEVICE if place.startswith(NO_DEVICE) else place.split()[0]


def _numbers(verdicts: Sequence[Verdict], places: Sequence[str]) -> Text:
    devices = dict.fromkeys(map(_name_device, places))
    cell = _styled(numbers_word(verdicts) or "")
    return cell.append(f" on {', '.join(devices)}", "dim") if devices else cell


def _time_cells(rung: JudgedRecipe, timing: Timing | None) -> dict[str, Text]:
    flops = rung.flops_per_second(timing)
    return {
        "time us": _number(None if timing is None else timing.median * 1e6),
        "GFLOP/s": _number(None if flops is None else flops / 1e9),
    }


def _number(number: float | None, unit: str = "") -> Text:
    return Text("" if number is None else f"{number:,.1f}{unit}")


def _styled(word: str) -> Text:
    return Text(word, WORD_STYLES.get(word, ""))


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
