"""An audit in which some programs end the process, as TVM does where it crashes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tirstep.experiments.audit import AuditedTrial

CRASHING = {2: signal.SIGSEGV, 4: signal.SIGABRT}


def crash_at_some(seed: int, trial: int, note: str) -> AuditedTrial:
    """Trial 2 is ended within a pass, 4 before any, and the others are right."""
    if trial == 2:
        Path(note).write_text("program 2\nllvm\ntirx.StorageRewrite", "utf-8")
    if trial in CRASHING:
        os.kill(os.getpid(), CRASHING[trial])
    return AuditedTrial(trial, "program", f"program {trial}", "llvm", "right")
