"""What runs of ``tirstep bench`` fill: the parts of documents, ``<!-- begin bench-matmul -->``, and
the plots beside the runs.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pages import write_table
from plots import draw_bars, draw_roofline

from tirstep.bench import BenchError
from tirstep.bench.cases import LADDER_SUITES, NOT_MEASURED, SUITES
from tirstep.bench.peers import GPU_PEERS, PEERS
from tirstep.bench.results import BenchRun, Case, Ceilings, read_run
from tirstep.bench.tables import (
    Row,
    Table,
    compute_ratio,
    find_reasons,
    format_ratio,
    format_share,
    geometric_mean,
    get_fastest_recipes,
    get_measured_cases,
    make_case_table,
    make_summary,
    share,
)


def write_suite(run: BenchRun, suite: str) -> str:
    """What a suite's markers hold: where it was measured, the tables, and what is missing.

    The tutorials' suite has a table for each case, with all candidates; the others have a row for
    each case. Raises `BenchError` if the run has no case of the suite.
    """
    cases = [case for case in run.cases if case.suite == suite]
    if not cases:
        raise BenchError(f"the run has no case of the suite '{suite}'; run: tirstep bench {suite}")
    parts = [describe(run)]
    if suite in LADDER_SUITES:
        for case in cases:
            types = ", ".join(filter(None, (case.dtype, case.form)))
            parts += [f"`{case.kernel}` at {case.shape_text.replace('x', '×')}, {types}:"]
            if not case.skipped:
                parts.append(to_markdown(make_case_table(case, run.ceilings, with_before=True)))
    else:
        parts.append(to_markdown(make_summary(run, suite)))
    return "\n\n".join([*parts, *_write_reasons(cases)])


def write_overview(measured: Mapping[str, BenchRun]) -> str:
    """What the overview's markers hold: where each suite was measured, and a row for each kernel.

    `measured` are runs by suite.
    """
    suites: dict[str, list[str]] = {}
    for suite, run in measured.items():
        suites.setdefault(f"{_name_device(run)}, {run.date[:10]}", []).append(suite)
    where = "; ".join(f"{place}: {', '.join(names)}" for place, names in suites.items())
    return f"{where}.\n\n{to_markdown(make_overview(measured.items()))}"


def make_overview(measured: Iterable[tuple[str, BenchRun]]) -> Table:
    """A row for each kernel of some suites, each suite with the run that measured it. A kernel that
    an earlier suite has, too, bears the name of the suite.

    Of each case the fastest recipe counts: the largest share of a ceiling, and the geometric mean
    of the ratios to each peer, over the cases in which both have a time.
    """
    header = ["kernel", "cases", "of ceiling, at best", "× PyTorch", "lowest × PyTorch"]
    header += [f"× {peer.title}" for peer in GPU_PEERS if peer.name != "torch"]
    rows: list[Row] = []
    for suite, run in measured:
        kernels: dict[str, list[Case]] = {}
        for case in get_measured_cases(run, suite):
            kernels.setdefault(case.kernel, []).append(case)
        for kernel, cases in kernels.items():
            label = f"`{kernel}`"
            is_new = all(row[0] != label for row in rows)
            rows.append(
                [label if is_new else f"{label}, {suite}", *_summarize(cases, run.ceilings)]
            )
    return Table(header, rows, len(header) - 1)


def _summarize(cases: Sequence[Case], ceilings: Ceilings) -> Row:
    bests = get_fastest_recipes(cases)
    shares = [value for case, best in bests if (value := share(case, best, ceilings)) is not None]
    names = [peer.name for peer in GPU_PEERS]
    ratios = {name: [compute_ratio(case, name) for case in cases] for name in names}
    means = {name: format_ratio(geometric_mean(values)) for name, values in ratios.items()}
    lowest = min((ratio for ratio in ratios["torch"] if ratio is not None), default=None)
    return [
        str(len(cases)),
        format_share(max(shares, default=None)),
        means.pop("torch"),
        format_ratio(lowest),
        *means.values(),
    ]


def describe(run: BenchRun) -> str:
    """Where and when a run was, and its ceilings."""
    packages = {"apache-tvm": "TVM"}
    for peer in PEERS.values():
        if peer.package and peer.device == "cuda":
            packages.setdefault(peer.package, peer.title)
    packages["cuda"] = "CUDA"
    versions = [
        f"{name} {run.versions[key]}" for key, name in packages.items() if key in run.versions
    ]
    ceilings = run.ceilings
    peaks = [f"{flops / 1e12:.1f} TFLOP/s in {dtype}" for dtype, flops in ceilings.flops.items()]
    limits = [f"copies of {ceilings.copy / 1e12:.2f} TB/s", *peaks]
    return (
        f"{', '.join([_name_device(run), *versions, run.date[:10]])}. "
        f"Ceilings measured in the same run: {', '.join(limits)}. "
        f"A kernel that does nothing shows {ceilings.empty_us:.1f} µs."
    )


def to_markdown(table: Table) -> str:
    """A table in Markdown."""
    return write_table(table.header, table.rows, right=table.right)


def find_runs(folder: Path) -> list[Path]:
    """The files of runs in a folder, without those of ``--quick``, whose times are rough, and
    without those of drawn shapes, which docs/shapes.md sums up.
    """
    files = sorted(folder.glob("bench-*.json"))
    return [file for file in files if not file.stem.endswith(("-quick", "-shapes"))]


def find_newest(files: Iterable[Path], suite: str) -> tuple[Path, BenchRun]:
    """The newest run among files that has a suite; raises `BenchError` if none has."""
    runs = {file: read_run(file) for file in sorted(files)}
    having = {
        file: run for file, run in runs.items() if any(case.suite == suite for case in run.cases)
    }
    if not having:
        raise BenchError(f"no file has the suite '{suite}'; write one on a GPU with: make bench")
    return max(having.items(), key=lambda pair: pair[1].date)


def _name_device(run: BenchRun) -> str:
    return f"{run.device['name']} ({run.device['architecture']})"


def _write_reasons(cases: Sequence[Case]) -> list[str]:
    lines = []
    for case in cases:
        if case.skipped:
            lines.append(f"- {case.title}: skipped: {case.skipped}")
        lines += [f"- {case.title}: {reason}" for reason in find_reasons(case)]
    return ["\n".join(lines)] if lines else []


def find_bench_writers(document: Path, folder: Path) -> dict[str, Callable[[], str]]:
    """What fills the markers of runs that a document has, from the newest run of each suite.

    ``bench-<suite>`` are a suite's tables, ``plots-<suite>`` its plots, and ``bench-overview`` is
    a row for each kernel. A document need not have them. A writer raises `BenchError` where no
    file of the folder has its suite.
    """
    writers: dict[str, Callable[[], str]] = {
        "bench-overview": functools.partial(_write_overview, folder)
    }
    for suite in SUITES:
        writers[f"bench-{suite}"] = functools.partial(_write, suite, folder)
        writers[f"plots-{suite}"] = functools.partial(_show, suite, folder, document.parent)
    text = document.read_text(encoding="utf-8")
    return {name: writer for name, writer in writers.items() if f"<!-- begin {name} -->" in text}


def make_plots(run: BenchRun, file: Path) -> dict[Path, str]:
    """The plots of every suite and dtype of a run, by the files beside its own."""
    texts = {}
    for suite in dict.fromkeys(case.suite for case in run.cases):
        for plot, _, text in _draw(run, file, suite):
            texts[plot] = text
    return texts


def make_all_plots(folder: Path) -> dict[Path, str]:
    """Those of all runs of a folder; raises `BenchError` for a file that is no run."""
    texts: dict[Path, str] = {}
    for file in find_runs(folder):
        texts |= make_plots(read_run(file), file)
    return texts


def _draw(run: BenchRun, file: Path, suite: str) -> list[tuple[Path, str, str]]:
    """Of each plot of a suite: its file, what it shows, and its text."""
    cases = [case for case in run.cases if case.suite == suite and not case.skipped]
    kinds = (("bars", draw_bars), ("roofline", draw_roofline))
    plots = []
    for dtype in dict.fromkeys(case.dtype for case in cases):
        for kind, draw in kinds:
            if text := draw(run, suite, dtype, all_recipes=suite in LADDER_SUITES):
                plot = file.with_name(f"{file.stem}-{suite}-{dtype}-{kind}.svg")
                plots.append((plot, f"{suite}, {dtype}: {kind}", text))
    return plots


def _write(suite: str, folder: Path) -> str:
    return write_suite(find_newest(find_runs(folder), suite)[1], suite)


def _write_overview(folder: Path) -> str:
    files = find_runs(folder)
    suites = [suite for suite in SUITES if suite not in (*LADDER_SUITES, *NOT_MEASURED)]
    return write_overview({suite: find_newest(files, suite)[1] for suite in suites})


def _show(suite: str, folder: Path, beside: Path) -> str:
    """Links to the plots of a suite's newest run, for a document that lies in `beside`."""
    file, run = find_newest(find_runs(folder), suite)
    return "\n\n".join(
        f"![{title}]({Path(os.path.relpath(plot, beside)).as_posix()})"
        for plot, title, _ in _draw(run, file, suite)
    )
