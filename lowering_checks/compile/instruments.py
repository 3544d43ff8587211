"""What watches a compilation from inside of TVM: snapshots of the module, and the time limit.

TVM is C++ and cannot be interrupted, but it calls instruments between its passes: there an error
ends it. A pass that does not end is left to `when_stuck`: TVM releases Python's lock while it
compiles, so another thread can end the process. Measured with a thread that counts milliseconds
beside `tvm.compile` (TVM 0.27.0, apache-tvm-ffi 0.1.14): in 13.1 s of 16384 unrolled copies for
CUDA its longest pause was 0.22 s, in 10.6 s of 1024 copies for LLVM 0.02 s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tvm
from tvm.ir.instrument import pass_instrument

SECONDS = 120.0
SECONDS_VARIABLE = "TIRSTEP_COMPILE_SECONDS"
"""The environment variable that sets another limit than `SECONDS`."""
GRACE = 60.0
"""In seconds, how long a pass may go on behind the limit until it counts as stuck."""

_ADVICE = (
    "make its loops smaller, or raise the limit with the environment variable " + SECONDS_VARIABLE
)
_OTHER_WORK = "code generation"

_stuck_handler: ContextVar[Callable[[str], object] | None] = ContextVar("stuck", default=None)

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


class Snapshot:
    """Keeps the module before or behind the last pass of one name.

    Attributes
    ----------
    module : None where no pass of that name ran
    """

    def __init__(self, name: str, *, before: bool = False) -> None:
        self._name, self._before = name, before
        self.module: tvm.IRModule | None = None

    def instrument(self) -> Any:
        """What TVM is to call around each pass."""
        return watch_passes(before=self._keep) if self._before else watch_passes(after=self._keep)

    def _keep(self, name: str, module: tvm.IRModule) -> None:
        if name == self._name:
            self.module = module


@contextmanager
def when_stuck(handle: Callable[[str], object]) -> Iterator[None]:
    """While this lasts, call `handle` with a sentence for a compilation that cannot be ended.

    It is called in another thread, `GRACE` behind the limit; all that it can do is to say so and
    to end the process.
    """
    token = _stuck_handler.set(handle)
    try:
        yield
    finally:
        _stuck_handler.reset(token)


class Deadline:
    """The time limit of one compilation.

    Attributes
    ----------
    sentence : of what took too long, once it did; empty before
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._start = time.monotonic()
        self._running: list[tuple[str, float]] = []  # passes run others
        self._longest = (0.0, "")
        self.sentence = ""

    def instrument(self) -> Any:
        """Notes the passes, and raises an error between two of them when the time is over."""
        return watch_passes(before=self._begin, after=self._end)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Tell the handler of `when_stuck`, if there is one, of a pass that does not end."""
        handle = _stuck_handler.get()
        if handle is None:
            yield
            return
        limit = self._seconds + GRACE
        timer = threading.Timer(limit, lambda: handle(self._describe_stuck(limit)))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _begin(self, name: str, module: tvm.IRModule) -> None:
        self._require_time()
        self._running.append((name, time.monotonic()))

    def _end(self, name: str, module: tvm.IRModule) -> None:
        name, start = self._running.pop()
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

    def _describe_stuck(self, limit: float) -> str:
        name = self._running[-1][0] if self._running else _OTHER_WORK
        return (
            f"compiling took more than {limit:g} s, TVM's {name} does not end and cannot be "
            f"interrupted, so this process was ended; {_ADVICE}"
        )
