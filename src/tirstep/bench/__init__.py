"""Times of recipes against peers, on one GPU and in one process.

`cases` says what is measured, `session` runs it case by case on a machine, `search`
looks for a recipe's fastest config. `results` are what comes out, and go into JSON; `tables` are
made of them. PyTorch and Triton (the extra ``bench``) are imported only by `torch_machine`, when
`ceilings` are measured, and by the peers' own modules.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

LONGEST_NOTE = 300
OWN = ("TransformError", "KernelError", "PeerMissing", "DeviceError")
"""Errors whose words are whole sentences; of others the kind is told as well."""


class BenchError(RuntimeError):
    """A benchmark cannot go on: one sentence of what is wrong and what to do."""


class PeerMissing(Exception):  # noqa: N818
    """A peer does not compute a kernel here; its words go into the table and are no failure."""


def find_last_line(error: Exception) -> str:
    """The last line of an error that has words, without control characters, since the log of CUDA's
    compiler ends in NULs; empty where none has.
    """
    lines = [re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", line) for line in str(error).splitlines()]
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def shorten(error: Exception) -> str:
    """The last line of an error, where frameworks have their reason, cut to a readable length.

    TVM has lines behind its reason, which is told of its errors. Of one without a word, such as a
    bare assertion, the place where it was raised is told.
    """
    from tirstep.lowering_checks.device import TVM_MARK, get_reason

    text, frames = find_last_line(error), traceback.extract_tb(error.__traceback__)
    if text and hasattr(error, TVM_MARK):
        text = get_reason(error)
    elif not text and frames:
        place = "/".join(Path(frames[-1].filename).parts[-2:])
        text = f"{frames[-1].line} ({place}, line {frames[-1].lineno})"
    if type(error).__name__ not in OWN:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]}…"
