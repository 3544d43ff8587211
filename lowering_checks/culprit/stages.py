"""The module after each pass of TVM, as compiling it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.ir.instrument import pass_instrument

from ..compiling import pass_context
from ..devices.cpu import last_line

ORDERS_THREADS = "s_tir.ThreadSync"


@dataclass(frozen=True)
class Stage:
    """The module after one pass that changed it.

    Attributes
    ----------
    number : the pass's place among all passes of the compilation, from 1
    is_in_order : TVM has not put barriers in yet
    before : the module that the pass was given
    """

    number: int
    name: str
    before: tvm.IRModule
    module: tvm.IRModule
    is_in_order: bool


@dataclass(frozen=True)
class Lowering:
    """What compiling a module gave.

    Attributes
    ----------
    executable : None where the compilation failed
    failed : the number and name of the pass that failed, and why; None where all went well
    """

    stages: tuple[Stage, ...]
    executable: Any
    failed: tuple[int, str, str] | None


def lower_in_stages(module: tvm.IRModule, target: str, pipeline: str = "default") -> Lowering:
    """Compile a module and keep it as it stands after each pass that changed it.

    The options of the current `PassContext` hold here, too.
    """
    log = _Log(module)
    try:
        with pass_context(module, [_watch(log.begin, log.end)]):
            executable = tvm.compile(module, target=target, tir_pipeline=pipeline)
    except (tvm.error.InternalError, RuntimeError, ValueError) as error:
        return Lowering(tuple(log.stages), None, (*log.running[-1], last_line(error)))
    return Lowering(tuple(log.stages), executable, None)


class _Log:
    def __init__(self, module: tvm.IRModule) -> None:
        self.stages: list[Stage] = []
        self.running = [(0, "tvm.compile")]  # passes run others
        self._count, self._last, self._is_in_order = 0, module, True

    def begin(self, name: str) -> None:
        if not _is_container(name):
            self._count += 1
            self.running.append((self._count, name))

    def end(self, name: str, module: tvm.IRModule) -> None:
        if _is_container(name):
            return
        number, _ = self.running.pop()
        if name == ORDERS_THREADS:
            self._is_in_order = False
        if not tvm_ffi.structural_equal(self._last, module):
            self.stages.append(Stage(number, name, self._last, module, self._is_in_order))
            self._last = module


def _is_container(name: str) -> bool:
    """Passes that only run others; TVM names a pipeline after its function."""
    return name in ("sequential", "_pipeline")


def _watch(begin: Callable[[str], None], end: Callable[[str, tvm.IRModule], None]) -> Any:
    @pass_instrument
    class Watch:
        def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
            begin(str(info.name))

        def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
            end(str(info.name), module)

    return Watch()
