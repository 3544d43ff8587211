"""Times of recipes against peers, on one GPU and in one process.

`cases` says what is measured, `session` runs it case by case, on a `machine`, `search`
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


def drop_controls(line: str) -> str:
    """A line without control characters: the log of CUDA's compiler ends in NULs."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", line).strip()


def find_last_line(error: Exception) -> str:
    """The last line of an error that has words; empty where none has."""
    lines = [words for line in str(error).splitlines() if (words := drop_controls(line))]
    return lines[-1] if lines else ""


def shorten(error: Exception) -> str:
    """The last line of an error, where frameworks have their reason, cut to a readable length.

    TVM has lines behind its reason, which is told of its errors. Of one without a word, such as a
    bare assertion, the place where it was raised is told.
    """
    from tirstep.lowering_checks.devices.device import TVM_MARK, get_reason

    is_tvm = hasattr(error, TVM_MARK) and find_last_line(error)
    text = get_reason(error) if is_tvm else find_last_line(error) or _find_place(error)
    if type(error).__name__ not in OWN:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]}…"


def _find_place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    file = "/".join(Path(last.filename).parts[-2:])
    return f"{last.line} ({file}, line {last.lineno})" if last.line else f"{file}:{last.lineno}"
