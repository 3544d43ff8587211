"""The log of a compilation: the module before and after each of TVM's passes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm.ir.instrument import pass_instrument

from .diff import Diff, diff_modules


@dataclass(frozen=True)
class Pass:
    """One pass of a compilation.

    Attributes
    ----------
    number : its place among all passes, in the order in which they began, from 1
    name : of TVM, as ``"tirx.UnrollLoop"``; several passes may have one name
    before, module : what it was given, without what passes that it ran itself did; what it made
    seconds : that it took, without the passes that it ran itself
    """

    number: int
    name: str
    before: tvm.IRModule = field(repr=False)
    module: tvm.IRModule = field(repr=False)
    changed: bool
    seconds: float

    @property
    def label(self) -> str:
        """``42 s_tir.ThreadSync``: what a pass can be called by."""
        return f"{self.number} {self.name}"

    def diff(self, *, context: int = 3) -> Diff:
        """What it changed, as a diff of TVMScript."""
        names = (f"before {self.label}", f"after {self.label}")
        return diff_modules(self.before, self.module, names=names, context=context)


@dataclass
class _Frame:
    """A pass that runs, and its time and that of the passes that it runs.

    Attributes
    ----------
    given : the module itself
    before : a copy of it, or of what the passes that it runs made of it
    at : the module itself that stands where `before` was copied
    """

    number: int
    name: str
    given: tvm.IRModule
    before: tvm.IRModule
    at: tvm.IRModule
    start: float
    inside: float = 0.0


class PassLog:
    """Notes the passes as they run; modules are compared afterwards, outside of all times.

    Some passes change the module that they are given in place (tirx.AnnotateEntryFunc does), so
    copies are kept; the functions in them never change.

    Attributes
    ----------
    running : the passes that began and did not end, outermost first
    """

    def __init__(self) -> None:
        self.running: list[_Frame] = []
        self._count = 0
        self._ended: list[tuple[_Frame, tvm.IRModule, float]] = []

    def begin(self, name: str, module: tvm.IRModule) -> None:
        """A pass begins, with this module."""
        self._count += 1
        frame = _Frame(self._count, name, module, module.clone(), module, time.perf_counter())
        self.running.append(frame)

    def end(self, module: tvm.IRModule) -> None:
        """The pass that began last ends, and this module comes out of it."""
        frame = self.running.pop()
        spent = time.perf_counter() - frame.start
        copy = module.clone()
        self._ended.append((frame, copy, spent - frame.inside))
        if self.running:
            outer = self.running[-1]
            outer.inside += spent
            # Only where they went on from what it was given: others work on parts of it.
            if frame.given.same_as(outer.at):
                outer.before, outer.at = copy, module

    def passes(self) -> tuple[Pass, ...]:
        """The passes that ended, in that order."""
        return tuple(self._make(*one) for one in self._ended)

    def _make(self, frame: _Frame, module: tvm.IRModule, seconds: float) -> Pass:
        changed = not tvm_ffi.structural_equal(frame.before, module)
        return Pass(frame.number, frame.name, frame.before, module, changed, seconds)

    def instrument(self) -> Any:
        """What TVM is to call before and after each pass."""
        log = self

        @pass_instrument
        class Watch:
            def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
                if not is_container(str(info.name)):
                    log.begin(str(info.name), module)

            def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
                if not is_container(str(info.name)):
                    log.end(module)

        return Watch()


def is_container(name: str) -> bool:
    """Passes that only run others; TVM names a pipeline after its function."""
    return name in ("sequential", "_pipeline")
