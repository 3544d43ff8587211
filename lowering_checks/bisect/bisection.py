"""Whether a module is wrong as it stands, or after which of TVM's passes it is, by bisection."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm.tirx import AllocBuffer

from tirstep.transforms.tir import find_all

from ..compile.compiling import MAIN
from ..compile.passes import Failure, Lowering, explain_failure, lower_through_passes
from ..device import (
    Arrays,
    Device,
    DeviceError,
    DeviceFinding,
    Program,
    convert_tvm_errors,
    get_reason,
    is_scalar,
)
from ..devices.cpu import CpuDevice
from ..devices.guard_zones import run_in_guard_zones
from ..devices.simulator.interpreter import Interpreter
from ..facts.compiled import find_source_error
from ..facts.cuda_compilers import CompilerMissing, get_compiler
from ..steps import Finding
from .stages import COMPACTS, HOST_ALONE, ORDERS_THREADS, Stage, find_stages

Check = Callable[[tvm.IRModule, Device], list[Finding]]
TIMEOUT = 120.0
"""Seconds that a search may take, by default, before it interprets no further state."""
SHARE = 0.5
"""Of the time that is left: how much of it one state may take."""
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
"""Faults that are seen in lowered modules only, and the passes behind which they come from the
schedule: it made the vectors, and the buffers. Behind any other pass they are that pass's."""


@dataclass(frozen=True)
class JudgedState:
    """A state of the module, such as ``"as scheduled"``, and the name of the device that ran it."""

    state: str
    device: str

    def describe(self, *, is_right: bool) -> str:
        """``after pass 1 tirx.BindTarget (right: interpreter)``."""
        return f"{self.state} ({'right' if is_right else 'wrong'}: {self.device})"


@dataclass(frozen=True)
class FirstBadState:
    """Where a module goes wrong.

    Attributes
    ----------
    stage : the first one that is wrong; None where the module is wrong as it stands
    right, wrong : the last state that is right, None where there is none in this module; and the
        first that is wrong
    is_exact : both were judged by the same device, and nothing but `stage` stands between them
    not_run : what stands between them as well and could not be judged, each with the reason
    source : what was generated, where that is wrong and no pass before it
    before : the module of `right`
    failed : a pass that refuses the module, in place of `stage`
    """

    stage: Stage | None
    finding: Finding
    right: JudgedState | None
    wrong: JudgedState
    is_exact: bool
    not_run: tuple[str, ...] = ()
    source: str = ""
    before: tvm.IRModule | None = None
    failed: Failure | None = None


