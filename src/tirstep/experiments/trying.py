"""Tries a change of TVM's pipeline on a module: the module without it, and with it, each held
against what the module must compute.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tirstep.lowering_checks import CheckError, Diff, Finding, diff_modules
from tirstep.lowering_checks.bisect.bisection import ORDERS_THREADS, find_stages
from tirstep.lowering_checks.compile.compiling import MAIN, TARGET, UNOPTIMIZED, using_pipeline
from tirstep.lowering_checks.compile.passes import SPLIT_PASS, Lowering, Pass, lower_through_passes
from tirstep.lowering_checks.device import (
    Arrays,
    DeviceError,
    DeviceFinding,
    Program,
    Timing,
    blank,
    find_unbound_sblocks,
    is_scalar,
)
from tirstep.lowering_checks.devices import Device, get_device
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.lowering_checks.devices.simulator.statements import IS_LONG
from tirstep.lowering_checks.facts import CompiledFacts, Fact, compile_everywhere, facts_of_lowering
from tirstep.lowering_checks.legality.lowered_memory import FLATTENING, find_negative_divisors
from tirstep.lowering_checks.numeric import as_bits, check_program, compare_outputs, make_cases
from tirstep.lowering_checks.reference import ModuleProblem
from tirstep.modules import AnyProblem
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.validation import UnjudgedError
from tirstep.strategies.drawn_programs import ENDS
from tirstep.transforms import get_pipeline
from tirstep.transforms.pass_options import is_tirx
from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.tir import find_all, get_axis

from .editing import MARK, Edit, Pipeline, edit_pipeline, list_places, raised, register

HOST = UNOPTIMIZED  # nobody runs the machine code that comes of it
UNORDERED = re.compile(r"race: store to \w+\[.*? and store by ")
WRONG_AS_IT_STANDS = "it is wrong as it stands"
NONE_BEHIND = "no state of the module after the change can be interpreted"
AT_ENDS = {
    "float32": "nan nan inf -inf 0 -0.0 0.1 0.5 -0.5 1 -1.5 2 2.5 2049 -4099 65504 70000 -70000",
    "int32": "-2147483648 -2147483647 2147483647 2147483646 46341 -65536 65535 32768 -32769 255 "
    "-129 7 -7 2 1 0 -1 -2",
    "uint8": "255 255 254 200 128 127 16 1 0",
    "int8": "-128 -128 -127 127 127 100 -1 1 0",
}
"""The numbers of parameters that a drawn program names in its attribute `ENDS`."""
SMALLEST, LARGEST = -4, 4
"""The inputs of a drawn program: whole numbers, with which it computes exactly in all its types."""


@dataclass(frozen=True, eq=False)
class ProblemOracle:
    """A kernel's meaning in NumPy, of whole numbers first and then of floats within the kernel's
    bound; or a program's own, also of its special values, since it may be small: if not `is_short`.
    """

    problem: AnyProblem
    seed: int
    is_short: bool = False

    @property
    def _is_short(self) -> bool:
        return self.is_short or not isinstance(self.problem, ModuleProblem)

    @property
    def arguments(self) -> Arrays:
        blanks = [blank(each) for each in self.problem.outputs]
        case, *_ = make_cases(self.problem, self.seed, self._is_short)
        return self.problem.make_arguments(case.inputs, blanks)

    def check(self, program: Program, device: str, where: str) -> list[Finding]:
        short, seed = self._is_short, self.seed
        return check_program(self.problem, program, device, where=where, seed=seed, is_short=short)


@dataclass(frozen=True, eq=False)
class ModuleOracle:
    """The module itself, as the interpreter runs it before any pass, on whole numbers.

    What comes out whole must be the same to the bit; other floats may be off by some units in the
    last place (`numeric.get_default_bound`).

    Raises `DeviceError` where the interpreter cannot run it, or finds it wrong as it stands.
    """

    module: tvm.IRModule
    seed: int

    @functools.cached_property
    def arguments(self) -> Arrays:
        return make_arguments(self.module, self.seed)

    @functools.cached_property
    def expected(self) -> Arrays:
        try:
            return _interpret(self.module, self.arguments)
        except DeviceError as error:
            # A sum over threads in registers, say, which one thread after the other adds up.
            if WRONG_AS_IT_STANDS in str(error):
                raise
            with contextlib.suppress(DeviceError):
                return _interpret(make_threads_serial(self.module), self.arguments)
            raise error

    def check(self, program: Program, device: str, where: str) -> list[Finding]:
        expected = self.expected
        after = program(self.arguments)
        names = name_arguments(self.module)
        faults = [Finding(device, where, str(fault)) for fault in program.findings]
        return [*faults, *compare_outputs(after, expected, names=names, where=where)]


def name_arguments(module: tvm.IRModule) -> list[str]:
    """The names of a module's parameters, in their order."""
    return [str(parameter.name) for parameter in module[MAIN].params]


