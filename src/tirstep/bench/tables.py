"""Runs as tables of text: one for each case, and those of the documents in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from .figures import (
    find_before,
    find_best,
    find_first_rung,
    find_floor,
    geometric_mean,
    rate,
    share,
    share_of_copy,
    speedup,
)
from .results import BenchRun, Case, Ceilings, Outcome, Time
from .suites import GPU_PEERS

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "torch": "PyTorch",
        "triton": "Triton",
        "dlight": "dlight",
        "numpy": "NumPy (CPU)",
        "torch_cpu": "PyTorch (CPU)",
    }
)
"""Of peers, for people."""
NOTHING = "–"
FIRST = "first rung"

Row = list[str]
Share = Callable[[Case, Outcome, Ceilings], float | None]
SHARES: Mapping[str, Share] = MappingProxyType({"of ceiling": share, "of copy": share_of_copy})
"""By column; all but the first are left out where nobody has one."""


@dataclass(frozen=True)
class Table:
    """Cells of text; the last `right` columns hold numbers."""

    header: Row
    rows: list[Row]
    right: int


def make_case_table(case: Case, ceilings: Ceilings, *, with_before: bool = False) -> Table:
    """Everybody who took part in a case: time with quartiles, rate, shares, speed-ups.

    A speed-up above 1 says that the row is faster than the column's contender. The share of a copy
    is there where memory binds the case.
    """
    first = find_first_rung(case)
    over = {f"× {NAMES[name]}": name for name in GPU_PEERS if _took_part(case, name)}
    if first is not None and len([one for one in case.outcomes if one.kind == "recipe"]) > 1:
        over[f"× {first}"] = first
    header = ["contender", "time µs", "quartiles", _unit(case, ceilings)]
    shares = _choose_shares([(case, one) for one in case.outcomes], ceilings)
    header += [*shares, *over]
    rows = []
    for outcome in case.outcomes:
        ratios = [speedup(case, outcome, name) for name in over.values()]
        if with_before and outcome.kind == "recipe":
            before = find_before(case, outcome)
            ratios.append(None if before is None else speedup(case, outcome, before))
        elif with_before:
            ratios.append(None)
        figures = [
            format_time(outcome),
            format_spread(outcome.time),
            format_rate(case, outcome, ceilings),
        ]
        figures += [format_share(find(case, outcome, ceilings)) for find in shares.values()]
        figures += map(format_ratio, ratios)
        rows.append([NAMES.get(outcome.contender, outcome.contender), *figures])
    if with_before:
        header.append("× rung before")
    return Table(header, rows, len(header) - 1)


def make_summary(run: BenchRun, suite: str) -> Table:
    """A row for each case of a suite: the fastest recipe, its shares, its ratio to each peer."""
    cases = get_measured_cases(run, suite)
    bests = get_fastest_recipes(cases)
    shares = _choose_shares(bests, run.ceilings)
    header = ["kernel", "shape", "dtype", "recipe", "time µs", "rate", *shares]
    header += [f"× {NAMES[name]}" for name in GPU_PEERS] + [f"× {FIRST}"]
    rows = [_summarize(case, run.ceilings, [*shares.values()]) for case in cases]
    means = [
        geometric_mean(compute_ratio(case, name) for case in cases) for name in (*GPU_PEERS, FIRST)
    ]
    reached = [
        geometric_mean(find(case, best, run.ceilings) for case, best in bests)
        for find in shares.values()
    ]
    if len(rows) > 1:
        figures = [*map(format_share, reached), *map(format_ratio, means)]
        rows.append(["geometric mean", "", "", "", "", "", *figures])
    return Table(header, rows, len(header) - 4)


def find_reasons(case: Case) -> list[str]:
    """Why contenders of a case have no time, a sentence each."""
    return [
        f"{NAMES.get(one.contender, one.contender)}: {one.status}: {one.note}"
        for one in case.outcomes
        if one.status != "ok"
    ]


def format_time(outcome: Outcome) -> str:
    """The median, or the word for what is wrong."""
    return outcome.status if outcome.time is None else _figure(outcome.time.median_us)


def format_spread(time: Time | None) -> str:
    """The quartiles."""
    return "" if time is None else f"{_figure(time.lower_us)}–{_figure(time.upper_us)}"


def format_rate(case: Case, outcome: Outcome, ceilings: Ceilings, *, unit: bool = False) -> str:
    """TFLOP/s or TB/s, whichever the case is bound by."""
    found = rate(case, outcome, ceilings)
    if found is None:
        return NOTHING
    value, name = found
    digits = 1 if value >= 10 else _digits(value)
    return f"{value:.{digits}f} {name}" if unit else f"{value:.{digits}f}"


def format_share(value: float | None) -> str:
    """In percent."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def format_ratio(value: float | None) -> str:
    """With two digits, fewer where it is large."""
    if value is None:
        return NOTHING
    return f"{value:.{_digits(value)}f}" if value < 10 else f"{value:,.1f}"


def get_measured_cases(run: BenchRun, suite: str) -> list[Case]:
    return [case for case in run.cases if case.suite == suite and not case.skipped]


def get_fastest_recipes(cases: Iterable[Case]) -> list[tuple[Case, Outcome]]:
    """The cases in which a recipe has a time, each with the fastest."""
    return [(case, best) for case in cases if (best := find_best(case)) is not None]


def _choose_shares(
    shown: Sequence[tuple[Case, Outcome]], ceilings: Ceilings
) -> Mapping[str, Share]:
    """The columns of shares that a table of these outcomes has."""
    first = next(iter(SHARES))
    return {
        name: find
        for name, find in SHARES.items()
        if name == first or any(find(case, one, ceilings) is not None for case, one in shown)
    }


def _summarize(case: Case, ceilings: Ceilings, shares: Sequence[Share]) -> Row:
    best = find_best(case)
    head = [f"`{case.kernel}`", case.shape_text.replace("x", "×"), case.dtype]
    if best is None:
        return [*head, *[NOTHING] * (3 + len(shares) + len(GPU_PEERS) + 1)]
    figures = [format_time(best), format_rate(case, best, ceilings, unit=True)]
    figures += [format_share(find(case, best, ceilings)) for find in shares]
    ratios = [format_ratio(compute_ratio(case, name)) for name in (*GPU_PEERS, FIRST)]
    return [*head, f"`{best.contender}`", *figures, *ratios]


def compute_ratio(case: Case, over: str) -> float | None:
    best = find_best(case)
    name = find_first_rung(case) if over == FIRST else over
    return None if best is None or name is None else speedup(case, best, name)


def _took_part(case: Case, name: str) -> bool:
    return any(one.contender == name for one in case.outcomes)


def _unit(case: Case, ceilings: Ceilings) -> str:
    return "TB/s" if find_floor(case, ceilings)[1] == "memory" else "TFLOP/s"


def _digits(value: float) -> int:
    """Places behind the point: two, or as many as two digits that say something take."""
    return 2 if value >= 0.1 or value == 0 else 1 - math.floor(math.log10(value))


def _figure(micro: float) -> str:
    return f"{micro:,.1f}" if micro < 1000 else f"{micro:,.0f}"
