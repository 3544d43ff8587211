"""``tirstep modernize``: files written for an older TVM, in today's spelling."""

from __future__ import annotations

import difflib
import tokenize
from pathlib import Path

from .formatting import count
from .request import argument, flag
from .wrong_use import UseError


def command(
    files: list[Path] = argument(
        "FILE...", "Files of Python, or scripts as .script() printed them."
    ),
    write: bool = flag("--write", "Rewrite the files; otherwise the diff is printed."),
) -> int:
    """Spell programs for TVM 0.8 and later as the installed TVM does.

    What has no successor, or needs a decision, stays as it is and is listed with its line and what
    to do; the exit code is 1 then.
    """
    from tirstep.files import write_file
    from tirstep.programs.modernizing import modernize_text

    results = []
    for file in files:  # all are read before any is written
        try:
            with tokenize.open(file) as stream:
                encoding, old = stream.encoding, file.read_bytes().decode(stream.encoding)
            results.append((file, encoding, old, modernize_text(old)))
        except (SyntaxError, UnicodeDecodeError) as error:
            line = getattr(error, "lineno", None)
            where = f"{file}:{line}" if line else str(file)
            raise UseError(f"{where}: Python does not read it ({error}); nothing written") from None
    from .screen import Screen

    screen = Screen()
    marks = 0
    for file, encoding, old, new in results:
        if write and new.text != old:
            write_file(file, new.text.encode(encoding))
        elif new.text != old:
            lines = (it.splitlines() for it in (old, new.text))
            screen.diff(list(difflib.unified_diff(*lines, str(file), str(file), lineterm="", n=1)))
        for mark in new.marks:
            screen.line(f"{file}:{mark.line}: {mark.message}")
        marks += len(new.marks)
    changed = sum(new.text != old for _, _, old, new in results)
    done = "rewritten" if write else "would change; --write rewrites them"
    screen.line(
        f"{count(len(files), 'file')}: {changed} {done}, {count(marks, 'place')} to look at"
    )
    return int(marks > 0)
