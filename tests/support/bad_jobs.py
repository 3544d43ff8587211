"""Jobs for other processes, which import them by name: some hang, crash or do not start."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections.abc import Mapping
from typing import Any

from tirstep.bench.compile_pool import CompileJob
from tirstep.experiments import Subject


def misbehave(job: CompileJob, spelled: Mapping[str, object]) -> str:
    """As its config says: hold Python's lock for hours, or be done; noisy, as TVM is."""
    print("a log")
    os.write(2, b"another log")
    if "hold" in job.config:
        re.match("(a+)+$", 60 * "a" + "b")
    return ""


def refuse_to_start() -> None:
    os._exit(3)


def attempt_or_crash(subject: Subject) -> dict[str, Any]:
    """The text of a module; in a worker's process, that of trial 2 crashes."""
    if "program 2 " in subject.label and multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGSEGV)
    return {"status": "right", "reason": str(subject.module), "is_changed": True, "raised": ""}