@dataclass
class ModuleBisection:
    """The search for the first bad state of a module, what was run, and what could not be run.

    The module as it stands comes first, then what comes out in the end. Only where that is wrong
    are the stages in between run, by bisection. For a CPU the end is the program. For a GPU it is
    the last stage that can be run, and then whether CUDA's compiler takes the generated source,
    which is not run. A module that is too large to interpret as it stands is run on the CPU.

    Attributes
    ----------
    check : runs a module on a device
    threaded : the module before its threads were made serial, if they were
    deadline : when, by `time.monotonic`, no more states are interpreted: they count as such that
        cannot be judged
    first_deadline : the same while nothing is known to be wrong
    is_wrong : whether something is, and is looked for
    refused : None where TVM lowers the module
    judged : what was run
    not_run : what could not be run, each with the reason
    scheduled : the module as it stands, if it was found right
    lowered : the last state that was found right; None where that is the module as it stands
    lowering : what TVM made of it; None where it is wrong as it stands
    """

    check: Check
    module: tvm.IRModule
    threaded: tvm.IRModule | None
    deadline: float = math.inf
    first_deadline: float = math.inf
    is_wrong: bool = False
    refused: FirstBadState | None = None
    judged: list[JudgedState] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    scheduled: JudgedState | None = None
    lowered: JudgedState | None = None
    lowering: Lowering | None = None
    _wrong_on_cpu: Finding | None = None
    _verdicts: dict[int, list[Finding] | None] = field(default_factory=dict)
    _reasons: dict[int, str] = field(default_factory=dict)

    def find_first_bad(self, target: str, pipeline: str | None) -> FirstBadState | None:
        """The first bad state, None where nothing is wrong; what is seen is in the attributes."""
        wrong = self._judge_scheduled()
        if wrong:
            return _bad_schedule(wrong[0], Interpreter.name)
        self.lowering = lowering = lower_through_passes(self.module, target, pipeline=pipeline)
        stages = find_stages(lowering)
        if lowering.failed is not None:
            return self._bisect_failure(stages, lowering.failed)
        if target.startswith(HOST):
            return self._bisect_program(lowering, stages)
        return self._bisect_kernels(lowering, stages, target)

    def _judge_scheduled(self) -> list[Finding] | None:
        """The findings of the module as it stands; None where it cannot be interpreted.

        Threads that run at once take seconds where one after the other takes minutes. So these are
        run first, and what they do wrong, or cannot do, must show one after the other, too: a step
        in the middle may have memory of a GPU's block outside of any block.
        """
        state = JudgedState(AS_SCHEDULED, Interpreter.name)
        if self.threaded is not None:
            with suppress(DeviceError):
                if not self._interpret(self.threaded, Interpreter()):
                    self.judged.append(state)
                    self.scheduled = state
                    return []
        found = self._judge(state, lambda: self._interpret(self.module, Interpreter()))
        if found is None:
            state = JudgedState(AS_SCHEDULED, CpuDevice.name)  # of what LLVM makes of it
            wrong = self._judge(state, lambda: self._run(self.module, CpuDevice()))
            self._wrong_on_cpu = wrong[0] if wrong else None
            self.scheduled = state if wrong == [] else None
        else:
            self.scheduled = None if found else state
        return found

    def _interpret(self, module: tvm.IRModule, device: Interpreter) -> list[Finding]:
        """The findings; raises `DeviceError` where the module cannot be run.

        Iterations that ran at once and are found wrong run one after the other, too: whether they
        may run at once is what the module declares, which may be wrong. Where it is proven for each
        thread, threads may race with one another that wait in between.
        """
        found = self._run_in_time(module, device)
        races = [finding for finding in found if finding.message.startswith("race")]
        if not (found and device.has_spread) and not (races and device.has_wide_loops):
            return found
        serial = Interpreter(
            in_order=device.in_order,
            is_compact=device.is_compact,
            at_once=False,
            widens=not races,
        )
        try:
            return self._run_in_time(module, serial)
        except DeviceError:
            if len(races) == len(found):
                raise
            return found

    def _run_in_time(self, module: tvm.IRModule, device: Interpreter) -> list[Finding]:
        """`_run` within its share of the time that is left."""
        deadline = self.deadline if self.is_wrong else self.first_deadline
        if not math.isinf(deadline):
            now = time.monotonic()
            device.deadline = now + max(deadline - now, 0.0) * SHARE
        return self._run(module, device)

    def _run(self, module: tvm.IRModule, device: Device) -> list[Finding]:
        try:
            return self.check(module, device)
        except DeviceError:
            raise
        except Exception as error:  # a module that a pass has spoiled may be anything
            if not isinstance(device, Interpreter):
                raise
            raise DeviceError(
                f"the {device.name} fails: {type(error).__name__}: {get_reason(error)}"
            ) from error

    def _judge(self, state: JudgedState, run: Callable[[], list[Finding]]) -> list[Finding] | None:
        """The findings; None where the module cannot be run, which is noted."""
        try:
            found = run()
        except DeviceError as error:
            self.not_run.append(f"{state.state}: {error}")
            return None
        self.judged.append(state)
        return found

    def _bisect_failure(self, stages: Sequence[Stage], failed: Failure) -> FirstBadState | None:
        """What a pass refuses may be wrong already; a limit of our own decides nothing."""
        if failed.is_limit:
            self.not_run.append(f"{AS_LOWERED}: {failed.reason}")
            return None
        judged = self._find_judged(stages)
        if judged and self._judge_stage(judged[-1]):
            return self._bisect_stages(judged)
        right = self._describe_right(judged[-1] if judged else None)
        behind = self._list_unjudged(stages[len(judged) :], None)
        finding = Finding("lowering", "", explain_failure(self.module, failed))
        wrong = JudgedState(AS_LOWERED, "")
        self.refused = FirstBadState(
            None, finding, right, wrong, False, tuple(behind), failed=failed
        )
        return None

    def _bisect_program(self, lowering: Lowering, stages: Sequence[Stage]) -> FirstBadState | None:
        """For a CPU: the program, and where that is wrong the stages."""
        program = _Executable(lowering.executable, self.module[MAIN].params)
        end = JudgedState(AS_PROGRAM, program.name)
        wrong = self._judge(end, lambda: self._run(self.module, program))
        if not wrong:
            self.lowered = end if wrong is not None else None
            return None
        with suppress(DeviceError):
            if not self._run(self.module, program):
                wrong = [replace(wrong[0], message=f"{wrong[0].message} (in one of two runs)")]
        if self.threaded is not None:
            # Serial threads may mean something else, which no pass has caused.
            state = JudgedState(
                f"{AS_SCHEDULED}, with threads one after the other", Interpreter.name
            )
            serial = self._judge(state, lambda: self._interpret(self.module, Interpreter()))
            if serial:
                return _bad_schedule(serial[0], Interpreter.name)
        judged = self._find_judged(stages)
        if judged and self._judge_stage(judged[-1]):
            return self._bisect_stages(judged)
        return self._bad_end(lowering, stages, judged, wrong[0], end)

    def _bisect_kernels(
        self, lowering: Lowering, stages: Sequence[Stage], target: str
    ) -> FirstBadState | None:
        """For a GPU: the last stage that can be run, and whether the source after it compiles."""
        # What the host's part becomes is no part of the program that is judged.
        own = [stage for stage in stages if stage.obstacle != HOST_ALONE]
        judged = self._find_judged(own)
        if judged:
            end = JudgedState(f"after {judged[-1].name}", Interpreter.name)
            self.judged.append(end)
            if self._judge_stage(judged[-1]):
                return self._bisect_stages(judged)
            self.lowered = end
        for stage in own[len(judged) :][:1]:
            reason = self._reasons[stage.number]
            self.not_run.append(f"all from {stage.number} {stage.name}: {reason}")
        if lowering.language != "cuda" or lowering.executable is None:
            return None
        architecture = str(tvm.target.Target(target).attrs["arch"])
        try:
            error = find_source_error(lowering.source, architecture)
        except CompilerMissing as missing:
            self.not_run.append(f"{AS_SOURCE}: {missing}")
            return None
        end = JudgedState(AS_SOURCE, get_compiler().name)
        if error is None:
            self.judged.append(end)
            return None
        message = f"{end.device} does not compile it for {architecture}: {error}"
        return self._bad_end(lowering, stages, judged, Finding("lowering", "", message), end)

    def _find_judged(self, stages: Sequence[Stage]) -> Sequence[Stage]:
        """The stages up to the last one that can be judged."""
        count = len(stages)
        while count and self._judge_stage(stages[count - 1]) is None:
            count -= 1
        return stages[:count]

    def _judge_stage(self, stage: Stage) -> list[Finding] | None:
        """The findings; None where the stage cannot be judged, for a reason that is kept."""
        if stage.number not in self._verdicts:
            self._verdicts[stage.number] = self._check_stage(stage)
        return self._verdicts[stage.number]

    def _check_stage(self, stage: Stage) -> list[Finding] | None:
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

    def _bisect_stages(self, stages: Sequence[Stage]) -> FirstBadState:
        """The first wrong stage, where the last one is wrong."""
        if self._wrong_on_cpu is not None:
            return _bad_schedule(self._wrong_on_cpu, CpuDevice.name)
        self.is_wrong = True

        def is_right(place: int) -> bool | None:
            found = self._judge_stage(stages[place])
            return None if found is None else not found

        low, high = bisect(len(stages), is_right)
        stage, found = stages[high], self._verdicts[stages[high].number] or []
        if _is_asked_for(stage, found):
            wrong = JudgedState(AS_LOWERED, Interpreter.name)
            return FirstBadState(None, found[0], None, wrong, True)
        between = self._list_unjudged(stages[low + 1 : high], stage)
        right = self._describe_right(stages[low] if low >= 0 else None)
        wrong = JudgedState(f"after {stage.label}", Interpreter.name)
        if not self._was_given_right(stage):
            wrong = JudgedState(f"before {stage.label}", Interpreter.name)
            between.append(
                f"{wrong.state}: it is given another module than the pass before it made"
            )
        is_exact = not between and right is not None and right.device == Interpreter.name
        before = stages[low].module if low >= 0 else self.module
        return FirstBadState(stage, found[0], right, wrong, is_exact, tuple(between), "", before)

    def _describe_right(self, stage: Stage | None) -> JudgedState | None:
        if stage is None:
            return self.scheduled
        return JudgedState(f"after {stage.label}", Interpreter.name)

    def _list_unjudged(self, stages: Sequence[Stage], wrong: Stage | None) -> list[str]:
        """What stands before a wrong stage and was not judged; the schedule, if it was not."""
        # What a pass runs itself, after it has spoiled the module, is no gap in front of it.
        return [
            f"after {stage.number} {stage.name}: {self._reasons[stage.number]}"
            for stage in stages
            if wrong is None
            or self._reasons[stage.number] != GIVEN_WRONG
            or stage.number < wrong.number
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

    def _bad_end(
        self,
        lowering: Lowering,
        stages: Sequence[Stage],
        judged: Sequence[Stage],
        finding: Finding,
        wrong: JudgedState,
    ) -> FirstBadState:
        """Wrong is what comes out, on another device than the one that finds all stages right."""
        if self._wrong_on_cpu is not None and not judged:
            return _bad_schedule(self._wrong_on_cpu, CpuDevice.name)
        module = stages[-1].module if stages else self.module
        stage = Stage(len(lowering.passes) + 1, CODE_GENERATION, module, module, False, None)
        last = judged[-1].number if judged else 0
        behind = [each for each in stages if each.number in self._reasons and each.number > last]
        return FirstBadState(
            stage,
            finding,
            self._describe_right(judged[-1] if judged else None),
            wrong,
            False,
            tuple(self._list_unjudged(behind, None)),
            lowering.source if lowering.language == "cuda" else "",
            module,
        )


def _bad_schedule(finding: Finding, device: str) -> FirstBadState:
    return FirstBadState(None, finding, None, JudgedState(AS_SCHEDULED, device), True)


def _make_interpreter(stage: Stage) -> Interpreter:
    return Interpreter(in_order=stage.is_in_order, is_compact=stage.is_compact)


def _is_asked_for(stage: Stage, found: Sequence[Finding]) -> bool:
    """Whether the schedule itself requests what is wrong, and the pass only carries it out."""
    kinds = {finding.message.partition(":")[0] for finding in found}
    if kinds == {"race"} and stage.name == ORDERS_THREADS:
        return all(_is_in_global_memory(finding.message, stage) for finding in found)
    return bool(kinds) and all(stage.name in CARRIES_OUT.get(kind, ()) for kind in kinds)


def _is_in_global_memory(message: str, stage: Stage) -> bool:
    """Whether threads race for global memory, for which TVM inserts no barriers."""
    named = re.search(r"(?:load of|store to) (\w+)\[", message)
    declared = {
        str(node.buffer.name): str(node.buffer.scope())
        for function in stage.module.functions.values()
        for node in find_all(function.body, AllocBuffer)
    }
    return named is not None and declared.get(named.group(1), "global") == "global"


class _Executable(CpuDevice):
    """A program that is compiled already, run between guard zones, which show stray stores."""

    def __init__(self, executable: Any, parameters: Sequence[Any]) -> None:
        self._executable = executable
        self._names = [str(parameter.name) for parameter in parameters]
        self._scalars = [is_scalar(parameter) for parameter in parameters]

    def compile(self, module: tvm.IRModule) -> Program:
        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            call = self._executable[MAIN]
            with convert_tvm_errors("the program does not run"):
                return run_in_guard_zones(
                    call, self._names, arguments, tvm.cpu(), scalars=self._scalars
                )

        return Program(run)


IsRight = Callable[[int], "bool | None"]
SECONDS = 3.0
"""How long the states behind a transition are confirmed to be wrong, too."""


def bisect(count: int, is_right: IsRight, *, seconds: float = SECONDS) -> tuple[int, int]:
    """Two places with a right state, a wrong one, and none between that can be judged.

    The places are 0 to ``count - 1``, and the last of them is wrong. `is_right` is None for a state
    that cannot be judged, and is called once for each place. The first of the two returned is -1
    where no right state was found.

    A wrong state that a right one follows is not what made the last one wrong: the judging device
    may as well have erred. So the states behind the transition are judged, too, near ones first,
    and bisected again behind the last right one. All of them, unless that takes too long.
    """
    known: dict[int, bool | None] = {count - 1: False}

    def judge(place: int) -> bool | None:
        if place not in known:
            known[place] = is_right(place)
        return known[place]

    low = -1
    while True:
        low, high = _narrow(low, count - 1, judge)
        later = _find_right(high, count, judge, time.monotonic() + seconds)
        if later is None:
            return low, high
        low = later


def _narrow(low: int, high: int, judge: IsRight) -> tuple[int, int]:
    """A right place, or -1, and a wrong one, between which no place can be judged."""
    unknown: set[int] = set()
    while places := [place for place in range(low + 1, high) if place not in unknown]:
        middle = places[len(places) // 2]
        verdict = judge(middle)
        if verdict is None:
            unknown.add(middle)
        elif verdict:
            low = middle
        else:
            high = middle
    return low, high


def _find_right(high: int, count: int, judge: IsRight, deadline: float) -> int | None:
    """The last place behind `high` that is found right; None where all are wrong or unknown."""
    found = None
    for place in _gallop(high, count - 1):
        if time.monotonic() > deadline:
            break
        if (found is None or place > found) and judge(place):
            found = place
    return found


def _gallop(low: int, high: int) -> Iterator[int]:
    """The places between two: those at distances of 1, 2, 4, ... first, then the others."""
    first = []
    step = 1
    while low + step < high:
        first.append(low + step)
        step *= 2
    yield from first
    yield from (place for place in range(low + 1, high) if place not in first)
