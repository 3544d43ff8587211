"""Files for compiled libraries, which a process keeps until it ends.

A new file may get the inode of one that was deleted. The loader of the system then takes it for the
library that it has loaded already, and runs the kernel of another shape.
"""

from __future__ import annotations

import functools
import itertools
import tempfile
from pathlib import Path

_NUMBERS = itertools.count()


def name_library() -> Path:
    """A path that this process has not used yet; the file goes when the process ends."""
    return Path(_make_folder().name, f"{next(_NUMBERS)}.so")


@functools.cache
def _make_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tirstep-")