def _interpret(module: tvm.IRModule, arguments: Arrays) -> Arrays:
    """Run a module as it stands; raises `DeviceError` where that finds something wrong."""
    program = Interpreter().compile(module)
    after = program(arguments)
    if faults := find_faults(program, module):
        raise DeviceError(f"{WRONG_AS_IT_STANDS}: {faults[0]}")
    return after


def find_faults(program: Program, module: tvm.IRModule) -> list[DeviceFinding]:
    """The findings of a run but for loads of an argument before any store to it, whose memory is
    there: one whose value nobody uses changes nothing, and what comes of others shows in the
    numbers.
    """
    names = "|".join(name_arguments(module))
    load = re.compile(rf"uninitialized read: (load of|atomic operation on) ({names})\[")
    return [fault for fault in program.findings if not load.match(str(fault))]


def make_arguments(module: tvm.IRModule, seed: int) -> Arrays:
    """Integers from `SMALLEST` to `LARGEST` for each parameter, by its name: a parameter more
    changes no other's. Unsigned ones and truths are from 0 on.
    """
    at_ends = [str(name) for name in (module[MAIN].attrs or {}).get(ENDS, ())]

    def draw(parameter: Any) -> Any:
        has_shape, name = not is_scalar(parameter), str(parameter.name)
        dtype = str(parameter.dtype if has_shape else parameter.ty)
        random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        low = 0 if dtype.startswith(("u", "bool")) else SMALLEST
        high = 1 if dtype == "bool" else LARGEST
        shape = tuple(int(size) for size in parameter.shape) if has_shape else ()
        if name in at_ends:
            return random.choice(np.array(AT_ENDS[dtype].split()).astype(dtype), shape)
        drawn = random.integers(low, high + 1, size=shape)
        return drawn.astype("bool" if dtype == "bool" else dtype_facts(dtype).numpy)

    return [draw(each) for each in module[MAIN].params]


Oracle = ProblemOracle | ModuleOracle
"""What knows the right answer."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A module that a pass is tried on.

    Attributes
    ----------
    label : ``"matmul_naive 01_bound"``, ``"program 17 of seed 0"``
    """

    label: str
    module: tvm.IRModule
    oracle: Oracle

    @functools.cached_property
    def target(self) -> str:
        """What it is compiled for: a GPU where its loops are bound to one, otherwise this CPU."""
        bodies = [function.body for function in self.module.functions.values()]
        loops = [loop for body in bodies for loop in find_all(body, tvm.tirx.For)]
        is_bound = is_tirx(self.module) or any("Idx" in (get_axis(loop) or "") for loop in loops)
        return TARGET if is_bound and not find_unbound_sblocks(self.module) else HOST

    @property
    def problem(self) -> AnyProblem | None:
        """The kernel's problem; None of a module that is its own reference."""
        return getattr(self.oracle, "problem", None)


def make_subject(label: str, module: tvm.IRModule, seed: int = 0) -> Subject:
    """A subject whose reference is the module itself."""
    return Subject(label, module, ModuleOracle(module, seed))


LEFT_OUT, UNCHANGED, RIGHT, UNJUDGED = "left out", "unchanged", "right", "unjudged"
WRONG, REFUSED = "wrong", "refused"
BAD = (WRONG, REFUSED)
"""What makes a pass wrong: another answer, or a module that it or a pass behind it refuses."""
SECONDS = 60.0
"""What it may take to interpret a module, once without a change or with it: else it is not judged.
"""


@dataclass
class Experiment:
    """A change of the pipeline; raises `ExperimentError` for an edit without a place in it.

    Attributes
    ----------
    name : for people
    edit : of each pipeline that a module asks for; None where `whole`, of `editing.make_whole`,
        takes its place
    promises : what the pass declares besides right numbers
    named : place, anchor and spec, as it was named; see `load_experiment`
    """

    name: str
    edit: Edit | None = None
    whole: Any = None
    promises: Sequence[str] = ()
    named: tuple[str, str, str] = ("", "", "")
    _known: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)

    @property
    def title(self) -> str:
        """``MyPass after s_tir.ThreadSync``."""
        if self.edit is None:
            return f"pipeline {self.name}"
        place, anchor = self.edit.place, self.edit.anchor
        return f"without {anchor}" if place == "drop" else f"{self.name} {place} {anchor}"

    def __post_init__(self) -> None:
        if self.edit is not None:
            self.edit.require(list_places())

    def name_pipelines(self, base: str) -> tuple[str, str]:
        """A pipeline and the changed one, both registered with TVM: each pass that they share is a
        pass of its own in both.

        An edit at a pass of tirstep's own changes nothing in another pipeline.
        """

        def make() -> Pipeline:
            return edit_pipeline(base, self.edit.apply) if self.edit else self.whole()

        if base not in self._known:
            plain = register(lambda: edit_pipeline(base, lambda passes: passes))
            self._known[base] = plain, register(make)
        return self._known[base]


