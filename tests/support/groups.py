"""How tests are given to processes: groups stay together, and a process that dies costs one test.

xdist 3.8 hangs where a process of ``--dist loadgroup`` dies. It gives out groups that are finished
already, which a process waits behind for ever (pytest-dev/pytest-xdist#1323, #1378); it gives a new
process one test where that begins none before it knows the next (#1327); it gives out again the
very test that killed the last one (#1371); and it gives tests to a process that has not yet said
which it has, where two new ones come at once. Without this file a test that takes too long, and so
ends its process, would hang all others, or end the run.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling


class GroupScheduling(LoadGroupScheduling):
    """xdist's own, but for what it does when a process dies."""

    def remove_node(self, node: Any) -> str | None:
        workload = self.assigned_work.pop(node)
        waiting = [
            (group, test)
            for group in workload.values()
            for test, is_done in group.items()
            if not is_done
        ]
        if not waiting:
            return None
        group, crashed = waiting[0]
        group[crashed] = True
        left = {name: group for name, group in workload.items() if not all(group.values())}
        self.workqueue.update(left)
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """xdist's own keeps groups that are finished, and counts their tests again each time."""
        test = self.registered_collections[node][item_index]
        group, workload = self._split_scope(test), self.assigned_work[node]
        workload[group][test] = True
        if all(workload[group].values()):
            del workload[group]
        self._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        with suppress(OSError):  # it has just died: its share goes to others once xdist knows
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if node not in self.registered_collections:
            return  # it gets its share once it has told its tests
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling | None:
    """Where ``--dist loadgroup`` is given; xdist's own scheduler otherwise."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """Say what may have ended the process."""
    limit = float(sched.config.getini("faulthandler_timeout"))
    report.longrepr = (
        f"{report.longrepr}: either it took more than {limit:g} s (faulthandler_timeout), and its "
        "stack stands on standard error under 'Timeout', or it ended the process in another way"
    )
