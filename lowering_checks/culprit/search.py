"""Finds out whether a module is wrong as it stands, or after which of TVM's passes it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm.tirx import AllocBuffer

from tirstep.transforms.queries import find_all

from ..devices.cpu import CpuDevice
from ..devices.device import Arrays, Device, DeviceError, Program
from ..devices.fault import Fault
from ..devices.host import Generated, HostDevice
from ..devices.refusals import find_reason, refusals_as
from ..devices.rims import run_in_rims
from ..devices.simulator.structured import Interpreter
from ..entry import MAIN
from ..finding import Finding
from ..passes import Failure
from .bisect import bisect
from .stages import (
    COMPACTS,
    HOST_ALONE,
    ORDERS_THREADS,
    Lowering,
    Stage,
    lower_in_stages,
)

Judge = Callable[[tvm.IRModule, Device], list[Finding]]
CODE_GENERATION = "code generation"
HOST = "llvm"
AS_SCHEDULED = "as scheduled"
AS_LOWERED = "as TVM lowers it"
GIVEN_WRONG = "it was given what is wrong"
AS_PROGRAM = "as a program of the CPU"
AS_SOURCE = "as generated CUDA source"
CARRIES_OUT = {
    "misaligned access": ("tirx.VectorizeLoop",),
    "launch": (
        COMPACTS,
        "s_tir.InjectVirtualThread",
        "s_tir.InjectDoubleBuffer",
        "s_tir.InjectSoftwarePipeline",
    ),
}
"""Faults that are seen in lowered modules only, and the passes behind which the schedule itself
asks for them: it made the vectors, and the buffers. Behind any other pass they are that pass's."""


@dataclass(frozen=True)
class Place:
    """A state of the module, such as ``"as scheduled"``, and the name of the device that ran it."""

    what: str
    by: str

    def tell(self, *, right: bool) -> str:
        """``after pass 1 tirx.BindTarget (right: interpreter)``."""
        return f"{self.what} ({'right' if right else 'wrong'}: {self.by})"


@dataclass(frozen=True)
class Suspect:
    """Where a module goes wrong.

    Attributes
    ----------
    stage : the first one that is wrong; None where the module is wrong as it stands
    right, wrong : the last state that is right, None where there is none in this module; and the
        first that is wrong
    is_exact : both were judged by the same device, and only what is accused stands between them
    not_run : what stands between them as well and could not be judged, each with the reason
    source : what was generated, where that is wrong and no pass before it
    before : the module of `right`
    """

    stage: Stage | None
    finding: Finding
    right: Place | None
    wrong: Place
    is_exact: bool
    not_run: tuple[str, ...] = ()
    source: str = ""
    before: tvm.IRModule | None = None


@dataclass(frozen=True)
class Refusal:
    """A pass that refuses the module.

    Attributes
    ----------
    right : the last state before it that is right; None where none could be run
    not_run : what stands between that and the pass, and could not be judged, each with the reason
    """

    failed: Failure
    right: Place | None
    not_run: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of the search in one module.

    Attributes
    ----------
    suspect : None where all is well
    refused : None where TVM lowers the module
    judged : what was run
    not_run : what could not be run, each with the reason
    scheduled : the module as it stands, if it was found right
    lowered : the last state that was found right; None where that is the module as it stands
    """

    suspect: Suspect | None
    refused: Refusal | None
    judged: tuple[Place, ...]
    not_run: tuple[str, ...]
    scheduled: Place | None
    lowered: Place | None


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
    are the stages in between run, by bisection. For a CPU the end is the program. For a GPU it is
    the last stage that can be run, and then the generated source on the device `host`. A module
    that is too large to interpret as it stands is run on the CPU.

    `threaded` is the module before its threads were made serial, if they were.
    """
    one = _Search(judge, module, threaded)
    suspect = one.run(target, pipeline)
    return Outcome(
        suspect, one.refused, tuple(one.judged), tuple(one.not_run), one.scheduled, one.lowered
    )


