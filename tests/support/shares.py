"""Long tests by shares: `make test` runs the day's share, `make test-deep` all.

A test marked ``share(n)`` is one of n: of its cases each nth runs, from another one each day. A
test of one case runs each nth day; which day hangs on its name, so that days are alike. The day is
the environment's TIRSTEP_DAY, as 2026-11-27, which `make test` sets to today's; without it, as for
a plain `pytest`, everything runs.
"""

from __future__ import annotations

import datetime
import os
import zlib
from collections import Counter
from typing import Any

import pytest

LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases that are another day's."""
    day = os.environ.get("TIRSTEP_DAY", "")
    config.stash[LEFT_OUT] = left_out = Counter[str]()
    if not day:
        return
    number = datetime.date.fromisoformat(day).toordinal()
    seen, kept, others = Counter[str](), [], []
    for item in items:
        mark = item.get_closest_marker("share")
        if mark is not None:
            name = item.nodeid.partition("[")[0]
            seen[name] += 1
            if (seen[name] + number + zlib.crc32(name.encode())) % mark.args[0]:
                left_out[name] += 1
                others.append(item)
                continue
        kept.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=others)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of xdist's tells what it left out: all leave out the same."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = dict(session.config.stash[LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a process of xdist's left out is what the whole run did."""
    told = getattr(node, "workeroutput", {}).get("left out", {})
    node.config.stash[LEFT_OUT] = Counter(told) or node.config.stash.get(LEFT_OUT, Counter())


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was left out, test by test."""
    for name, count in sorted(config.stash.get(LEFT_OUT, Counter()).items()):
        terminalreporter.line(
            f"left out on {os.environ['TIRSTEP_DAY']} (`make test-deep` runs it): {count} of {name}"
        )
