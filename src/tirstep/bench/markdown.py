"""The tables of the documents, each from the JSON of a run: ``<!-- begin bench-matmul -->``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .errors import BenchError
from .results import BenchRun, Case, read_run
from .suites import TUTORIAL
from .tables import Table, find_reasons, make_case_table, make_overview, make_summary


def write_suite(run: BenchRun, suite: str) -> str:
    """What a suite's markers hold: where it was measured, the tables, and what is missing.

    The tutorials' suite has a table for each case, with all contenders; the others have a row for
    each case. Raises `BenchError` if the run has no case of the suite.
    """
    cases = [case for case in run.cases if case.suite == suite]
    if not cases:
        raise BenchError(f"the run has no case of the suite '{suite}'; run: tirstep bench {suite}")
    parts = [describe(run)]
    if suite == TUTORIAL:
        for case in cases:
            parts += [f"`{case.kernel}` at {case.shape_text.replace('x', '×')}, {case.dtype}:"]
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


def describe(run: BenchRun) -> str:
    """Where and when a run was, and its ceilings."""
    packages = [("TVM", "apache-tvm"), ("PyTorch", "torch"), ("Triton", "triton"), ("CUDA", "cuda")]
    versions = [f"{name} {run.versions[key]}" for name, key in packages if key in run.versions]
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
    left = len(table.header) - table.right
    rule = ["---"] * left + ["---:"] * table.right
    rows = [[cell.replace("|", r"\|") for cell in row] for row in (table.header, *table.rows)]
    lines = [rows[0], rule, *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def find_newest(files: Iterable[Path], suite: str) -> tuple[Path, BenchRun]:
    """The newest run among files that has a suite; raises `BenchError` if none has."""
    runs = {file: read_run(file) for file in sorted(files)}
    having = {
        file: run for file, run in runs.items() if any(case.suite == suite for case in run.cases)
    }
    if not having:
        raise BenchError(f"no file has the suite '{suite}'; write one on a GPU with: make bench")
    return max(having.items(), key=lambda one: one[1].date)


def _name_device(run: BenchRun) -> str:
    return f"{run.device['name']} ({run.device['architecture']})"


def _write_reasons(cases: Sequence[Case]) -> list[str]:
    lines = []
    for case in cases:
        if case.skipped:
            lines.append(f"- {case.title}: skipped: {case.skipped}")
        lines += [f"- {case.title}: {reason}" for reason in find_reasons(case)]
    return ["\n".join(lines)] if lines else []
