"""Which errors are wrong use, told in one sentence, and which are defects of ours."""

from __future__ import annotations

import difflib
import errno
import sys
from collections.abc import Iterable

import typer

# The base of all errors of parsing; by way of a public name, since newer typers ship their own
# click and older ones use the package.
_PARSING_ERROR = typer.BadParameter.__mro__[2]


_OF_THE_SYSTEM = tuple(
    getattr(errno, name)
    for name in (
        "ENOSPC",
        "EDQUOT",
        "EFBIG",
        "EROFS",
        "EIO",
        "EMFILE",
        "ENFILE",
        "ENOMEM",
        "EAGAIN",
    )
    if hasattr(errno, name)
)
"""What no call of ours can mend."""


class UseError(Exception):
    """The command line asks for what cannot be: one sentence of what is wrong and what to do."""


def find_sentence(error: Exception) -> str | None:
    """What to tell the user of an error that is theirs to mend; None for any other."""
    if isinstance(error, UseError):
        return str(error)
    if isinstance(error, _PARSING_ERROR):
        return _describe_parsing_error(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
        return f"the system refuses: {error.strerror}"
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error.strerror):
        return f"{error.strerror}; set TMPDIR to a folder that can be written"
    if isinstance(error, ImportError) or "tvm" not in sys.modules:
        return None
    from tirstep.bench.errors import BenchError
    from tirstep.lowering_checks import CheckError, DeviceError
    from tirstep.modules import KernelError
    from tirstep.transforms.errors import TransformError

    if isinstance(error, BenchError | CheckError | DeviceError | KernelError | TransformError):
        return str(error)
    return None


def nearest(name: str, known: Iterable[str]) -> str:
    """What to do about an unknown name: the names that look like it, or else all."""
    names = list(known)
    if alike := difflib.get_close_matches(name, names, n=3, cutoff=0.5):
        return f"did you mean {' or '.join(alike)}?"
    return f"there are: {', '.join(names)}" if names else "there are none"


def _describe_parsing_error(error: Exception) -> str:
    message = str(getattr(error, "format_message", error.__str__)()).strip()
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    # Where its last word is a question, it has its own end.
    joint = " See" if message.endswith("?") else "; see"
    return f"{message.rstrip('.')}{joint} {context.command_path} --help"
