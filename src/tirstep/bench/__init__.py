"""Times of recipes against peers, on one GPU and in one process.

`cases` says what is measured, `run_case` how one case is, `session` runs all of them, `search`
looks for a recipe's fastest config. `results` are what comes out, and go into JSON; `tables` are
made of them. PyTorch and Triton (the extra ``bench``) are imported only by `torch_machine`, when
`ceilings` are measured, and by the peers' own modules.
"""

from __future__ import annotations

import re

LONGEST_NOTE = 300
OWN = ("TransformError", "KernelError", "PeerMissing")
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
    """The last line of an error, where frameworks have their reason, cut to a readable length."""
    text = find_last_line(error)
    if type(error).__name__ not in OWN:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]}…"