@dataclass
class _Search:
    judge: Judge
    module: tvm.IRModule
    threaded: tvm.IRModule | None
    judged: list[Place] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    refused: Refusal | None = None
    scheduled: Place | None = None
    lowered: Place | None = None
    wrong_on_cpu: Finding | None = None
    _verdicts: dict[int, list[Finding] | None] = field(default_factory=dict)
    _reasons: dict[int, str] = field(default_factory=dict)

    def run(self, target: str, pipeline: str | None) -> Suspect | None:
        """The suspect; what was seen on the way is in the attributes."""
        wrong = self._judge_scheduled()
        if wrong:
            return self._suspect_schedule(wrong[0], "interpreter")
        lowering = lower_in_stages(self.module, target, pipeline)
        if lowering.failed is not None:
            return self._search_failure(lowering, lowering.failed)
        if target.startswith(HOST):
            return self._search_program(lowering)
        return self._search_kernels(lowering)

    def _suspect_schedule(self, finding: Finding, device: str) -> Suspect:
        return Suspect(None, finding, None, Place(AS_SCHEDULED, device), True)

    def _judge_scheduled(self) -> list[Finding] | None:
        """The findings of the module as it stands; None where it cannot be interpreted.

        Threads that run at once take seconds where one after the other takes minutes. So these are
        run first, and what they do wrong, or cannot do, must show in a row, too: a step in the
        middle may have memory of a GPU's block outside of any block.
        """
        place = Place(AS_SCHEDULED, "interpreter")
        if self.threaded is not None:
            with suppress(DeviceError):
                if not self._interpret(self.threaded, Interpreter()):
                    self.judged.append(place)
                    self.scheduled = place
                    return []
        try:
            found = self._interpret(self.module, Interpreter())
        except DeviceError as error:
            self.not_run.append(f"{AS_SCHEDULED}: {error}")
            self._judge_on_cpu()
            return None
        self.judged.append(place)
        self.scheduled = None if found else place
        return found

    def _judge_on_cpu(self) -> None:
        """What LLVM makes of a module that cannot be interpreted."""
        found = self._ask(self.module, CpuDevice, AS_SCHEDULED)
        if found:
            self.wrong_on_cpu = found[0]
        elif found is not None:
            self.scheduled = Place(AS_SCHEDULED, CpuDevice.name)

    def _interpret(self, module: tvm.IRModule, device: Interpreter) -> list[Finding]:
        """The findings; raises `DeviceError` where the module cannot be run.

        Iterations that ran at once and are found wrong run one after the other, too: whether they
        may run at once is what the module says, and that need not be so.
        """
        found = self._run(module, device)
        if not found or not device.has_spread:
            return found
        in_turn = Interpreter(in_order=device.in_order, is_compact=device.is_compact, at_once=False)
        try:
            return self._run(module, in_turn)
        except DeviceError:
            if all(one.message.startswith("race") for one in found):
                raise
            return found

    def _run(self, module: tvm.IRModule, device: Device) -> list[Finding]:
        try:
            return self.judge(module, device)
        except DeviceError:
            raise
        except Exception as error:  # a module that a pass has spoiled may be anything
            if not isinstance(device, Interpreter):
                raise
            raise DeviceError(
                f"the {device.name} fails: {type(error).__name__}: {find_reason(error)}"
            ) from error

    def _ask(
        self, module: tvm.IRModule, find_device: Callable[[], Device], what: str
    ) -> list[Finding] | None:
        """The findings; None where the module cannot be run, which is noted."""
        try:
            device = find_device()
            found = self._run(module, device)
        except DeviceError as error:
            self.not_run.append(f"{what}: {error}")
            return None
        self.judged.append(Place(what, device.name))
        return found

    def _search_failure(self, lowering: Lowering, failed: Failure) -> Suspect | None:
        """What a pass refuses may be wrong already; a limit of our own says nothing about it."""
        if failed.is_limit:
            self.not_run.append(f"{AS_LOWERED}: {failed.reason}")
            return None
        stages = self._find_judged(lowering.stages)
        if stages and self._judge_stage(stages[-1]):
            return self._bisect(stages)
        right = self._find_right(stages[-1] if stages else None)
        behind = self._list_unjudged(lowering.stages[len(stages) :], None)
        self.refused = Refusal(failed, right, tuple(behind))
        return None

    def _ask_end(self, find_device: Callable[[], Device], what: str) -> list[Finding] | None:
        """`_ask` of what comes out in the end, twice where it is wrong: no run is like another."""
        found = self._ask(self.module, find_device, what)
        if found:
            with suppress(DeviceError):
                if not self._run(self.module, find_device()):
                    return [replace(found[0], message=f"{found[0].message} (in one of two runs)")]
        return found

    def _search_program(self, lowering: Lowering) -> Suspect | None:
        """For a CPU: the program, and where that is wrong the stages."""
        names = [str(parameter.name) for parameter in self.module[MAIN].params]
        program = _Executable(lowering.executable, names)
        end = Place(AS_PROGRAM, program.name)
        wrong = self._ask_end(lambda: program, AS_PROGRAM)
        if not wrong:
            self.lowered = end if wrong is not None else None
            return None
        if self.threaded is not None:
            # Threads in a row may mean something else, which is no fault of a pass.
            own = self._ask_in_a_row()
            if own:
                return self._suspect_schedule(own[0], "interpreter")
        return self._search_stages(lowering, self._find_judged(lowering.stages), wrong[0], end)

    def _ask_in_a_row(self) -> list[Finding] | None:
        what = "as scheduled, with threads in a row"
        try:
            found = self._interpret(self.module, Interpreter())
        except DeviceError as error:
            self.not_run.append(f"{what}: {error}")
            return None
        self.judged.append(Place(what, "interpreter"))
        return found

    def _search_kernels(self, lowering: Lowering) -> Suspect | None:
        """For a GPU: the last stage that can be run, and the source behind it."""
        # What the host's part becomes is no part of the program that is judged.
        own = [one for one in lowering.stages if one.obstacle != HOST_ALONE]
        stages = self._find_judged(own)
        missed = [
            f"all from {one.number} {one.name}: {self._reasons[one.number]}"
            for one in own[len(stages) :][:1]
        ]
        if stages:
            end = Place(f"after {stages[-1].name}", Interpreter.name)
            self.judged.append(end)
            if self._judge_stage(stages[-1]):
                return self._bisect(stages)
            self.lowered = end
        generated = lowering.generated
        if generated is None:
            self.not_run += missed
            return None
        wrong = self._ask_end(lambda: _Source(generated), AS_SOURCE)
        if wrong is None:
            self.not_run += missed
        if not wrong:
            return None
        return self._suspect_end(lowering, stages, wrong[0], Place(AS_SOURCE, HostDevice.name))

    def _find_judged(self, stages: Sequence[Stage]) -> Sequence[Stage]:
        """The stages up to the last one that can be judged."""
        count = len(stages)
        while count and self._judge_stage(stages[count - 1]) is None:
            count -= 1
        return stages[:count]

    def _search_stages(
        self, lowering: Lowering, stages: Sequence[Stage], wrong: Finding, end: Place
    ) -> Suspect:
        if stages and self._judge_stage(stages[-1]):
            return self._bisect(stages)
        return self._suspect_end(lowering, stages, wrong, end)

    def _judge_stage(self, stage: Stage) -> list[Finding] | None:
        """The findings; None where the stage says nothing, for a reason that is kept."""
        if stage.number not in self._verdicts:
            self._verdicts[stage.number] = self._look_at(stage)
        return self._verdicts[stage.number]

    def _look_at(self, stage: Stage) -> list[Finding] | None:
        if stage.program is None:
            self._reasons[stage.number] = stage.obstacle
            return None
        try:
            found = self._interpret(stage.program, _make_interpreter(stage))
            given = stage.given if found and stage.is_inner else None
            if given is not None and self._interpret(given, _make_interpreter(stage)):
                self._reasons[stage.number] = GIVEN_WRONG
                return None
        except DeviceError as error:
            self._reasons[stage.number] = str(error)
            return None
        return found

    def _bisect(self, stages: Sequence[Stage]) -> Suspect:
        """The first wrong stage, where the last one is wrong."""
        if self.wrong_on_cpu is not None:
            return self._suspect_schedule(self.wrong_on_cpu, CpuDevice.name)

        def is_right(place: int) -> bool | None:
            found = self._judge_stage(stages[place])
            return None if found is None else not found

        low, high = bisect(len(stages), is_right)
        stage, found = stages[high], self._verdicts[stages[high].number] or []
        if _is_asked_for(stage, found):
            return Suspect(None, found[0], None, Place(AS_LOWERED, Interpreter.name), True)
        between = self._list_unjudged(stages[low + 1 : high], stage)
        right = self._find_right(stages[low] if low >= 0 else None)
        wrong = Place(f"after {stage.label}", Interpreter.name)
        if not self._was_given_right(stage):
            wrong = Place(f"before {stage.label}", Interpreter.name)
            between.append(f"{wrong.what}: it is given another module than the pass before it made")
        is_exact = not between and right is not None and right.by == Interpreter.name
        before = stages[low].module if low >= 0 else self.module
        return Suspect(stage, found[0], right, wrong, is_exact, tuple(between), "", before)

    def _find_right(self, stage: Stage | None) -> Place | None:
        if stage is None:
            return self.scheduled
        return Place(f"after {stage.label}", Interpreter.name)

    def _list_unjudged(self, stages: Sequence[Stage], wrong: Stage | None) -> list[str]:
        """What stands before a wrong stage and was not judged; the schedule, if it was not."""
        # What a pass runs itself, after it has spoiled the module, is no gap in front of it.
        return [
            f"after {one.number} {one.name}: {self._reasons[one.number]}"
            for one in stages
            if wrong is None
            or self._reasons[one.number] != GIVEN_WRONG
            or one.number < wrong.number
        ]

    def _was_given_right(self, stage: Stage) -> bool:
        """Whether what a pass was given is right, where that is not what the one before made."""
        if stage.given is None:
            return True
        in_order = stage.is_in_order or stage.name == ORDERS_THREADS
        device = Interpreter(in_order=in_order, is_compact=stage.is_compact)
        try:
            return not self._interpret(stage.given, device)
        except DeviceError:
            return False

    def _suspect_end(
        self, lowering: Lowering, stages: Sequence[Stage], wrong: Finding, end: Place
    ) -> Suspect:
        """Wrong is what comes out, on another device than the one that finds all stages right."""
        if self.wrong_on_cpu is not None and not stages:
            return self._suspect_schedule(self.wrong_on_cpu, CpuDevice.name)
        module = lowering.stages[-1].module if lowering.stages else self.module
        stage = Stage(lowering.count + 1, CODE_GENERATION, module, module, False, None)
        source = "" if lowering.generated is None else lowering.generated.source
        last = stages[-1].number if stages else 0
        unjudged = [one for one in lowering.stages if one.number in self._reasons]
        between = self._list_unjudged([one for one in unjudged if one.number > last], None)
        right = self._find_right(stages[-1] if stages else None)
        return Suspect(stage, wrong, right, end, False, tuple(between), source, module)


