"""The parts of a document that runs of ``tirstep bench`` fill: ``<!-- begin bench-matmul -->``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from tirstep.bench.markdown import find_newest, write_suite
from tirstep.bench.suites import SUITES

from .ladder_pages.find import find_runs


def find_bench_writers(text: str, folder: Path) -> dict[str, Callable[[], str]]:
    """What fills the markers of suites that a text has, from the newest run in a folder.

    A text need not have them. A writer raises `BenchError` where no file has its suite.
    """
    return {
        f"bench-{suite}": functools.partial(_write, suite, folder)
        for suite in SUITES
        if f"<!-- begin bench-{suite} -->" in text
    }


def _write(suite: str, folder: Path) -> str:
    return write_suite(find_newest(find_runs(folder), suite), suite)
