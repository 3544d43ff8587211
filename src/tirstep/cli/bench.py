"""``tirstep bench``: measures, and shows every case as it comes."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table as RichTable

from tirstep.bench.arena import Settings
from tirstep.bench.compare import Change, compare_runs, find_differences
from tirstep.bench.compile_cache import find_cache_folder
from tirstep.bench.machine import Machine
from tirstep.bench.results import (
    BenchRun,
    Case,
    Time,
    read_run,
    require_run_or_nothing,
    write_run,
)
from tirstep.bench.session import run_bench
from tirstep.bench.suites import SUITES, TUTORIAL
from tirstep.bench.tables import NAMES, Table, find_reasons, format_ratio, make_case_table
from tirstep.bench.tables import make_summary as summarize_suite
from tirstep.bench.works import Choice, Work, find_works
from tirstep.files import locked, write_file
from tirstep.lowering_checks.devices import is_cuda_available

from .bench_parts import make_plots
from .refusals import UseError
from .screen import Screen

QUICK_ROUNDS = 5
VERDICT_STYLES = {"faster": "green", "slower": "bold red", "same": "dim"}


@dataclass(frozen=True)
class Wanted:
    """What `bench` is asked to measure, as its user spelt it."""

    names: Sequence[str]
    shapes: Sequence[str]
    dtype: str | None
    recipes: Sequence[str]
    quick: bool
    seed: int

    @property
    def choice(self) -> Choice:
        """The same for the suites."""
        shapes = [parse_sizes(text) for text in self.shapes]
        return Choice(self.names, shapes, self.dtype, self.recipes, self.quick)

    @property
    def suffix(self) -> str:
        """What of it goes into a file's name: nothing where it is all."""
        words = [*self.names, *self.shapes, *([self.dtype] if self.dtype else []), *self.recipes]
        return "".join(f"-{word}" for word in [*words, *(["quick"] if self.quick else [])])


def parse_sizes(text: str) -> tuple[int, ...]:
    """``1024x512x2048``: which kernel it is for is not known yet."""
    if not re.fullmatch(r"\d+([x×,]\d+)*", text):
        raise UseError(f"--shape {text} is no shape; give it as 1024x512x2048")
    return tuple(int(size) for size in re.split("[x×,]", text))


def show_run(wanted: Wanted, file: Path | None, folder: Path | None) -> int:
    """Measure what is wanted; 1 if a recipe of ours was wrong or failed."""
    works, absent = find_works(wanted.choice)
    machine = make_machine("bench")
    screen = Screen()
    if folder is not None:
        file = folder / f"bench-{slug(str(machine.device['name']))}{wanted.suffix}.json"
    settings = Settings(seed=wanted.seed)
    if wanted.quick:
        settings = Settings(rounds=QUICK_ROUNDS, budget=settings.budget / 10, seed=wanted.seed)

    def on_case(run: BenchRun, case: Case) -> None:
        if len(run.cases) == 1:
            _show_machine(screen, run, works)
        _show_case(screen, run, case)
        if file is not None:
            write_run(run, file)

    with _own(file), screen.working():
        run = run_bench(
            works,
            machine,
            settings,
            cache=find_cache_folder(),
            tell=screen.doing,
            on_case=on_case,
        )
    _show_end(screen, run, absent)
    if file is not None:
        screen.line((f"wrote {file}", "green"))
    if folder is not None and file is not None:
        for plot, text in make_plots(run, file).items():
            write_file(plot, text)
            screen.line((f"wrote {plot}", "green"))
    return 1 if _find_faults(run) else 0


@contextlib.contextmanager
def _own(file: Path | None) -> Iterator[None]:
    """A file into which this process alone writes its run, if anything can be written there."""
    if file is None:
        yield
        return
    require_run_or_nothing(file)
    with locked(file, seconds=0):
        yield


def make_machine(command: str) -> Machine:
    """The GPU; raises `UseError` where there is none, and where PyTorch is missing."""
    if not is_cuda_available():
        raise UseError(
            f"{command} needs a GPU, and this machine has no CUDA device that TVM can use; run it "
            "on one that has"
        )
    if importlib.util.find_spec("torch") is None:
        raise UseError(
            f"{command} launches and times through PyTorch, which is not installed; install the "
            f"extra bench, in a clone: {sys.executable} -m pip install '.[bench]'"
        )
    from tirstep.bench.torch_machine import TorchMachine

    return TorchMachine()