class LoweredDevice(Device):
    """Runs what a pipeline made of a module: its last state that the interpreter can run.

    For a GPU that is what `simulator` runs, or what comes behind it. A state before pass number
    `first` is not taken, for it shows nothing of what the pass does, and none behind number `last`,
    if there is one. A run takes `SECONDS` at most.
    """

    description = "what the passes make of a module, interpreted"

    def __init__(
        self, target: str, lowering: Lowering, first: int = 0, last: int | None = None
    ) -> None:
        self.name = "interpreter" if target == HOST else "simulator"
        self._lowering, self._first, self._last = lowering, first, last

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """None: what cannot be run raises when it is run."""
        return None

    def compile(self, module: tvm.IRModule) -> Program:
        """The program of the lowering."""
        lowering = self._lowering
        stages = [each for each in find_stages(lowering) if each.program is not None]
        # Behind the last pass that changes something, an earlier number is the same module.
        last = max((each.number for each in lowering.passes if each.changed), default=0)
        chosen = [each for each in stages if each.number >= min(self._first, last)]
        if self._last is not None:
            chosen = [each for each in chosen if each.number <= self._last]
        # Without the pass that puts barriers in, nothing orders threads.
        is_ordered = any(each.name == ORDERS_THREADS for each in lowering.passes)

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            """Those stages that cannot be run are taken off the list."""
            reason = NONE_BEHIND
            end = time.monotonic() + SECONDS
            while chosen:
                stage = chosen[-1]
                try:
                    in_order = stage.is_in_order and is_ordered
                    modes: Any = {"is_compact": stage.is_compact, "shapes": stage.shapes}
                    device = Interpreter(in_order=in_order, **modes)
                    device.deadline = end
                    program = device.compile(stage.program)
                    return program(arguments), find_faults(program, module)
                except DeviceError as error:
                    is_late = time.monotonic() > end
                    reason = f"it takes more than {SECONDS:g} s to run" if is_late else str(error)
                chosen.pop()
            raise DeviceError(reason)

        return Program(run)


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


