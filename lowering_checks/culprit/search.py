"""Finds out whether a module is wrong as it stands, or after which of TVM's passes it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from ..devices.cpu import CpuDevice, last_line
from ..devices.device import Arrays, Device, DeviceError, Program
from ..devices.fault import Fault
from ..devices.simulator.structured import Interpreter
from ..finding import Finding
from .stages import Lowering, Stage, lower_in_stages

Judge = Callable[[tvm.IRModule, Device], list[Finding]]
OF_THE_SCHEDULE = ("launch", "misaligned access")
"""Faults that are seen in lowered modules only, and that the schedule itself asks for."""
CODE_GENERATION = "code generation"
HOST = "llvm"


@dataclass(frozen=True)
class Suspect:
    """Where a module goes wrong.

    Attributes
    ----------
    stage : the pass; None where the module is wrong as it stands
    not_run : the passes before it whose modules could not be run, each with the reason
    """

    stage: Stage | None
    finding: Finding
    not_run: tuple[str, ...] = ()


def search(
    module: tvm.IRModule, judge: Judge, target: str, pipeline: str = "default"
) -> tuple[Suspect | None, tuple[str, ...]]:
    """The suspect, or None where all is well; and what could not be run.

    The module as it stands comes first, then the last stage that can be run: only where that one
    is wrong are those in between run, from the first on. The first wrong one has its culprit.
    """
    not_run: list[str] = []
    own = _ask(judge, module, Interpreter(), "the module as it stands", not_run)
    if own:
        return Suspect(None, own[0]), ()
    lowering = lower_in_stages(module, target, pipeline)
    if lowering.failed is not None:
        return _blame_failure(lowering, module), ()
    behind: list[str] = []
    wrong = _ask_last(judge, lowering, module, target, behind)
    if wrong:
        return _scan(judge, lowering, wrong[0], not_run), ()
    if behind:
        not_run.append(f"all from {behind[-1]}")
    return None, tuple(not_run)


def _scan(judge: Judge, lowering: Lowering, wrong: Finding, not_run: list[str]) -> Suspect:
    """The first wrong stage of a lowering that ends wrong."""
    for stage in lowering.stages:
        found = _ask_stage(judge, stage, not_run)
        if found:
            is_schedule = all(one.message.startswith(OF_THE_SCHEDULE) for one in found)
            return Suspect(None if is_schedule else stage, found[0], tuple(not_run))
    last = lowering.stages[-1]
    made = Stage(last.number + 1, CODE_GENERATION, last.module, last.module, False)
    return Suspect(made, wrong, tuple(not_run))


def _ask(
    judge: Judge, module: tvm.IRModule, device: Device, name: str, not_run: list[str]
) -> list[Finding] | None:
    """The findings; None where the module cannot be run, which is noted."""
    try:
        return judge(module, device)
    except DeviceError as error:
        not_run.append(f"{name}: {error}")
        return None


def _ask_stage(judge: Judge, stage: Stage, not_run: list[str]) -> list[Finding] | None:
    device = Interpreter(in_order=stage.is_in_order)
    return _ask(judge, stage.module, device, f"{stage.number} {stage.name}", not_run)


def _ask_last(
    judge: Judge, lowering: Lowering, module: tvm.IRModule, target: str, not_run: list[str]
) -> list[Finding]:
    """The findings of what comes out in the end: of the program on a CPU, else of the last stage
    that can be run.
    """
    if target.startswith(HOST):
        return _ask(judge, module, _Executable(lowering.executable), "the program", not_run) or []
    for stage in reversed(lowering.stages):
        found = _ask_stage(judge, stage, not_run)
        if found is not None:
            return found
    return []


def _blame_failure(lowering: Lowering, module: tvm.IRModule) -> Suspect:
    assert lowering.failed is not None
    number, name, reason = lowering.failed
    before = lowering.stages[-1].module if lowering.stages else module
    stage = Stage(number, name, before, before, True)
    return Suspect(stage, Finding("lowering", name, f"the pass refuses the module: {reason}"))


class _Executable(CpuDevice):
    """A program that is compiled already."""

    def __init__(self, executable: Any) -> None:
        self._executable = executable

    def compile(self, module: tvm.IRModule) -> Program:
        def run(arguments: Arrays) -> tuple[Arrays, Sequence[Fault]]:
            tensors = [tvm.runtime.tensor(array) for array in arguments]
            try:
                self._executable["main"](*tensors)
            except (tvm.error.InternalError, RuntimeError, ValueError, TypeError) as error:
                raise DeviceError(f"the program does not run: {last_line(error)}") from error
            return [tensor.numpy() for tensor in tensors], ()

        return Program(run)
