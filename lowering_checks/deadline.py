"""The time that a compilation may take.

TVM is C++ and cannot be interrupted, but it calls instruments between its passes: there an error
ends it. One pass that does not end is left for `when_stuck`: TVM lets other threads run, and one
of them can end the process.
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
    """Watches one compilation.

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
        deadline = self

        @pass_instrument
        class Watch:
            def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
                deadline._require_time()
                deadline._running.append((str(info.name), time.monotonic()))

            def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
                name, start = deadline._running.pop()
                if "." in name:  # others only run passes, as "sequential" does
                    spent = (time.monotonic() - start, name)
                    deadline._longest = max(deadline._longest, spent)
                deadline._require_time()

        return Watch()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Tell the handler of `when_stuck`, if there is one, of a pass that does not end."""
        handle = _stuck_handler.get()
        if handle is None:
            yield
            return
        patience = self._seconds + GRACE
        timer = threading.Timer(patience, lambda: handle(self._describe_stuck(patience)))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _require_time(self) -> None:
        if time.monotonic() - self._start <= self._seconds:
            return
        spent, name = self._longest
        longest = f", {spent:.1f} s of them in TVM's {name}" if name else ""
        self.sentence = f"compiling took more than {self._seconds:g} s{longest}; {_ADVICE}"
        raise TimeoutError(self.sentence)

    def _describe_stuck(self, patience: float) -> str:
        name = self._running[-1][0] if self._running else _OTHER_WORK
        return (
            f"compiling took more than {patience:g} s, TVM's {name} does not end and cannot be "
            f"interrupted, so this process was ended; {_ADVICE}"
        )