def show_comparison(old: Path, new: Path) -> int:
    """Compare two files, contender by contender."""
    before, after = read_run(old), read_run(new)
    screen = Screen()
    for sentence in find_differences(before, after):
        screen.line((sentence, "yellow"))
    table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header, justify in (
        ("case", "left"),
        ("contender", "left"),
        ("before µs", "right"),
        ("after µs", "right"),
        ("speed-up", "right"),
        ("", "left"),
    ):
        table.add_column(header, justify=justify)  # type: ignore[arg-type]
    changes = compare_runs(before, after)
    for change in changes:
        table.add_row(*_change_cells(change), style=VERDICT_STYLES.get(change.verdict))
    screen.table(table)
    counts = {word: sum(one.verdict == word for one in changes) for word in VERDICT_STYLES}
    screen.line(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 0


def slug(name: str) -> str:
    """A name as part of a file's name: ``nvidia-h200``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _change_cells(change: Change) -> list[str]:
    name = NAMES.get(change.contender, change.contender)
    times = [_microseconds(change.before), _microseconds(change.after)]
    return [change.title, name, *times, format_ratio(change.ratio), change.verdict]


def _microseconds(time: Time | None) -> str:
    return "" if time is None else f"{time.median_us:,.1f}"


def _show_machine(screen: Screen, run: BenchRun, works: Sequence[Work]) -> None:
    device, versions, ceilings = run.device, run.versions, run.ceilings
    screen.line(("device    ", "dim"), f"{device['name']} ({device['architecture']})")
    screen.line(("versions  ", "dim"), ", ".join(f"{key} {of}" for key, of in versions.items()))
    peaks = [f"{dtype} {flops / 1e12:.1f} TFLOP/s" for dtype, flops in ceilings.flops.items()]
    measured = [f"copy {ceilings.copy / 1e12:.2f} TB/s", *peaks]
    screen.line(("ceilings  ", "dim"), ", ".join(measured))
    screen.line(("empty     ", "dim"), f"{ceilings.empty_us:.1f} us for a kernel of nothing")
    screen.line(("cases     ", "dim"), str(len(works)))


def _show_case(screen: Screen, run: BenchRun, case: Case) -> None:
    screen.line()
    screen.line((case.title, "bold"), (f"  {case.suite}", "dim"))
    if case.skipped:
        screen.line(("skipped: ", "yellow"), case.skipped, wrap=True)
        return
    with_before = case.suite == TUTORIAL
    show_text_table(screen, make_case_table(case, run.ceilings, with_before=with_before))
    for reason in find_reasons(case):
        screen.line((reason, "yellow"), wrap=True)


def _show_end(screen: Screen, run: BenchRun, absent: Sequence[str]) -> None:
    for suite in SUITES:
        if any(case.suite == suite and not case.skipped for case in run.cases):
            screen.line()
            screen.line((f"{suite}: the fastest recipe of each case", "bold"))
            show_text_table(screen, summarize_suite(run, suite))
    if absent:
        screen.line()
        screen.line((f"not here yet, so left out: {', '.join(absent)}", "dim"), wrap=True)
    for title, contender, note in _find_faults(run):
        screen.line((f"{title}: {contender}: ", "bold red"), note, wrap=True)


def _find_faults(run: BenchRun) -> list[tuple[str, str, str]]:
    """What of our own was wrong or failed; a peer's trouble is no failure of ours."""
    return [
        (case.title, one.contender, one.note)
        for case in run.cases
        for one in case.outcomes
        if one.kind == "recipe" and one.status in ("wrong", "failed")
    ]


def show_text_table(screen: Screen, table: Table) -> None:
    """A table of text in columns."""
    shown = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, header in enumerate(table.header):
        is_figure = place >= len(table.header) - table.right
        shown.add_column(header, justify="right" if is_figure else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*(cell.strip("`") for cell in row))
    screen.table(shown)