@dataclass(frozen=True)
class Trial:
    """What a change of the pipeline did to a module.

    Attributes
    ----------
    status : "right", "wrong", "refused", "unchanged", "unjudged" or "left out"
    reason : why it was left out or refused, or what is wrong; may be empty
    what : the kind of wrong, see `get_kind`; ``"refused"``
    is_changed : the pass, or the pipeline up to where it was changed, made another module
    is_changed_in_the_end : what the GPU or the CPU gets is another program
    diff : what the pass changed; where there is none, what differs before code generation
    facts : by name, where they differ or where all are asked for: without and with the change
    compiled : the same for each architecture
    raised : the traceback of an error of the pass's own, after which nothing else was asked
    """

    subject: Subject
    status: str
    reason: str = ""
    what: str = ""
    is_changed: bool = False
    is_changed_in_the_end: bool = False
    diff: Diff | None = field(default=None, repr=False)
    verdicts: tuple[DeviceVerdict, ...] = ()
    facts: tuple[tuple[Fact, ...], tuple[Fact, ...]] = ((), ())
    compiled: tuple[tuple[CompiledFacts, CompiledFacts], ...] = ()
    lowered: tuple[Lowering, Lowering] | None = field(default=None, repr=False)
    raised: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether the change is wrong here."""
        return self.status in BAD


def try_change(
    experiment: Experiment,
    subject: Subject,
    *,
    devices: Sequence[str] = (),
    architectures: Sequence[str] = (),
    with_facts: bool = False,
) -> Trial:
    """Run a module without a change of the pipeline and with it.

    `devices` run it besides the simulator or the interpreter, ``"cpu"`` or ``"cuda"``, and it is
    compiled for `architectures`. A module that is not right without the change, or that TVM
    refuses, is left out. It raises nothing for what the change does: that is in the trial.
    """
    pipelines = experiment.name_pipelines(get_pipeline(subject.module))
    target, is_gpu = subject.target, subject.target != HOST
    lower = partial(lower_through_passes, subject.module, target, is_run=False)
    raised.clear()
    found = lower(pipeline=pipelines[1])
    ours = find_marked(found)
    is_more = experiment.edit is not None and experiment.edit.place in ("after", "before")
    if is_more and ours and found.failed is None and not any(each.changed for each in ours):
        return Trial(subject, UNCHANGED)
    without = lower(pipeline=pipelines[0])
    if without.failed is not None:
        return Trial(subject, LEFT_OUT, f"TVM refuses it without the change: {without.failed}")
    refusal = str(found.failed or "").replace(MARK, "")
    if raised:
        return Trial(subject, REFUSED, refusal, REFUSED, raised=raised[0])
    known = {str(variable.name_hint) for variable in get_end(found).get_global_vars()}
    names = [str(variable.name_hint) for variable in subject.module.get_global_vars()]
    if not refusal and (lost := [name for name in names if name not in known]):
        refusal = f"the module has no function '{lost[0]}' after it"
    ends = [(get_end(it), it.passes[-1].module) for it in (without, found)]  # and the host's part
    has_same_source = without.language != "cuda" or without.source == found.source
    is_other = not (found.failed is None and has_same_source and all(map(is_same, *ends)))
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
        before, note = _check(subject, LoweredDevice(target, without))
        if before == ():
            return replace(trial, status=REFUSED, reason=refusal, what=REFUSED)
        note = f"wrong without the change: {before[0].message}" if before else note
        return replace(trial, status=LEFT_OUT, reason=note)
    if not is_other:
        return trial

    # The last pass that both have and that changes something, in front of the first that one alone
    # has or that makes another module; and that one, with the change.
    given = first = 0
    for one, other in itertools.zip_longest(without.passes, found.passes):
        first = other.number if other is not None else first
        if one is None or other is None:
            break
        is_apart = one.name != other.name or one.changed != other.changed
        if is_apart or not is_same(one.module, other.module):
            break
        given = one.number if one.changed else given
    pairs: list[tuple[Device, Device]] = [
        (LoweredDevice(target, without, given), LoweredDevice(target, found, first))
    ]
    left_out = () if is_gpu else ("cuda",)
    if isinstance(subject.oracle, ModuleOracle) and is_gpu:
        left_out = ("cpu",)  # its threads are no loops
    pairs += [(get_device(name), get_device(name)) for name in devices if name not in left_out]
    verdicts: list[DeviceVerdict] = []
    for pair in pairs:
        verdicts.append(_judge(subject, pair, pipelines))
        if verdicts[-1].after or IS_LONG in verdicts[-1].note:
            break  # it may store anywhere, or never end: no device of this machine runs it
    judged = [each for each in verdicts if each.before == ()]
    if bad := next((each for each in judged if each.after), None):
        assert bad.after
        status, what = WRONG, get_kind(bad.after[0], subject.module)
        reason = f"{bad.device}: {bad.after[0].message}"
        # What TVM's passes behind the change spoil is no fault of it, as a state in front of them
        # shows that is right. ThreadSync orders no store after another thread's, FlattenBuffer
        # divides by negative numbers where an index descends, `not a < b` becomes `b <= a`, which
        # it is not where one is NaN, and StorageRewrite computes in the place of what is yet read.
        orders, flattens, rewrites = (
            [each for each in found.passes if each.name == name and each.number > first]
            for name in (ORDERS_THREADS, FLATTENING, "tirx.StorageRewrite")
        )
        are_stores = all(UNORDERED.search(each.message) for each in bad.after)
        is_drawn = isinstance(subject.oracle, ModuleOracle)  # a problem's blank outputs are NaN
        has_nan = is_drawn and any(np.any(each != each) for each in subject.oracle.arguments)
        begin, behind = min([first, *(each.number for each in ours)]), list[LoweredDevice]()
        if what == "race" and are_stores and orders:
            behind.append(LoweredDevice(target, found, first, orders[0].number - 1))
        if flattens and (
            {*find_negative_divisors(flattens[0].module)}
            - {*find_negative_divisors(flattens[0].before)}
        ):
            behind.append(LoweredDevice(target, found, begin, flattens[0].number - 1))
        if what == "numbers" and has_nan and ours:
            own = ours[-1].number  # what it runs is logged as the next one
            behind.append(LoweredDevice(target, found, own, own + 1))
        if what == "numbers" and rewrites:
            behind.append(LoweredDevice(target, found, begin, rewrites[0].number - 1))
        if any(_check(subject, device)[0] == () for device in behind):
            status, reason = UNJUDGED, f"TVM's passes after it change the result: {reason}"
    elif any(each.after == () for each in judged):
        status, reason, what = RIGHT, "", ""
    elif judged:
        status, reason, what = UNJUDGED, judged[0].note, ""
    else:
        status, reason, what = LEFT_OUT, verdicts[0].note, ""
        if wrong := verdicts[0].before:
            reason = f"wrong without the change: {wrong[0].message}"
        elif reason == NONE_BEHIND:
            status = UNJUDGED
    trial = replace(trial, verdicts=tuple(verdicts), status=status, reason=reason, what=what)
    if trial.status == LEFT_OUT or not with_facts or not is_gpu:
        return trial
    facts = [facts_of_lowering(each, problem=subject.problem) for each in (without, found)]
    compiled: tuple[Any, ...] = ()
    if architectures and all(each.refusal is None for each in facts):
        both = [compile_everywhere(each, architectures) for each in facts]
        compiled = tuple(zip(*both, strict=True))
    rows = tuple(each.rows_to_compare() if each.refusal is None else () for each in facts)
    return replace(trial, facts=(rows[0], rows[1]), compiled=compiled)


def _judge(
    subject: Subject, pair: tuple[Device, Device], pipelines: tuple[str, str]
) -> DeviceVerdict:
    """What a device says: of the module with the change where it is right without it."""
    findings: list[tuple[Finding, ...] | None] = [None, None]
    note, times = "", list[Timing]()
    for at, (device, pipeline) in enumerate(zip(pair, pipelines, strict=True)):
        with using_pipeline(pipeline):
            findings[at], note = _check(subject, device)
            if at == 0 and findings[0] and isinstance(subject.problem, ModuleProblem):
                # TVM alone may be wrong of NaN, say, which says nothing of other numbers.
                oracle: Any = subject.oracle
                subject = replace(subject, oracle=replace(oracle, is_short=True))
                findings[0], note = _check(subject, device)
            if findings[at] != ():
                break
            if device.has_clock:
                with contextlib.suppress(DeviceError):
                    times.append(device.time(subject.module, subject.oracle.arguments))
    timed = (times[0], times[1]) if len(times) == 2 else None
    return DeviceVerdict(pair[0].name, findings[0], findings[1], note, timed)


def _check(subject: Subject, device: Device) -> tuple[tuple[Finding, ...] | None, str]:
    """The findings, or None and the reason."""
    if (obstacle := device.find_obstacle(subject.module)) is not None:
        return None, obstacle
    try:
        program = device.compile(subject.module)
        return tuple(subject.oracle.check(program, device.name, subject.label)), ""
    except (DeviceError, CheckError, UnjudgedError) as error:
        return None, str(error)


def find_marked(lowering: Lowering) -> list[Pass]:
    """The user's pass, each time that it ran, with all that passes within it change."""
    return [
        replace(it, before=it.given, changed=not tvm_ffi.structural_equal(it.given, it.module))
        for it in lowering.passes
        if it.name.startswith(MARK)
    ]


