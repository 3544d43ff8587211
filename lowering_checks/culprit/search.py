"""Finds out whether a module is wrong as it stands, or after which of TVM's passes it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import tvm

from ..devices.cpu import CpuDevice
from ..devices.device import Arrays, Device, DeviceError, Program
from ..devices.fault import Fault
from ..devices.host import Generated, HostDevice
from ..devices.refusals import refusals_as
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
    source : what was generated, where no pass is at fault but the generation of the CUDA source
    """

    stage: Stage | None
    finding: Finding
    not_run: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Judged:
    """What was run, such as ``"as scheduled"``, and the name of the device that ran it."""

    what: str
    by: str


@dataclass(frozen=True)
class Outcome:
    """What came of the search in one module.

    Attributes
    ----------
    suspect : None where all is well
    judged : what was run
    not_run : what could not be run, each with the reason
    """

    suspect: Suspect | None
    judged: tuple[Judged, ...]
    not_run: tuple[str, ...]


def search(
    module: tvm.IRModule,
    judge: Judge,
    target: str,
    pipeline: str | None = None,
    *,
    threaded: tvm.IRModule | None = None,
) -> Outcome:
    """The suspect, or None where all is well; what was run, and what could not be run.

    The module as it stands comes first, then what comes out in the end. Only where that is wrong
    are the stages in between run, from the first on; the first wrong one has its culprit. For a CPU
    the end is the program. For a GPU it is the last stage that can be run, and then the generated
    source on the device `host`: where that alone is wrong, the culprit is the code generation.

    `threaded` is the module before its threads were made serial, if they were.
    """
    inquiry = _Inquiry(judge)
    suspect = inquiry.search(module, target, pipeline, threaded)
    return Outcome(suspect, tuple(inquiry.judged), tuple(inquiry.not_run))


@dataclass
class _Inquiry:
    judge: Judge
    judged: list[Judged] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)

    def search(
        self,
        module: tvm.IRModule,
        target: str,
        pipeline: str | None,
        threaded: tvm.IRModule | None,
    ) -> Suspect | None:
        own = self._ask_scheduled(module, threaded)
        if own:
            return Suspect(None, own[0])
        lowering = lower_in_stages(module, target, pipeline)
        if lowering.failed is not None:
            return _blame_failure(lowering, module)
        if target.startswith(HOST):
            program = _Executable(lowering.executable)
            wrong = self._ask(module, lambda: program, "as a program of the CPU")
            if not wrong:
                return None
            if threaded is not None:
                # Threads in a row may mean something else, which is no fault of a pass.
                own = self._ask(module, Interpreter, "as scheduled, with threads in a row")
            return Suspect(None, own[0]) if own else self._scan(lowering, wrong[0])
        return self._search_kernels(module, lowering)

    def _ask_scheduled(
        self, module: tvm.IRModule, threaded: tvm.IRModule | None
    ) -> list[Finding] | None:
        """The findings of the module as it stands.

        Threads that run at once take seconds where one after the other takes minutes. So these are
        asked first, and what they do wrong, or cannot do, must show in a row, too: a step in the
        middle may have memory of a GPU's block outside of any block.
        """
        if threaded is not None:
            device = Interpreter()
            with suppress(DeviceError):
                if not self.judge(threaded, device):
                    self.judged.append(Judged("as scheduled", device.name))
                    return []
        return self._ask(module, Interpreter, "as scheduled")

    def _search_kernels(self, module: tvm.IRModule, lowering: Lowering) -> Suspect | None:
        missed: list[str] = []
        wrong = self._ask_last(lowering, missed)
        if wrong:
            return self._scan(lowering, wrong[0])
        generated = lowering.generated
        if generated is None:
            self.not_run += missed
            return None
        found = self._ask(module, lambda: _Source(generated), "as generated CUDA source")
        if found is None or found:
            self.not_run += missed
        return self._accuse_generator(lowering, found[0]) if found else None

    def _ask(
        self, module: tvm.IRModule, find_device: Callable[[], Device], what: str
    ) -> list[Finding] | None:
        """The findings; None where the module cannot be run, which is noted."""
        try:
            device = find_device()
            found = self.judge(module, device)
        except DeviceError as error:
            self.not_run.append(f"{what}: {error}")
            return None
        self.judged.append(Judged(what, device.name))
        return found

    def _ask_last(self, lowering: Lowering, missed: list[str]) -> list[Finding]:
        """The findings of the last stage that can be run; what is behind it is noted."""
        for stage in reversed(lowering.stages):
            if stage.program is None:
                continue
            device = Interpreter(in_order=stage.is_in_order)
            try:
                found = self.judge(stage.program, device)
            except DeviceError as error:
                missed[:] = [f"all from {stage.number} {stage.name}: {error}"]
                continue
            self.judged.append(Judged(f"after {stage.name}", device.name))
            return found
        return []

    def _scan(self, lowering: Lowering, wrong: Finding) -> Suspect:
        """The first wrong stage of a lowering that ends wrong."""
        for stage in lowering.stages:
            found = self._ask_stage(stage)
            if found:
                return Suspect(_find_blamed(stage, found), found[0], tuple(self.not_run))
        return self._accuse_generator(lowering, wrong)

    def _ask_stage(self, stage: Stage) -> list[Finding] | None:
        name = f"after {stage.number} {stage.name}"
        if stage.program is None:
            self.not_run.append(f"{name}: it makes the host's part, which a driver is needed for")
            return None
        device = Interpreter(in_order=stage.is_in_order)
        found = self._ask(stage.program, lambda: device, name)
        if found and stage.given is not None and self.judge(stage.given, device):
            return None  # it was given what is wrong: the pass that runs it comes later
        return found

    def _accuse_generator(self, lowering: Lowering, wrong: Finding) -> Suspect:
        number, module = lowering.count + 1, lowering.stages[-1].module
        stage = Stage(number, CODE_GENERATION, module, module, False, None)
        source = "" if lowering.generated is None else lowering.generated.source
        return Suspect(_find_blamed(stage, [wrong]), wrong, tuple(self.not_run), source)


def _find_blamed(stage: Stage, found: Sequence[Finding]) -> Stage | None:
    """None where the schedule itself asks for what is wrong."""
    return None if all(one.message.startswith(OF_THE_SCHEDULE) for one in found) else stage


def _blame_failure(lowering: Lowering, module: tvm.IRModule) -> Suspect:
    assert lowering.failed is not None
    number, name, reason = lowering.failed
    before = lowering.stages[-1].module if lowering.stages else module
    stage = Stage(number, name, before, before, True, None)
    return Suspect(stage, Finding("lowering", name, f"the pass refuses the module: {reason}"))


class _Source(HostDevice):
    """A source that is generated already."""

    def __init__(self, generated: Generated) -> None:
        super().__init__()
        self._generated = generated

    def compile(self, module: tvm.IRModule) -> Program:
        return self.compile_generated(self._generated)


class _Executable(CpuDevice):
    """A program that is compiled already."""

    def __init__(self, executable: Any) -> None:
        self._executable = executable

    def compile(self, module: tvm.IRModule) -> Program:
        def run(arguments: Arrays) -> tuple[Arrays, Sequence[Fault]]:
            tensors = [tvm.runtime.tensor(array) for array in arguments]
            with refusals_as("the program does not run"):
                self._executable["main"](*tensors)
            return [tensor.numpy() for tensor in tensors], ()

        return Program(run)
