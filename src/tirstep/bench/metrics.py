"""Metrics that follow from times, and runs as tables of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tirstep.transforms.recipes import RECIPES, list_ladders

from .peers import show_name
from .results import BenchRun, Case, Ceilings, Outcome


def compute_floor(case: Case, ceilings: Ceilings) -> tuple[float, str]:
    """The shortest possible time in microseconds, and what sets it: ``"memory"``, ``"arithmetic"``.

    The larger of the bytes over the copy bandwidth and the operations over the peak of the dtype.
    A peak that was not measured sets nothing.
    """
    memory = 1e6 * case.bytes / ceilings.copy
    peak = ceilings.flops.get(case.dtype)
    arithmetic = 0.0 if peak is None else 1e6 * case.flops / peak
    return (arithmetic, "arithmetic") if arithmetic > memory else (memory, "memory")


def share(case: Case, outcome: Outcome, ceilings: Ceilings) -> float | None:
    """How much of the ceiling was reached: 1 is all of it. None on the CPU and without a time."""
    if outcome.time is None or outcome.kind == "cpu":
        return None
    return compute_floor(case, ceilings)[0] / outcome.time.median_us


def share_of_copy(case: Case, outcome: Outcome, ceilings: Ceilings) -> float | None:
    """The time of a copy that moves as many bytes, over the time taken: above 1 is faster.

    None where arithmetic sets the floor, on the CPU, without a time, and in runs without copies.
    """
    copy = ceilings.copies_us.get(str(case.bytes))
    bound_by_memory = compute_floor(case, ceilings)[1] == "memory"
    if copy is None or not bound_by_memory or outcome.time is None or outcome.kind == "cpu":
        return None
    return copy / outcome.time.median_us


def rate(case: Case, outcome: Outcome, ceilings: Ceilings) -> tuple[float, str] | None:
    """TFLOP/s, or TB/s where memory sets the floor; None without a time."""
    if outcome.time is None:
        return None
    if compute_floor(case, ceilings)[1] == "memory":
        return case.bytes / outcome.time.median_us / 1e6, "TB/s"
    return case.flops / outcome.time.median_us / 1e6, "TFLOP/s"


def speedup(case: Case, outcome: Outcome, over: str) -> float | None:
    """How often faster an outcome is than another candidate: above 1 is faster."""
    other = next((it.time for it in case.outcomes if it.time and it.candidate == over), None)
    if other is None or outcome.time is None or outcome.candidate == over:
        return None
    return other.median_us / outcome.time.median_us


def list_peers(cases: Iterable[Case]) -> list[str]:
    """The peers that took part on the GPU, in order."""
    found = (outcome for case in cases for outcome in case.outcomes if outcome.kind == "peer")
    return [*dict.fromkeys(outcome.candidate for outcome in found)]


def get_first_rung(case: Case) -> str | None:
    """The first recipe, with its tail; None where no ladder of the kernel begins with it."""
    begins = {ladder[0].name for ladder in list_ladders(case.kernel)}
    recipes = (outcome.candidate for outcome in case.outcomes if outcome.kind == "recipe")
    first = next(recipes, "")
    return first if first.split(" ")[0] in begins else None


def get_fastest_recipe(case: Case) -> Outcome | None:
    """The fastest recipe; None where no recipe has a time."""
    timed = [(it.time.median_us, it) for it in case.outcomes if it.kind == "recipe" and it.time]
    return min(timed, key=lambda pair: pair[0], default=(0, None))[1]


def _get_base(outcome: Outcome) -> str | None:
    recipe = RECIPES.get(outcome.candidate.split(" ")[0])
    return None if recipe is None else recipe.base


def name_base(case: Case) -> str:
    """What `get_bases` are called for a case: rungs have bases, recipes of a text an order."""
    return "its base" if any(map(_get_base, case.outcomes)) else "the rung before"


def get_bases(case: Case) -> dict[str, str | None]:
    """By recipe, the nearest base of a rung that has a time; None for a recipe without one beside
    rungs, such as one that chooses its config. Among recipes of a text the last one before it that
    has a time.
    """
    recipes = [outcome for outcome in case.outcomes if outcome.kind == "recipe"]
    has_rungs, before = any(map(_get_base, recipes)), None
    timed = {it.candidate.split(" ")[0]: it.candidate for it in reversed(recipes) if it.time}
    bases = {}
    for outcome in recipes:
        base = _get_base(outcome)
        while base is not None and base not in timed:
            base = RECIPES[base].base
        bases[outcome.candidate] = timed.get(base or "") if has_rungs else before
        before = outcome.candidate if outcome.time else before
    return bases


def geometric_mean(ratios: Iterable[float | None]) -> float | None:
    """The geometric mean of those ratios that are known; None without any."""
    logs = [math.log(ratio) for ratio in ratios if ratio is not None]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


NOTHING = "–"
FIRST = "first rung"

Row = list[str]
Share = Callable[[Case, Outcome, Ceilings], float | None]
SHARES: Mapping[str, Share] = MappingProxyType({"of ceiling": share, "of copy": share_of_copy})
"""By column; all but the first are left out where nobody has one."""


@dataclass(frozen=True)
class Table:
    """Cells of text; the last `right` columns hold numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: int = 0

    def to_markdown(self) -> str:
        """The table in Markdown, numbers to the right; bars in cells are escaped."""
        rule = ["---"] * (len(self.header) - self.right) + ["---:"] * self.right
        lines = [self.header, rule, *self.rows]
        cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
        return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def make_case_table(case: Case, ceilings: Ceilings, *, with_before: bool = False) -> Table:
    """Everybody who took part in a case: time with quartiles, rate, shares, speed-ups.

    A speed-up above 1 says that the row is faster than the column's candidate. The share of a copy
    is there where memory binds the case.
    """
    over = {f"× {show_name(name)}": name for name in list_peers([case])}
    first = get_first_rung(case)
    if first is not None and sum(outcome.kind == "recipe" for outcome in case.outcomes) > 1:
        over[f"× {first}"] = first
    unit = "TB/s" if compute_floor(case, ceilings)[1] == "memory" else "TFLOP/s"
    shares = _choose_shares([(case, outcome) for outcome in case.outcomes], ceilings)
    header = ["candidate", "time µs", "quartiles", unit, *shares, *over]
    bases: Mapping[str, str | None] = {}
    if with_before:
        bases = get_bases(case)
        header.append(f"× {name_base(case).removeprefix('the ')}")
    rows = []
    for outcome in case.outcomes:
        time, rate_text = outcome.time, format_rate(case, outcome, ceilings)
        spread = "" if time is None else f"{_figure(time.lower_us)}–{_figure(time.upper_us)}"
        row = [show_name(outcome.candidate), format_time(outcome), spread, rate_text]
        row += [format_share(find(case, outcome, ceilings)) for find in shares.values()]
        others = [*over.values(), *([bases.get(outcome.candidate)] if with_before else [])]
        row += [format_ratio(speedup(case, outcome, name) if name else None) for name in others]
        rows.append(row)
    return Table(header, rows, len(header) - 1)


