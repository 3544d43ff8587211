"""Jobs for the compile pool that do as their config says; processes import them by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tirstep.bench.compile_pool import CompileJob


def misbehave(job: CompileJob, spelled: Mapping[str, object]) -> str:
    """Hold Python's lock for hours, or be done; noisy, as TVM is."""
    print("a log")
    os.write(2, b"another log")
    if "hold" in job.config:
        re.match("(a+)+$", 60 * "a" + "b")
    return ""


def refuse_to_start() -> None:
    os._exit(3)
