"""The error of a benchmark that cannot be run."""

from __future__ import annotations

LONGEST_NOTE = 300
OWN = ("TransformError", "KernelError", "PeerMissing")
"""Errors whose words are whole sentences; of others the kind is told as well."""


class BenchError(RuntimeError):
    """A benchmark cannot go on: one sentence of what is wrong and what to do."""


class PeerMissing(Exception):  # noqa: N818
    """A peer does not compute a kernel here; its words go into the table and are no failure."""


def find_last_line(error: Exception) -> str:
    """The last line of an error that is not empty; empty where it has no words."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def shorten(error: Exception) -> str:
    """The last line of an error, where frameworks have their reason, cut to a readable length."""
    text = find_last_line(error)
    if type(error).__name__ not in OWN:
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]}…"
