"""Tries a change of TVM's pipeline on a module: the module without it, and with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tirstep.lowering_checks import CheckError, Diff, Finding, diff_modules
from tirstep.lowering_checks.bisect.stages import ORDERS_THREADS, Stage, find_stages
from tirstep.lowering_checks.compile.compiling import using_pipeline
from tirstep.lowering_checks.compile.launches import SPLIT_PASS
from tirstep.lowering_checks.compile.passes import Lowering, Pass, lower_through_passes
from tirstep.lowering_checks.devices import Device, get_device, is_cuda_available
from tirstep.lowering_checks.devices.device import (
    Arrays,
    DeviceError,
    DeviceFinding,
    Program,
    Timing,
)
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.lowering_checks.facts import CompiledFacts, Fact, compile_everywhere, facts_of_lowering
from tirstep.transforms import get_pipeline

from .editing import DEFAULT, MARK, Edit, edit_whole, register, register_edited
from .quick import (
    CRASHED,
    LEFT_OUT,
    REFUSED,
    RIGHT,
    UNCHANGED,
    UNJUDGED,
    WRONG,
    TimeLimit,
    explain_lost,
)
from .subject import HOST, ModuleOracle, Subject

BAD = (WRONG, REFUSED, CRASHED)
"""What makes a pass wrong: another answer, or a module that it or a pass behind it refuses, or with
which it ends the process."""
SIMULATOR = "simulator"


class Experiment:
    """A change of the pipeline, within which its pipelines are known to TVM.

    Attributes
    ----------
    name : for people
    edits : of each pipeline that a module asks for; one of `editing.WHOLE` where `whole`, of
        `editing.make_whole`, takes its place
    """

    def __init__(self, name: str, edits: Sequence[Edit] = (), whole: Any = None) -> None:
        self.name, self.whole = name, whole
        self.edits = tuple(edits) if whole is None else (edit_whole(whole, name),)
        self._stack = ExitStack()
        self._known: dict[str, str] = {}

    def __enter__(self) -> Experiment:
        self._stack.__enter__()
        self.name_pipeline(DEFAULT)  # so that a wrong name is refused at once
        return self

    def __exit__(self, *error: Any) -> None:
        self._known.clear()
        self._stack.__exit__(*error)

    def name_pipeline(self, base: str) -> str:
        """The changed pipeline in place of one, registered with TVM while this lasts."""
        if base not in self._known:
            manager = (
                register_edited(self.edits, base) if self.whole is None else register(self.whole)
            )
            self._known[base] = self._stack.enter_context(manager)
        return self._known[base]


class LoweredDevice(Device):
    """Runs what a pipeline makes of a module: its last state that the interpreter can run.

    For a GPU that is what `simulator` runs, or what comes behind it. A state before pass number
    `first` is not taken, for it shows nothing of what the pass does. `lowering` is that of the
    module which is compiled, where it was made already. A run takes `quick.SECONDS` at most.
    """

    def __init__(self, target: str, lowering: Lowering | None = None, first: int = 0) -> None:
        self.name = "interpreter" if target.startswith(HOST) else SIMULATOR
        self._target, self._lowering, self._first = target, lowering, first

    @property
    def description(self) -> str:
        """What it is, for people."""
        return "what the passes make of a module, interpreted"

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """None: what cannot be run raises when it is run."""
        return None

    def compile(self, module: tvm.IRModule) -> Program:
        """Lower a module; raises `DeviceError` where a pass refuses it."""
        lowering = self._lowering or lower_through_passes(module, self._target)
        if lowering.failed is not None:
            raise DeviceError(str(lowering.failed))
        stages = [each for each in find_stages(lowering) if each.program is not None]
        # Behind the last pass that changes something, an earlier number is the same module.
        last = max((each.number for each in lowering.passes if each.changed), default=0)
        chosen = [each for each in stages if each.number >= min(self._first, last)]

        # Without the pass that puts barriers in, nothing orders threads.
        is_ordered = any(each.name == ORDERS_THREADS for each in lowering.passes)

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            return _run_last(chosen, arguments, is_ordered=is_ordered)

        return Program(run)


def _run_last(
    stages: list[Stage], arguments: Arrays, *, is_ordered: bool
) -> tuple[Arrays, Sequence[DeviceFinding]]:
    """Run the last stage that can be run; those that cannot are taken off the list."""
    reason = "no state of the module behind the change can be interpreted"
    limit = TimeLimit()
    while stages:
        stage = stages[-1]
        try:
            in_order = stage.is_in_order and is_ordered
            device = Interpreter(in_order=in_order, is_compact=stage.is_compact)
            device.deadline = limit.end
            program = device.compile(stage.program)
            return program(arguments), program.findings
        except Exception as error:  # a module that a pass has spoiled may be anything
            reason = limit.explain(error)
        stages.pop()
    raise DeviceError(reason)


@dataclass(frozen=True)
class DeviceVerdict:
    """What a device says of a module without the change and with it.

    Attributes
    ----------
    before, after : findings; None where it did not run
    note : why it did not
    times : without and with it, of a device with a clock
    """

    device: str
    before: tuple[Finding, ...] | None
    after: tuple[Finding, ...] | None
    note: str = ""
    times: tuple[Timing, Timing] | None = None

    @property
    def is_wrong(self) -> bool:
        return self.before == () and bool(self.after)


@dataclass(frozen=True)
class Trial:
    """What a change of the pipeline did to a module.

    Attributes
    ----------
    status : one of `quick.STATUSES`
    reason : why it was left out or refused, or what is wrong; may be empty
    is_changed : the pass, or the pipeline up to where it was changed, made another module
    is_changed_in_the_end : what the GPU or the CPU gets is another program
    diff : what the pass changed; where there is none, what differs before code generation
    facts : by name, where they differ or where all are asked for: without and with the change
    compiled : the same for each architecture
    """

    subject: Subject
    status: str
    reason: str = ""
    is_changed: bool = False
    is_changed_in_the_end: bool = False
    diff: Diff | None = field(default=None, repr=False)
    verdicts: tuple[DeviceVerdict, ...] = ()
    facts: tuple[tuple[Fact, ...], tuple[Fact, ...]] = ((), ())
    compiled: tuple[tuple[CompiledFacts, CompiledFacts], ...] = ()
    lowered: tuple[Lowering, Lowering] | None = field(default=None, repr=False)

    @property
    def is_bad(self) -> bool:
        """Whether the change is wrong here."""
        return self.status in BAD


@dataclass(frozen=True)
class TryOptions:
    """How a change is tried.

    Attributes
    ----------
    devices : besides the simulator or the interpreter: ``"cpu"``, ``"cuda"``
    architectures : to compile for
    with_facts : whether facts are read at all
    """

    devices: Sequence[str] = ("cpu",)
    architectures: Sequence[str] = ()
    with_facts: bool = True


def choose_devices() -> tuple[str, ...]:
    """The devices that there are, besides the simulator."""
    return ("cpu", "cuda") if is_cuda_available() else ("cpu",)


def try_change(experiment: Experiment, subject: Subject, options: TryOptions) -> Trial:
    """Run a module without a change of the pipeline and with it.

    A module that is not right without it, or that TVM refuses, is left out. It raises nothing for
    what the change does: that is in the trial.
    """
    base = get_pipeline(subject.module)
    changed = experiment.name_pipeline(base)
    without = lower_through_passes(subject.module, subject.target, pipeline=base)
    if without.failed is not None:
        return Trial(subject, LEFT_OUT, f"TVM refuses it without the change: {without.failed}")
    found = lower_through_passes(subject.module, subject.target, pipeline=changed)
    refusal = str(found.failed or explain_lost(subject.module, get_end(found)))
    has_same_source = without.language != "cuda" or without.source == found.source
    is_other = not (
        found.failed is None and has_same_source and _is_same(get_end(without), get_end(found))
    )
    ours = find_marked(found)
    diffs = [each.diff() for each in ours if each.changed]
    if not ours and is_other and found.failed is None and found.passes:
        diffs = [diff_modules(get_end(without), get_end(found), names=("without", "with"))]
    trial = Trial(
        subject,
        UNCHANGED,
        is_changed=any(each.changed for each in ours) if ours else is_other,
        is_changed_in_the_end=is_other,
        diff=diffs[0] if diffs else None,
        lowered=(without, found),
    )
    if refusal:  # it counts where the module is right without the change
        before, note = _check(subject, LoweredDevice(subject.target, without))
        if before == ():
            return replace(trial, status=REFUSED, reason=refusal)
        note = f"wrong without the change: {before[0].message}" if before else note
        return replace(trial, status=LEFT_OUT, reason=note)
    if not is_other:
        return trial
    verdicts = tuple(_judge(subject, without, found, base, changed, options.devices))
    status, reason = _conclude(verdicts)
    trial = replace(trial, verdicts=verdicts, status=status, reason=reason)
    if status == LEFT_OUT or not options.with_facts or subject.target.startswith(HOST):
        return trial
    facts = [facts_of_lowering(each, problem=subject.problem) for each in (without, found)]
    compiled: tuple[Any, ...] = ()
    if options.architectures and all(each.refusal is None for each in facts):
        both = [compile_everywhere(each, options.architectures) for each in facts]
        compiled = tuple(zip(*both, strict=True))
    rows = tuple(each.rows_to_compare() if each.refusal is None else () for each in facts)
    return replace(trial, facts=(rows[0], rows[1]), compiled=compiled)


def find_marked(lowering: Lowering) -> list[Pass]:
    """The user's pass, each time that it ran, with what it was given.

    It runs within a pass of ours, whose log begins behind it.
    """
    found = []
    for place, each in enumerate(lowering.passes):
        if not each.name.startswith(MARK):
            continue
        inner = [other for other in lowering.passes[:place] if other.number == each.number + 1]
        before = inner[0].before if inner else each.before
        changed = not tvm_ffi.structural_equal(before, each.module)
        found.append(replace(each, before=before, changed=changed))
    return found


def get_end(lowering: Lowering) -> tvm.IRModule:
    """The module behind the passes that all targets have, before host and device part."""
    split = [each for each in lowering.passes if each.name == SPLIT_PASS]
    return split[-1].module if split else lowering.passes[-1].module


def _judge(
    subject: Subject,
    without: Lowering,
    found: Lowering,
    base: str,
    changed: str,
    devices: Sequence[str],
) -> list[DeviceVerdict]:
    target = subject.target
    given, first = _find_change(without, found)
    pairs: list[tuple[Device, Device]] = [
        (LoweredDevice(target, without, given), LoweredDevice(target, found, first))
    ]
    names = [name for name in devices if name != "cuda" or not target.startswith(HOST)]
    if isinstance(subject.oracle, ModuleOracle) and not target.startswith(HOST):
        names = [name for name in names if name != "cpu"]  # its threads are no loops
    pairs += [(get_device(name), get_device(name)) for name in names]
    verdicts = []
    for one, other in pairs:
        with using_pipeline(base):
            before, note = _check(subject, one)
        if before != ():
            verdicts.append(DeviceVerdict(one.name, before, None, note))
            continue
        with using_pipeline(changed):
            after, note = _check(subject, other)
        times = None
        if after == () and one.has_clock:
            times = _time(subject, (one, base), (other, changed))
        verdicts.append(DeviceVerdict(one.name, before, after, note, times))
    return verdicts


def _find_change(without: Lowering, found: Lowering) -> tuple[int, int]:
    """The number of the last pass that both have and that changes something, in front of the first
    that one alone has or that makes another module; and the number of that one, with the change.
    """
    given = number = 0
    for one, other in zip(without.passes, found.passes, strict=False):
        number = other.number
        is_other = one.name != other.name or one.changed != other.changed
        if is_other or not _is_same(one.module, other.module):
            return given, number
        given = one.number if one.changed else given
    return given, number


def _is_same(module: tvm.IRModule, other: tvm.IRModule) -> bool:
    return bool(tvm_ffi.structural_equal(module, other, map_free_vars=True))


def _check(subject: Subject, device: Device) -> tuple[tuple[Finding, ...] | None, str]:
    """The findings, or None and the reason."""
    if (obstacle := device.find_obstacle(subject.module)) is not None:
        return None, obstacle
    try:
        program = device.compile(subject.module)
        return tuple(subject.oracle.check(program, device.name, subject.label)), ""
    except (DeviceError, CheckError) as error:
        return None, str(error)


def _time(subject: Subject, *pairs: tuple[Device, str]) -> tuple[Timing, Timing] | None:
    times = []
    for device, pipeline in pairs:
        with using_pipeline(pipeline):
            try:
                times.append(device.time(subject.module, subject.oracle.arguments))
            except DeviceError:
                return None
    return times[0], times[1]


def _conclude(verdicts: Sequence[DeviceVerdict]) -> tuple[str, str]:
    """The status, and the reason."""
    wrong = [each for each in verdicts if each.is_wrong]
    if wrong:
        finding = (wrong[0].after or ())[0]
        return WRONG, f"{wrong[0].device}: {finding.message}"
    if any(each.before == () and each.after == () for each in verdicts):
        return RIGHT, ""
    if any(each.before == () for each in verdicts):
        return UNJUDGED, next(each.note for each in verdicts if each.before == ())
    first = verdicts[0]
    if first.before:
        return LEFT_OUT, f"wrong without the change: {first.before[0].message}"
    return LEFT_OUT, first.note


def have_same_bits(trial: Trial) -> bool | None:
    """Whether the outputs are the same to the bit; None where that cannot be run."""
    if trial.lowered is None:
        return None
    results = []
    for lowering in trial.lowered:
        device = LoweredDevice(trial.subject.target, lowering)
        try:
            results.append(device.compile(trial.subject.module)(trial.subject.oracle.arguments))
        except (DeviceError, CheckError):
            return None
    return all(
        np.array_equal(_as_bytes(left), _as_bytes(other))
        for left, other in zip(*results, strict=True)
    )


def _as_bytes(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