def get_end(lowering: Lowering) -> tvm.IRModule:
    """The module behind the passes that all targets have, before host and device part."""
    split = [each for each in lowering.passes if each.name == SPLIT_PASS]
    return split[-1].module if split else lowering.passes[-1].module


def is_same(module: tvm.IRModule, other: tvm.IRModule) -> bool:
    """Whether two modules differ in names alone."""
    return bool(tvm_ffi.structural_equal(module, other, map_free_vars=True))


def get_kind(finding: Finding, module: tvm.IRModule) -> str:
    """``"numbers"``, or what the simulator calls it: ``"race"``, ``"out of bounds"``.

    A race for an argument is another kind than one for a kernel's own memory, which TVM has to
    order: a smaller program must show the same.
    """
    if finding.check == "numbers":
        return finding.check
    kind, _, rest = finding.message.partition(":")
    names = name_arguments(module)
    named = re.search(r"(?:load of|store to) (\w+)\[", rest)
    is_of_argument = kind == "race" and named is not None and named[1] in names
    return f"{kind} for an argument" if is_of_argument else kind


def have_same_bits(trial: Trial) -> bool | None:
    """Whether the outputs are the same to the bit, of NaN whatever it has; None where that cannot
    be run.
    """
    if trial.lowered is None:
        return None
    subject = trial.subject
    try:
        one, other = (
            LoweredDevice(subject.target, it).compile(subject.module)(subject.oracle.arguments)
            for it in trial.lowered
        )
    except (DeviceError, CheckError):
        return None
    return all(
        bool(np.all((bits == others) | (left != left) & (right != right)))
        for bits, others, left, right in zip(as_bits(one), as_bits(other), one, other, strict=True)
    )
