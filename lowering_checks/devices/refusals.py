"""What TVM refuses becomes a device's error, in one place.

TVM raises errors of many types for a module that it does not compile or run: ValueError for
"Check failed", InternalError, and whatever type a pass names. All that come out of its C++ bear a
mark; others are raised by its Python.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from .device import DeviceError

_MARK = "__tvm_ffi_error__"


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
        raise DeviceError(f"{sentence}: {last_line(error)}") from error


def last_line(error: Exception) -> str:
    """The last line of an error of TVM, where its reason stands."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
