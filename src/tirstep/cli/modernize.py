"""``tirstep modernize``: files written for an older TVM, in today's spelling."""

from __future__ import annotations

import difflib
import tokenize
from pathlib import Path

from .formatting import count
from .request import argument, flag, with_options
from .wrong_use import UseError


@with_options()
def command(
    *,
    files: list[Path] = argument("FILE...", "Python files, or scripts printed by .script()."),
    write: bool = flag("--write", "Rewrite the files instead of printing the diff."),
    json: bool,
) -> int:
    """Rewrite programs for an older TVM in today's syntax.

    Programs may be for TVM 0.8 or later. Names without a successor, and lines that need a decision,
    are left as they are and listed with advice; the exit code is then 1.
    """
    from tirstep.files import write_file
    from tirstep.programs.modernizing import modernize_text

    from .formats import print_document
    from .screen import Screen

    results = []
    for file in files:  # all are read before any is written
        try:
            with tokenize.open(file) as stream:
                encoding = stream.encoding
            old = file.read_bytes().decode(encoding)  # with its own line ends
            results.append((file, encoding, old, modernize_text(old)))
        except (SyntaxError, UnicodeDecodeError) as error:
            raise UseError(
                f"{file}: it is not valid Python, so nothing is written: {error}"
            ) from None
    screen, documents = Screen(quiet=json), []
    for file, encoding, old, new in results:
        lines, places = (old.splitlines(), new.text.splitlines()), []
        diff = [*difflib.unified_diff(*lines, str(file), str(file), "", "", 1, "")]
        if write and new.text != old:
            write_file(file, new.text.encode(encoding))
        elif new.text != old:
            screen.diff(diff)
        moves = difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes() if write else []
        for mark in new.marks:
            # An import may be two lines now.
            line = next(
                (j + mark.line - i for _, i, end, j, _ in moves if mark.line <= end), mark.line
            )
            screen.line(f"{file}:{line}: {mark.message}")
            places.append({"line": line, "message": mark.message})
        documents.append({"file": file, "changed": new.text != old, "diff": diff, "left": places})
    changed = sum(new.text != old for _, _, old, new in results)
    left = sum(len(new.marks) for *_, new in results)
    what = "rewritten" if write else "to rewrite, by --write"
    screen.line(
        f"{count(len(files), 'file')}: {changed} {what}; {count(left, 'place')} left to you"
    )
    if json:
        print_document("modernize", written=write, ok=not left, files=documents)
    return int(left > 0)