def _make_interpreter(stage: Stage) -> Interpreter:
    return Interpreter(in_order=stage.is_in_order, is_compact=stage.is_compact)


def _is_asked_for(stage: Stage, found: Sequence[Finding]) -> bool:
    """Whether the schedule itself asks for what is wrong, and the pass does but carry it out."""
    kinds = {one.message.partition(":")[0] for one in found}
    if kinds == {"race"} and stage.name == ORDERS_THREADS:
        return all(_is_in_global_memory(one.message, stage) for one in found)
    return bool(kinds) and all(stage.name in CARRIES_OUT.get(kind, ()) for kind in kinds)


def _is_in_global_memory(message: str, stage: Stage) -> bool:
    """Whether threads race for global memory, for which TVM puts no barriers in."""
    named = re.search(r"(?:reads|writes) (\w+)\[", message)
    declared = {
        str(node.buffer.name): str(node.buffer.scope())
        for function in stage.module.functions.values()
        for node in find_all(function.body, AllocBuffer)
    }
    return named is not None and declared.get(named.group(1), "global") == "global"


class _Source(HostDevice):
    """A source that is generated already."""

    def __init__(self, generated: Generated) -> None:
        super().__init__()
        self._generated = generated

    def compile(self, module: tvm.IRModule) -> Program:
        return self.compile_generated(self._generated)


class _Executable(CpuDevice):
    """A program that is compiled already. Its stores beside a tensor end in a rim, and are seen."""

    def __init__(self, executable: Any, names: Sequence[str]) -> None:
        self._executable, self._names = executable, names

    def compile(self, module: tvm.IRModule) -> Program:
        def run(arguments: Arrays) -> tuple[Arrays, Sequence[Fault]]:
            with refusals_as("the program does not run"):
                return run_in_rims(self._executable[MAIN], self._names, arguments, tvm.cpu())

        return Program(run)
