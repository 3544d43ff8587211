"""The first bad step of a recipe, or the first bad pass of TVM in a step or in any module."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast

import tvm
import tvm_ffi

from tirstep.modules.numeric import Array
from tirstep.transforms import get_pipeline
from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.recipes import Step

from ..compile.compiling import MAIN, TARGET, name_main
from ..device import Device, DeviceError
from ..devices import find_unbound_sblocks
from ..devices.cpu import CpuDevice
from ..diff import Diff, diff_modules
from ..numeric import Bound, check_numbers, compare_outputs
from ..steps import CheckError, Finding, Run, step_label
from .bisection import (
    AS_LOWERED,
    HOST,
    TIMEOUT,
    FirstBadState,
    JudgedState,
    ModuleBisection,
)

UNKNOWN_START = "the start, of which nothing could be run,"
Kind: TypeAlias = Literal["step", "pass", "between", "refused"]
StepCheck: TypeAlias = Callable[[Step, tvm.IRModule, Device], list[Finding]]


@dataclass(frozen=True)
class FirstBad:
    """The first bad step or pass, and how it was found.

    Attributes
    ----------
    kind : ``"step"``, or ``"pass"`` where the step means the right thing and TVM makes it wrong.
        Both are confirmed: the same device finds the state before right and the one after wrong.
        ``"between"``: what stands between the two could not be judged, or another device judged
        the first of them, and any of what is between may be the first bad. ``"refused"``: a pass of
        TVM refuses what the step made; the first bad is the step, that pass, or what stands between
        it and the last state that is right.
    right : the last state that is right, with the device; empty where none was found
    wrong : the first state that is wrong, with the device
    number, name : of the step; of the pass among all passes of the compilation, from 1; of what
        made the first wrong state, where others may be the first bad as well
    finding : what is wrong
    diff : what the step or the pass changed; what changed between the two states
    module : the scheduled module that shows it
    kernel : the module that it should be equal to; None where it is not known
    target : what was compiled for
    run, step : None where a module was given and no recipe
    seed : of the inputs
    not_run : what could not be judged between the two states, each with the reason
    is_custom : another pipeline took the place of the one that the module asks for
    source : the CUDA source, where that is wrong and no pass before it
    is_pass : `number` and `name` are of a pass, and not of a step
    arguments, outputs : where a module was given: its arguments, and the places of the outputs
    """

    kind: Kind
    right: str
    wrong: str
    number: int
    name: str
    finding: Finding
    diff: Diff
    module: tvm.IRModule
    kernel: tvm.IRModule | None
    target: str
    run: Run | None
    step: Step | None
    seed: int
    not_run: tuple[str, ...]
    is_custom: bool
    source: str
    is_pass: bool
    arguments: tuple[Array, ...] = field(default=(), repr=False, compare=False)
    outputs: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """What it is, in a few words; both ends where it is one of several."""
        if self.kind == "between":
            return f"between {self.right or UNKNOWN_START} and {self.wrong}"
        if self.kind == "refused" and self.step is not None:
            by = f"pass {self.number} {self.name}" if self.number else self.name
            last = f", behind {self.right}" if self.right else ""
            return f"step {self.step.index} {self.step.name}, refused by {by}{last}"
        kind = "pass" if self.kind == "refused" else self.kind
        where = f", in step {step_label(self.step)}" if kind == "pass" and self.step else ""
        return f"{kind} {self.number} {self.name}{where}"

    def __str__(self) -> str:
        return f"{self.label}: {self.finding.message}"


@dataclass(frozen=True)
class RunBisection:
    """What the bisection of a run found.

    Attributes
    ----------
    first_bad : None where nothing is wrong
    judged : what was run of each step, and on what, in the order of the steps
    not_run : of the steps that were found right, by their labels: what nothing is known about; of
        a first bad one that only a CPU could run, what could not be interpreted
    """

    first_bad: FirstBad | None
    judged: tuple[JudgedState, ...]
    not_run: tuple[str, ...]


def bisect_run(
    run: Run,
    *,
    seed: int = 0,
    target: str = TARGET,
    pipeline: str | None = None,
    timeout: float = TIMEOUT,
) -> RunBisection:
    """Find the first step of a run that is wrong, or the first pass that makes a right one wrong.

    Every step is first run as it stands, then as TVM lowers it for the target; a step with blocks
    that no loop binds to a GPU is lowered for the CPU. `pipeline` is the name of one that is
    registered with TVM (`tvm.tirx.compilation_pipeline.PIPELINE_MAP`), in place of the one that
    the module asks for, which is mostly TVM's own.

    A step that TVM refuses may be a state on the way: the search goes on, and only where nothing is
    wrong the first such step is returned.

    Behind `timeout`, in seconds, no state is interpreted any more: it is one that could not be
    judged, and steps are judged by what TVM makes of them. Until something is wrong, all steps that
    are left have equal parts of that time, so that a large one in the middle does not take it all.
    """

    def check(step: Step, module: tvm.IRModule, device: Device) -> list[Finding]:
        return check_numbers(run.problem, module, device, where=run.label(step), seed=seed)

    kernel = run.steps[0].module
    deadline = time.monotonic() + timeout
    return _RunBisection(run.steps, check, kernel, target, pipeline, run, seed, deadline).bisect()


def find_bad_pass(
    module: tvm.IRModule,
    arguments: Sequence[Array],
    expected: Sequence[Array],
    target: str,
    *,
    pipeline: str | None = None,
    kernel: tvm.IRModule | None = None,
    bounds: Sequence[Bound] | None = None,
    outputs: Sequence[int] | None = None,
    timeout: float = TIMEOUT,
) -> FirstBad | None:
    """The first pass that makes a module of one function wrong, at some arguments.

    `expected` are the last of the arguments after the run, or those at the places `outputs`.
    `bounds` say how far off each of them may be, by a number or by one for each element; without
    them integers must be equal, and so must floats that are expected to be whole numbers; others
    may be off by `numeric.ULPS` units in the
    last place of the largest. For a module that is wrong as it stands the kind is ``"step"``, and
    the number 0. `kernel` is the module from which it was scheduled, for the reproducer. `timeout`
    is that of `bisect_run`. Raises `CheckError` for arguments that do not fit, and for a module of
    several functions.
    """
    module = _take_function(module, arguments, expected)
    kernel = None if kernel is None else _take_function(kernel, arguments, expected)
    places = outputs or range(len(arguments) - len(expected), len(arguments))
    names = [str(module[MAIN].params[place].name) for place in places]

    def compare(found: Sequence[Array]) -> list[Finding]:
        return compare_outputs(found, expected, bounds, names=names, where=MAIN)

    compare(expected)  # bounds that do not fit are an error of the caller's, not of a pass

    def check(step: Step, candidate: tvm.IRModule, device: Device) -> list[Finding]:
        program = device.compile(candidate)
        after = program(arguments)
        faults = [Finding(device.name, MAIN, str(fault)) for fault in program.findings]
        return [*faults, *compare([after[place] for place in places])]

    step = Step(0, MAIN, module, None, "")
    deadline = time.monotonic() + timeout
    search = _RunBisection([step], check, kernel, target, pipeline, deadline=deadline)
    found = search.bisect().first_bad
    if found is None:
        return None
    return replace(found, arguments=tuple(arguments), outputs=tuple(places))


def _take_function(
    module: tvm.IRModule, arguments: Sequence[Array], expected: Sequence[Array]
) -> tvm.IRModule:
    """The module with its function called ``main``; raises `CheckError` where it does not fit."""
    if len(expected) > len(arguments):
        raise CheckError("find_bad_pass: more outputs are expected than there are arguments")
    try:
        module = name_main(module)
    except DeviceError as error:
        raise CheckError(f"find_bad_pass: {error}") from error
    if len(module.functions) != 1:
        raise CheckError(
            f"find_bad_pass: the module has {len(module.functions)} functions; give one of one "
            "function"
        )
    if len(module[MAIN].params) != len(arguments):
        raise CheckError(
            f"find_bad_pass: the function has {len(module[MAIN].params)} parameters and "
            f"{len(arguments)} arguments are given; give one for each"
        )
    return module


class _RunBisection:
    """The search in the steps of a run, or in one module, one after the other.

    Attributes
    ----------
    check : runs the module of a step, as it stands or lowered, on a device
    run : None where a module was given
    scheduled, lowered : the last step whose module was found right as it stands, and as TVM lowers
        it for the target, each with the state
    given_up : what could not be interpreted of the first bad step, where a CPU found it wrong
    """

    def __init__(
        self,
        steps: Sequence[Step],
        check: StepCheck,
        kernel: tvm.IRModule | None,
        target: str,
        pipeline: str | None,
        run: Run | None = None,
        seed: int = 0,
        deadline: float = math.inf,
    ) -> None:
        self.steps, self.check, self.kernel = steps, check, kernel
        self.target, self.pipeline, self.run, self.seed = target, pipeline, run, seed
        self.deadline = deadline
        self.judged: list[JudgedState] = []
        self.not_run: list[str] = []
        self.given_up: list[str] = []
        self.scheduled: tuple[Step, JudgedState] | None = None
        self.lowered: tuple[Step, JudgedState] | None = None
        self.refused: FirstBad | None = None

    def bisect(self) -> RunBisection:
        for step in self.steps:
            first_bad = self._bisect_step(step)
            if first_bad is not None:
                not_run = [] if self.refused is None else [str(self.refused)]
                not_run = [*not_run, *self.given_up]
                return RunBisection(first_bad, tuple(self.judged), tuple(not_run))
        return RunBisection(self.refused, tuple(self.judged), tuple(self.not_run))

    def _bisect_step(self, step: Step) -> FirstBad | None:
        module, target, threaded = step.module, self.target, None
        if self.run is not None and find_unbound_sblocks(module):
            module, target = make_threads_serial(module), HOST
            is_same = tvm_ffi.structural_equal(module, step.module)  # it has no threads
            threaded = None if is_same else step.module
        check = functools.partial(self.check, step)
        first_deadline = min(self.deadline, self._share_time(step))
        found = ModuleBisection(check, module, threaded, self.deadline, first_deadline)
        bad = found.find_first_bad(target, self.pipeline)
        self.judged += found.judged
        if bad is not None:
            if bad.wrong.device == CpuDevice.name:  # which only says what comes out
                self.given_up = [f"{step_label(step)}, {text}" for text in found.not_run]
            return self._describe(step, module, found, bad, target)
        self.not_run += [f"{step_label(step)}, {text}" for text in found.not_run]
        if found.refused is not None and self.refused is None:
            self.refused = self._describe(step, module, found, found.refused, target)
        if found.scheduled is not None:
            self.scheduled = (step, found.scheduled)
        if found.lowered is not None and target == self.target:
            self.lowered = (step, found.lowered)
        return None

    def _share_time(self, step: Step) -> float:
        """When a step must be found right: those behind it get their parts of the time, too."""
        if math.isinf(self.deadline):
            return self.deadline
        now = time.monotonic()
        place = next(place for place, each in enumerate(self.steps) if each is step)
        return now + max(self.deadline - now, 0.0) / (len(self.steps) - place)

    def _describe(
        self,
        step: Step,
        module: tvm.IRModule,
        found: ModuleBisection,
        state: FirstBadState,
        target: str,
    ) -> FirstBad:
        stage, failed = state.stage, state.failed
        number, name, after = step.index, step.name, step.module
        if failed is not None:
            kind, number, name = "refused", failed.number, failed.name
            right = "" if state.right is None else self._name_right(step, state.right)
            before = self.steps[max(0, step.index - 1)].module
            names = ("the step before", f"{step.index} {step.name}")
            not_run = [*(found.not_run if self.run is None and not right else ()), *state.not_run]
        else:
            last = self.lowered if state.wrong.state == AS_LOWERED else self.scheduled
            right, before, is_exact = self._find_last_right(step, module, state, last)
            not_run = list(state.not_run)
            if not is_exact and (stage is None or state.right is None):
                first = 0 if last is None else last[0].index
                labels = [step_label(each) for each in self.steps[first : step.index]]
                before_it = [text for text in self.not_run if text.partition(",")[0] in labels]
                not_run = [*before_it, *found.not_run, *not_run]
            if stage is not None:
                number, name, after = stage.number, stage.name, stage.module
            kind = ("step" if stage is None else "pass") if is_exact else "between"
            names = (right or "before", f"{number} {name}")
        wrong = AS_LOWERED if failed is not None else state.wrong.describe(is_right=False)
        finding = state.finding
        if failed is not None:
            finding = replace(finding, where=MAIN if self.run is None else self.run.label(step))
        return FirstBad(
            kind=cast(Kind, kind),
            right=right,
            wrong=f"{self._name(step)} {wrong}",
            number=number,
            name=name,
            finding=finding.at(step.location),
            diff=diff_modules(before, after, names=names),
            module=module,
            kernel=self.kernel,
            target=target,
            run=self.run,
            step=None if self.run is None else step,
            seed=self.seed,
            not_run=tuple(dict.fromkeys(not_run)),
            is_custom=self.pipeline not in (None, get_pipeline(module)),
            source=state.source,
            is_pass=stage is not None or failed is not None,
        )

    def _find_last_right(
        self,
        step: Step,
        module: tvm.IRModule,
        state: FirstBadState,
        last: tuple[Step, JudgedState] | None,
    ) -> tuple[str, tvm.IRModule, bool]:
        """The last right state in words, its module, and whether nothing lies before the bad one.

        `last` is the last step that was found right.
        """
        if state.stage is not None and state.right is not None:
            return self._name_right(step, state.right), state.before or module, state.is_exact
        if step.index and last is not None:
            is_exact = state.is_exact and self._is_next(last, step, state.wrong)
            return self._name_right(*last), last[0].module, is_exact
        before = self.steps[max(0, step.index - 1)].module
        return "", before, state.is_exact and not step.index

    def _is_next(self, last: tuple[Step, JudgedState], step: Step, wrong: JudgedState) -> bool:
        """Whether the last right step is the one before, and right on the same device, too."""
        before, right = last
        if before.index != step.index - 1:
            return False
        if right.device == wrong.device:
            return True
        if wrong.device != CpuDevice.name:
            return False
        try:
            return not self.check(before, before.module, CpuDevice())
        except DeviceError:
            return False

    def _name(self, step: Step) -> str:
        return "the module" if self.run is None else f"step {step_label(step)}"

    def _name_right(self, step: Step, right: JudgedState) -> str:
        return f"{self._name(step)} {right.describe(is_right=True)}"
