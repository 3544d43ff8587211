"""What runs of ``tirstep bench`` fill: the parts of documents, ``<!-- begin bench-matmul -->``, and
the plots beside the runs.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

from tirstep.bench.markdown import find_newest, write_overview, write_suite
from tirstep.bench.plots import draw_bars, draw_roofline
from tirstep.bench.results import BenchRun, read_run
from tirstep.bench.suites import SUITES, TUTORIAL

from .ladder_pages.find import find_runs


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
    return {name: one for name, one in writers.items() if f"<!-- begin {name} -->" in text}


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
            if text := draw(run, suite, dtype, all_recipes=suite == TUTORIAL):
                plot = file.with_name(f"{file.stem}-{suite}-{dtype}-{kind}.svg")
                plots.append((plot, f"{suite}, {dtype}: {kind}", text))
    return plots


def _write(suite: str, folder: Path) -> str:
    return write_suite(find_newest(find_runs(folder), suite)[1], suite)


def _write_overview(folder: Path) -> str:
    files = find_runs(folder)
    suites = [suite for suite in SUITES if suite != TUTORIAL]
    return write_overview({suite: find_newest(files, suite)[1] for suite in suites})


def _show(suite: str, folder: Path, beside: Path) -> str:
    """Links to the plots of a suite's newest run, for a document that lies in `beside`."""
    file, run = find_newest(find_runs(folder), suite)
    return "\n\n".join(
        f"![{title}]({Path(os.path.relpath(plot, beside)).as_posix()})"
        for plot, title, _ in _draw(run, file, suite)
    )
