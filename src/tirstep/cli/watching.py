"""``tirstep check --watch``: the same command again, in a warm process, when a file changes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module

from tirstep.printing import print_error

from .guarding import explain_end
from .report.watch import SECONDS, list_named_files, read_stamps, tell_changes
from .wrong_use import UseError

WARM = (
    "lowering_checks.expectations",
    "lowering_checks.judgement",
    "lowering_checks.devices.simulator",
    "cli.judging",
    "cli.screen",
    "programs.picking",
    "transforms.recipes",
)
"""Modules that a check imports, which takes longer than most checks."""


def run_on_changes(names: Sequence[str]) -> None:
    """Return in a process of its own, which goes on with the command, now and each time that a file
    changes: one that is named, or another ``.py`` in its folder. Ctrl-C ends it.

    This process imports what the command needs and runs nothing, so that no thread, GPU or module
    of the user's is there when it forks. Raises `UseError` where no name is of a file.
    """
    folders = {file.parent for file in list_named_files(names)}
    if not folders or not hasattr(os, "fork"):
        raise UseError("--watch takes files, on a system that can fork; name FILE.py")
    for name in WARM:
        import_module(f"tirstep.{name}")
    known = None
    while True:
        files = {*list_named_files(names), *(it for each in folders for it in each.glob("*.py"))}
        stamps = read_stamps(files)
        if stamps == known:
            time.sleep(SECONDS / 5)
            continue
        if known is not None:
            print(f"\n{tell_changes(stamps, known)}", file=sys.stderr, flush=True)
        known, child = stamps, os.fork()
        if child == 0:
            return
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code < 0:
            print_error(explain_end(-code, "", is_judge=True))
