"""The end of a command whose compilation does not end."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

_SHOW_CURSOR = "\x1b[?25h"


def end_command(doing: str, sentence: str) -> NoReturn:
    """Say what does not end, and end this process with 1: a check that cannot be made has failed.

    TVM keeps the main thread, so that no exception would ever get there. What was printed before is
    handed on; a line of progress, which hides the cursor, gives it back.
    """
    sys.stdout.flush()
    if sys.stderr.isatty():
        sys.stderr.write(f"\n{_SHOW_CURSOR}")
    where = f"{doing}: " if doing else ""
    print(f"tirstep: {where}{sentence}", file=sys.stderr, flush=True)
    os._exit(1)
