"""Programs as changes of others: hunks of unified diffs without context."""

from __future__ import annotations

import re

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@\n((?:[-+].*\n)*)", re.MULTILINE)


def apply_hunks(diff: str, text: str, name: str) -> str:
    """The text as `diff` changes it; LookupError, with the name, where a hunk does not fit."""
    lines = text.splitlines(keepends=True)
    for hunk in reversed([*_HUNK.finditer(diff)]):
        changed = hunk[3].splitlines(keepends=True)
        old = [line[1:] for line in changed if line[0] == "-"]
        first = int(hunk[1]) - bool(old)  # what is only added stands after its line
        if lines[first : first + len(old)] != old:
            raise LookupError(f"{name}: {hunk[0].splitlines()[0]} does not fit")
        lines[first : first + len(old)] = [line[1:] for line in changed if line[0] == "+"]
    return "".join(lines)
