"""The file in which a search keeps its trials: a head, then one line of JSON for each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tirstep.files import append_line, write_file


class TrialFile:
    """Trials in a file of JSON lines, to which each new one is added.

    A last line that was cut, by a full disk or the end of the machine, is no trial. The file is
    written anew where it has such a line, or was removed.

    Attributes
    ----------
    head : what the trials are of, the first line
    lines : the trials that are known
    """

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self.path, self.head = path, dict(head)
        self.lines: list[dict[str, Any]] = []
        self._is_whole = True

    def read(self) -> Mapping[str, Any] | None:
        """Take in the file: its head; None where nothing was written yet.

        Raises `ValueError` for another kind of file.
        """
        if not self.path.exists():
            return None
        if not self.path.is_file():  # some devices have no end
            raise ValueError("it is a folder or a device")
        text, end, rest = self.path.read_bytes().decode().rpartition("\n")
        self._is_whole = bool(end) and not rest
        if not end:
            if json.dumps(self.head).startswith(rest):
                return None
            text = rest
        head, *lines = [json.loads(line) for line in text.split("\n")]
        if not all(isinstance(line, dict) for line in (head, *lines)):
            raise ValueError("a line is no JSON object")
        self.lines = lines
        return dict(head)

    def add(self, line: Mapping[str, Any]) -> None:
        """Note a trial, and write it down; raises `OSError`."""
        self.lines.append(dict(line))
        if self._is_whole and self.path.exists():
            append_line(self.path, json.dumps(line))
            return
        lines: Sequence[Mapping[str, Any]] = [self.head, *self.lines]
        write_file(self.path, "".join(f"{json.dumps(each)}\n" for each in lines))
        self._is_whole = True
