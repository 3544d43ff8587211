"""The first bad step of a recipe, or the first bad pass of TVM in a step or in any module."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import tvm
import tvm_ffi

from tirstep.modules.inputs import Array
from tirstep.modules.validation import UnjudgedError
from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.recipes import Step

from ..compile.compiling import MAIN, TARGET, name_main
from ..device import Device, DeviceError, NotRunError, require_arguments
from ..devices import find_unbound_sblocks
from ..devices.cpu import CpuDevice
from ..devices.simulator.interpreter import Interpreter
from ..judgement import Judgement, Status, compare, watch
from ..numeric import Bound, compare_outputs
from ..reference import ModuleProblem
from ..steps import CheckError, Diff, Finding, Run, diff_modules, step_label
from .bisection import (
    AS_LOWERED,
    HOST,
    TIMEOUT,
    JudgedState,
    ModuleBisection,
)

UNKNOWN_START = "the start, where nothing could be run,"
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
    source : the CUDA source, where that is wrong and no pass before it
    is_pass : `number` and `name` are of a pass, and not of a step
    arguments, outputs : where a module was given: its arguments, and the places of the outputs
    """

    kind: str
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
    timeout: float = TIMEOUT,
) -> RunBisection:
    """Find the first step of a run that is wrong, or the first pass that makes a right one wrong.

    Every step is first run as it stands, then as TVM lowers it for the target; a step with blocks
    that no loop binds to a GPU is lowered for the CPU.

    A step that TVM refuses may be a state on the way: the search goes on, and only where nothing is
    wrong the first such step is returned.

    Behind `timeout`, in seconds, no state is interpreted any more: it is one that could not be
    judged, and steps are judged by what TVM makes of them. Until something is wrong, all steps that
    are left have equal parts of that time, so that a large one in the middle does not take it all.
    """

    parts: dict[str, None] = {}

    def check(step: Step, module: tvm.IRModule, device: Device) -> list[Finding]:
        where = run.label(step)
        try:
            judged = compare(run.problem, module, device, where=where, seed=seed)
        except UnjudgedError as error:
            if not (isinstance(run.problem, ModuleProblem) and isinstance(device, Interpreter)):
                raise NotRunError(str(error)) from error
            program = watch(run.problem, module, device, seed)
            found = tuple(Finding(device.name, where, str(each)) for each in program.findings)
            judged = Judgement(Status.CLEAN, found, part=program.part)
        if judged.part:
            parts[f"{step_label(step)}, all but {judged.part}"] = None
        return [*judged.findings]

    kernel, deadline = run.steps[0].module, time.monotonic() + timeout
    found = _search(run.steps, check, kernel, target, deadline, run, seed)
    return replace(found, not_run=(*found.not_run, *parts))