def make_summary(run: BenchRun, suite: str) -> Table:
    """A row for each case of a suite: the fastest recipe, its shares, its ratio to each peer."""
    cases = get_measured_cases(run, suite)
    bests = get_fastest_recipes(cases)
    shares = _choose_shares(bests, run.ceilings)
    over = [*list_peers(cases), FIRST]
    header = ["kernel", "shape", "dtype", "recipe", "time µs", "rate", *shares]
    header += [f"× {show_name(name)}" for name in over]
    rows: list[Row] = []
    for case in cases:
        best = get_fastest_recipe(case)
        types = f"{case.dtype}, {case.form}" if case.form else case.dtype
        row = [f"`{case.kernel}`", case.shape_text.replace("x", "×"), types]
        if best is None:
            row += [NOTHING] * (len(header) - len(row))
        else:
            rate_text = format_rate(case, best, run.ceilings, unit=True)
            row += [f"`{best.candidate}`", format_time(best), rate_text]
            row += [format_share(find(case, best, run.ceilings)) for find in shares.values()]
            row += [format_ratio(compute_ratio(case, name)) for name in over]
        rows.append(row)
    if len(rows) > 1:
        reached = (
            geometric_mean(find(case, best, run.ceilings) for case, best in bests)
            for find in shares.values()
        )
        means = (geometric_mean(compute_ratio(case, name) for case in cases) for name in over)
        metrics = [*map(format_share, reached), *map(format_ratio, means)]
        rows.append(["geometric mean", "", "", "", "", "", *metrics])
    return Table(header, rows, len(header) - 4)


def find_reasons(case: Case) -> list[str]:
    """Why candidates of a case have no time, a sentence each."""
    return [
        f"{show_name(outcome.candidate)}: {outcome.status}: {outcome.note}"
        for outcome in case.outcomes
        if outcome.status != "ok"
    ]


def format_time(outcome: Outcome) -> str:
    """The median, or the word for what is wrong."""
    return outcome.status if outcome.time is None else _figure(outcome.time.median_us)


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
    return [(case, best) for case in cases if (best := get_fastest_recipe(case)) is not None]


def _choose_shares(
    shown: Sequence[tuple[Case, Outcome]], ceilings: Ceilings
) -> Mapping[str, Share]:
    """The columns of shares that a table of these outcomes has."""
    first = next(iter(SHARES))
    return {
        name: find
        for name, find in SHARES.items()
        if name == first
        or any(find(case, outcome, ceilings) is not None for case, outcome in shown)
    }


def compute_ratio(case: Case, over: str) -> float | None:
    best = get_fastest_recipe(case)
    name = get_first_rung(case) if over == FIRST else over
    return None if best is None or name is None else speedup(case, best, name)


def _digits(value: float) -> int:
    """Places behind the point: two, or as many as two digits that say something take."""
    return 2 if value >= 0.1 or value == 0 else 1 - math.floor(math.log10(value))


def _figure(micro: float) -> str:
    return f"{micro:,.1f}" if micro < 1000 else f"{micro:,.0f}"
