"""How many processes, or threads, to start at once."""

from __future__ import annotations

import os


def count_cores() -> int:
    """The cores that this process may use, where the system says it; else all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
