"""What TVM refuses becomes a device's error, in one place.

TVM raises errors of many types for a module that it does not compile or run: ValueError for
"Check failed", InternalError, and whatever type a pass names. All that come out of its C++ bear a
mark; others are raised by its Python.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from .device import DeviceError

_MARK = "__tvm_ffi_error__"
_REASONS = ("Error message:", "Check failed:", "InternalError: Check failed:")
"""How the line begins at which TVM's reason begins, behind or before a program."""


def is_refusal(error: Exception) -> bool:
    """Whether an error came out of TVM, or out of a tool that it runs (those are RuntimeErrors).

    One that Python raises in our code is none: it is a mistake of ours, and must show as one.
    """
    if isinstance(error, RuntimeError) or hasattr(error, _MARK):
        return True
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("tvm", "tvm_ffi")


@contextmanager
def refusals_as(sentence: str) -> Iterator[None]:
    """While this lasts, what TVM refuses is a `DeviceError`: the sentence, and TVM's reason."""
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:
        if not is_refusal(error):
            raise
        raise DeviceError(f"{sentence}: {find_reason(error)}") from error


def find_reason(error: Exception) -> str:
    """TVM's own reason, on one line: not the program that it prints before or behind it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for start in _REASONS:
        found = next((at for at, line in enumerate(lines) if line.startswith(start)), None)
        if found is not None:
            told = [lines[found].removeprefix("Error message:"), *lines[found + 1 :]]
            return " ".join(itertools.takewhile(_is_prose, told)).strip() or lines[found]
    prose = [*itertools.takewhile(_is_prose, lines)] or [one for one in lines if _is_prose(one)]
    return prose[-1] if prose else type(error).__name__


def _is_prose(line: str) -> bool:
    return not line.startswith(("#", "@", "class Module", "def ", "with T.", "for ", "from tvm"))