def find_bad_pass(
    module: tvm.IRModule,
    arguments: Sequence[Array],
    expected: Sequence[Array],
    target: str,
    *,
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

    compare = functools.partial(
        compare_outputs, expected=expected, bounds=bounds, names=names, where=MAIN
    )
    compare(expected)  # bounds that do not fit are an error of the caller's, not of a pass

    def check(step: Step, candidate: tvm.IRModule, device: Device) -> list[Finding]:
        program = device.compile(candidate)
        after = program(arguments)
        faults = [Finding(device.name, MAIN, str(fault)) for fault in program.findings]
        return [*faults, *compare([after[place] for place in places])]

    step, deadline = Step(0, MAIN, module, None, ""), time.monotonic() + timeout
    found = _search([step], check, kernel, target, deadline).first_bad
    if found is None:
        return None
    return replace(found, arguments=tuple(arguments), outputs=tuple(places))


def _take_function(
    module: tvm.IRModule, arguments: Sequence[Array], expected: Sequence[Array]
) -> tvm.IRModule:
    """The module with its function called ``main``; raises `CheckError` where it does not fit."""
    try:
        module = name_main(module)
        require_arguments(module[MAIN].params, [np.asarray(it) for it in arguments])
    except DeviceError as error:
        raise CheckError(f"find_bad_pass: {error}") from error
    functions, wrong = len(module.functions), ""
    if len(expected) > len(arguments):
        wrong = "there are more expected outputs than arguments"
    elif functions != 1:
        wrong = f"the module has {functions} functions; give one of one function"
    if wrong:
        raise CheckError(f"find_bad_pass: {wrong}")
    return module


def _search(
    steps: Sequence[Step],
    check: StepCheck,
    kernel: tvm.IRModule | None,
    target: str,
    deadline: float,
    run: Run | None = None,
    seed: int = 0,
) -> RunBisection:
    """Search the steps of a run, or one module where no `run` is given, one after the other.

    `check` runs the module of a step, as it stands or lowered, on a device.
    """
    judged: list[JudgedState] = []
    not_run: list[str] = []
    refused: FirstBad | None = None
    # The last step whose module was found right as it stands, and as TVM lowers it for the target.
    scheduled: tuple[Step, JudgedState] | None = None
    lowered: tuple[Step, JudgedState] | None = None

    def name(step: Step, state: JudgedState, verdict: str = "right") -> str:
        owner = "the module" if run is None else f"step {step_label(step)}"
        return f"{owner} {state.state}" + (f" ({verdict}: {state.device})" if verdict else "")

    for place, step in enumerate(steps):
        module, used, threaded = step.module, target, None
        if run is not None and find_unbound_sblocks(module):
            module, used = make_threads_serial(module), HOST
            is_same = tvm_ffi.structural_equal(module, step.module)  # it has no threads
            threaded = None if is_same else step.module
        # A step must be found right in its part of the time: those behind it get theirs, too.
        now = time.monotonic()
        first_deadline = min(deadline, now + max(deadline - now, 0.0) / (len(steps) - place))
        found = ModuleBisection(
            functools.partial(check, step), module, threaded, first_deadline, deadline
        )
        state = found.find_first_bad(used)
        judged += found.judged
        told = [f"{step_label(step)}, {text}" for text in found.not_run]
        if state is not None and (state.failed is None or refused is None):
            stage, failed, before = state.stage, state.failed, steps[max(0, place - 1)].module
            right, finding, gaps = "", state.finding, list(state.not_run)
            number, title, after = step.index, step.name, step.module
            if failed is not None:
                right = "" if state.right is None else name(step, state.right)
                gaps = [*(found.not_run if run is None and not right else ()), *gaps]
                names = ("the step before", f"{number} {title}")
                number, title, kind = failed.number, failed.name, "refused"
                finding = replace(finding, where=MAIN if run is None else run.label(step))
            else:
                last, is_exact = scheduled, state.is_exact
                if state.wrong.state == AS_LOWERED:
                    last = lowered
                if stage is not None and state.right is not None:
                    right, before = name(step, state.right), state.before or module
                elif step.index and last is not None:
                    right, before = name(*last), last[0].module
                    # Only where the step before it is right on the same device, too.
                    is_exact = is_exact and last[0].index == step.index - 1
                    if is_exact and last[1].device != state.wrong.device:
                        is_exact = False
                        if state.wrong.device == CpuDevice.name:
                            with suppress(DeviceError):
                                is_exact = not check(last[0], last[0].module, CpuDevice())
                else:
                    is_exact = is_exact and not step.index
                if not is_exact and (stage is None or state.right is None):
                    first = 0 if last is None else last[0].index
                    labels = [step_label(each) for each in steps[first:place]]
                    before_it = [text for text in not_run if text.partition(",")[0] in labels]
                    gaps = [*before_it, *found.not_run, *gaps]
                if stage is not None:
                    number, title, after = stage.number, stage.name, stage.module
                kind = ("step" if stage is None else "pass") if is_exact else "between"
                names = (right or "before", f"{number} {title}")
            first_bad = FirstBad(
                kind=kind,
                right=right,
                wrong=name(step, state.wrong, "wrong" if failed is None else ""),
                number=number,
                name=title,
                finding=finding.at(step.location),
                diff=diff_modules(before, after, names=names),
                module=module,
                kernel=kernel,
                target=used,
                run=run,
                step=None if run is None else step,
                seed=seed,
                not_run=tuple(dict.fromkeys(gaps)),
                source=state.source,
                is_pass=stage is not None or failed is not None,
            )
            if failed is None:
                # A CPU only says what comes out: what was not run is told, too.
                given_up = told if state.wrong.device == CpuDevice.name else []
                given_up = [*([] if refused is None else [str(refused)]), *given_up]
                return RunBisection(first_bad, tuple(judged), tuple(given_up))
            refused = first_bad
        not_run += told
        if found.scheduled is not None:
            scheduled = (step, found.scheduled)
        if found.lowered is not None and used == target:
            lowered = (step, found.lowered)
    return RunBisection(refused, tuple(judged), tuple(not_run))
