"""What watches a compilation from inside of TVM: snapshots of the module, and the time limit.

TVM is C++ and cannot be interrupted, but it calls instruments between its passes: there an error
ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tvm
from tvm.ir.instrument import pass_instrument

SECONDS = 120.0
SECONDS_VARIABLE = "TIRSTEP_COMPILE_SECONDS"
"""The environment variable that sets another limit than `SECONDS`."""

_ADVICE = (
    "make its loops smaller, or raise the limit with the environment variable " + SECONDS_VARIABLE
)

Listener = Callable[[str, tvm.IRModule], None]
"""Takes the name of a pass, and the module before or behind it."""


@pass_instrument
class _Watch:
    """One class for all: of each class TVM asks all others whether they are its base."""

    def __init__(self, before: Listener | None, after: Listener | None) -> None:
        self._before, self._after = before, after

    def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
        if self._before is not None:
            self._before(str(info.name), module)

    def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
        if self._after is not None:
            self._after(str(info.name), module)


def watch_passes(*, before: Listener | None = None, after: Listener | None = None) -> Any:
    """A pass instrument that calls functions before and behind each pass of a compilation."""
    return _Watch(before, after)


class Deadline:
    """The time limit of one compilation.

    Attributes
    ----------
    sentence : of what took too long, once it did; empty before
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._start = time.monotonic()
        self._begun: list[float] = []  # passes run others
        self._longest = (0.0, "")
        self.sentence = ""

    def instrument(self) -> Any:
        """Notes the passes, and raises an error between two of them when the time is over."""
        return watch_passes(before=self._begin, after=self._end)

    def _begin(self, name: str, module: tvm.IRModule) -> None:
        self._require_time()
        self._begun.append(time.monotonic())

    def _end(self, name: str, module: tvm.IRModule) -> None:
        start = self._begun.pop()
        if "." in name:  # others only run passes, as "sequential" does
            self._longest = max(self._longest, (time.monotonic() - start, name))
        self._require_time()

    def _require_time(self) -> None:
        if time.monotonic() - self._start <= self._seconds:
            return
        spent, name = self._longest
        longest = f", {spent:.1f} s of them in TVM's {name}" if name else ""
        self.sentence = f"compiling took more than {self._seconds:g} s{longest}; {_ADVICE}"
        raise TimeoutError(self.sentence)
