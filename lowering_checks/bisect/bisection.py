"""Whether a module is wrong as it stands, or after which of TVM's passes it is, by bisection over
the module behind each pass that changed it, and what can be run of it.
"""

from __future__ import annotations

import functools
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm.tirx import AllocBuffer, AttrStmt, Evaluate, Let, Select, Var
from tvm_ffi import structural_equal, structural_map

from tirstep.transforms.pass_options import is_tirx
from tirstep.transforms.passes.barriers import is_barrier
from tirstep.transforms.tir import THREAD_EXTENT, find_all

from ..compile.advice import add_advice
from ..compile.compiling import MAIN
from ..compile.passes import (
    Failure,
    Lowering,
    find_host,
    find_kernels,
    lower_through_passes,
    read_launch,
)
from ..device import Device, DeviceError, Program
from ..devices.cpu import CpuDevice, load_program
from ..devices.simulator import END_OF_SHAPES
from ..devices.simulator.interpreter import Interpreter
from ..devices.simulator.merged_memory import find_shapes
from ..devices.simulator.run_state import Shapes
from ..facts.compiled import find_source_error
from ..facts.cuda_compilers import CompilerMissing, get_compiler
from ..steps import Finding

Check = Callable[[tvm.IRModule, Device], list[Finding]]
TIMEOUT = 120.0
"""Seconds that a search may take, by default, before it interprets no further state."""
SHARE = 0.5
"""Share of the remaining time that one state may take."""
CODE_GENERATION = "code generation"
HOST = "llvm"
AS_SCHEDULED = "as scheduled"
AS_LOWERED = "as TVM lowers it"
GIVEN_WRONG = "it was given what is wrong"
AS_PROGRAM = "as a program of the CPU"
AS_SOURCE = "as generated CUDA source"
ORDERS_THREADS = "s_tir.ThreadSync"
COMPACTS = "s_tir.CompactBufferAllocation"
REWRITES_SELECTS = "s_tir.RewriteUnsafeSelect"
HOST_ALONE = "its function takes packed arguments, which the interpreter does not know"
HALF_ORDERED = "threads are ordered in static shared memory and not in dynamic shared memory yet"
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
class Stage:
    """The module after one pass that changed it, or that changes what the module means.

    Attributes
    ----------
    number : the pass's place among all passes of the compilation, from 1
    is_in_order : TVM has not inserted barriers yet
    program : what can be run of `module`, with a function ``main``: once TVM has split it, the
        kernels as they stand, launched by the host's part as it was at the split; otherwise None
    given : the same of what the pass was given, for one that another one runs, or that was given
        something else than the pass before it made; None for all others
    is_compact : buffers are as small as they will be
    obstacle : why there is no program
    is_inner : another pass runs it
    shapes : those that buffers had before TVM flattened them
    """

    number: int
    name: str
    module: tvm.IRModule
    is_in_order: bool
    program: tvm.IRModule | None
    given: tvm.IRModule | None = None
    is_compact: bool = True
    obstacle: str = ""
    is_inner: bool = False
    shapes: Shapes = field(default_factory=dict)

    @property
    def label(self) -> str:
        """``pass 42 s_tir.ThreadSync``."""
        return f"pass {self.number} {self.name}"


def find_stages(lowering: Lowering) -> tuple[Stage, ...]:
    """The stages of a module that was lowered."""
    passes, found, host = lowering.passes, list[Stage](), None
    # The numbers of the passes behind which barriers order some threads, and all threads: TVM
    # inserts them for static shared memory first, then for the dynamic one. In a module that has
    # one kind only, or none, the two are the same.
    # A TIRx kernel orders its threads itself.
    half = ordered = 0 if is_tirx(lowering.module) else len(passes) + 1
    if ordering := [each for each in passes if each.name == ORDERS_THREADS]:
        scopes = {
            str(node.buffer.scope())
            for function in ordering[0].before.functions.values()
            for node in find_all(function.body, AllocBuffer)
        }
        static, dynamic = ordering[0].number, ordering[min(1, len(ordering) - 1)].number
        ordered = dynamic if "shared.dyn" in scopes else static
        half = static if "shared" in scopes else ordered
    compacted = next((each.number for each in passes if each.name == COMPACTS), 0)

    def is_host_alone(module: tvm.IRModule, host: Any) -> bool:
        return (host is None or not find_kernels(module)) and find_host(module) is None

    is_cpu = lowering.language in ("llvm", "c")
    safe = next((each.number for each in passes if each.name == REWRITES_SELECTS), math.inf)

    def find_program(module: tvm.IRModule, host: Any, number: int) -> tvm.IRModule | None:
        if is_host_alone(module, host):
            return None
        if is_cpu and number >= safe:  # nothing makes choices safe any more
            return compute_both_arms(module)
        return join(host, kernels) if (kernels := find_kernels(module)) else module

    # The latest that is judged: TVM alternates between the host's part and the kernels.
    latest, shapes = lowering.module, Shapes()
    for each in passes:
        if each.name in END_OF_SHAPES:
            shapes.update(find_shapes(each.before))
    for place, each in enumerate(passes):
        before = latest
        if not is_host_alone(each.module, host):
            latest = each.module
        # A pass that another one runs ends before it, and began after it.
        is_inner = any(later.number < each.number for later in passes[place + 1 :])
        is_same = is_host_alone(each.before, host) or structural_equal(each.before, before)
        # Behind these a module means something else, be it the same: barriers that are missing
        # are missing from here on.
        changes_meaning = each.number in (half, ordered, compacted) or not (is_same or is_inner)
        if not (each.changed or changes_meaning):
            continue
        host = find_host(each.module) or host
        given = None
        if is_inner or not is_same:
            given = find_program(each.before, find_host(each.before) or host, each.number - 1)
        program = find_program(each.module, host, each.number)
        obstacle = HOST_ALONE if program is None else ""
        if half <= each.number < ordered:
            program, obstacle = None, HALF_ORDERED
        is_in_order, is_compact = each.number < ordered, each.number >= compacted
        stage = (each.number, each.name, each.module, is_in_order, program, given, is_compact)
        found.append(Stage(*stage, obstacle, is_inner, shapes))
    return tuple(found)


def compute_both_arms(module: tvm.IRModule) -> tvm.IRModule:
    """The module whose choices compute both values, as LLVM's ``select`` does."""

    def compute(choice: Any) -> Any:
        one, other = (Var(name, choice.ty) for name in ("one", "other"))
        chosen = Let(other, choice.false_value, Select(choice.condition, one, other))
        return Let(one, choice.true_value, chosen)

    functions = {
        name: structural_map(function, (Select, compute))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def join(host: Any, kernels: Mapping[str, Any]) -> tvm.IRModule:
    """One function ``main``, in which each launch is the kernel's body with its arguments.

    The extents of the threads are those that the host launches with.
    """

    def inline(statement: Any) -> Any:
        launch = read_launch(statement.value, kernels)
        if launch is None:
            return statement
        name, arguments, extents = launch
        kernel = kernels[name]
        known = dict(zip(kernel.params, arguments, strict=True))

        def extend(node: Any) -> Any:
            tag = str(node.node.thread_tag) if node.attr_key == THREAD_EXTENT else ""
            if tag not in extents:
                return node
            return AttrStmt(node.node, node.attr_key, extents[tag], node.body)

        body = structural_map(kernel.body, (AttrStmt, extend))
        return structural_map(body, (Var, lambda variable: known.get(variable, variable)))

    return tvm.IRModule({MAIN: structural_map(host, (Evaluate, inline))})


@dataclass(frozen=True)
class JudgedState:
    """A state of the module, such as ``"as scheduled"``, and the name of the device that ran it."""

    state: str
    device: str


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
    last_deadline : the same once something is known to be wrong, and is looked for
    judged : what was run
    not_run : what could not be run, each with the reason
    scheduled : the module as it stands, if it was found right
    lowered : the last state that was found right; None where that is the module as it stands
    """

    check: Check
    module: tvm.IRModule
    threaded: tvm.IRModule | None
    deadline: float = math.inf
    last_deadline: float = math.inf
    judged: list[JudgedState] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    scheduled: JudgedState | None = None
    lowered: JudgedState | None = None
    _wrong_on_cpu: Finding | None = None
    _verdicts: dict[int, list[Finding] | str] = field(default_factory=dict)

    def find_first_bad(self, target: str) -> FirstBadState | None:
        """The first bad state, None where nothing is wrong; what is seen is in the attributes.

        A module that TVM refuses is not wrong in any state: it is `FirstBadState.failed`.
        """
        found = self._judge_scheduled() or []
        if found:
            return _bad_schedule(found[0], Interpreter.name)
        lowering = lower_through_passes(self.module, target)
        stages, failed, is_cpu = find_stages(lowering), lowering.failed, target.startswith(HOST)
        if failed is not None and failed.is_limit:  # a limit of our own decides nothing
            self.not_run.append(f"{AS_LOWERED}: {failed.reason}")
            return None
        if failed is None and is_cpu:
            program = _Executable(load_program(lowering.executable, self.module[MAIN].params))
            wrong = JudgedState(AS_PROGRAM, program.name)
            came_out = self._judge(wrong, lambda: self._run(self.module, program))
            if not came_out:
                self.lowered = None if came_out is None else wrong
                return None
            found = came_out
            with suppress(DeviceError):
                if not self._run(self.module, program):
                    found = [replace(found[0], message=f"{found[0].message} (in one of two runs)")]
            if self.threaded is not None:
                # Serial threads may mean something else, which no pass has caused.
                state = f"{AS_SCHEDULED}, with threads one after the other"
                serial = self._judge(
                    JudgedState(state, Interpreter.name), lambda: self._interpret(self.module)
                )
                if serial:
                    return _bad_schedule(serial[0], Interpreter.name)

        # The stages up to the last one that can be judged. What is refused may be wrong already.
        # For a GPU, what the host's part becomes is no part of the program that is judged.
        is_gpu = failed is None and not is_cpu
        asked = [each for each in stages if not (is_gpu and each.obstacle == HOST_ALONE)]
        count = len(asked)
        while count and isinstance(self._judge_stage(asked[count - 1]), str):
            count -= 1
        right, behind = self.scheduled, asked[count:]
        if count:
            last = asked[count - 1]
            right = JudgedState(f"after {last.label}", Interpreter.name)
            end = JudgedState(f"after {last.name}", Interpreter.name)
            self.judged += [end] if is_gpu else []
            if self._judge_stage(last):
                return self._bisect_stages(asked[:count])
            self.lowered = end if is_gpu else None
        unjudged = tuple(self._say_unjudged(each) for each in behind)
        if failed is not None:
            finding = Finding("lowering", "", add_advice(failed.reason, self.module, str(failed)))
            wrong = JudgedState(AS_LOWERED, "")
            return FirstBadState(None, finding, right, wrong, False, unjudged, failed=failed)
        if is_gpu:
            for each in behind[:1]:
                self.not_run.append(f"all from {each.label[5:]}: {self._verdicts[each.number]}")
            if lowering.language != "cuda" or lowering.executable is None:
                return None
            architecture = str(tvm.target.Target(target).attrs["arch"])
            try:
                error = find_source_error(lowering.source, architecture)
            except CompilerMissing as missing:
                self.not_run.append(f"{AS_SOURCE}: {missing}")
                return None
            wrong = JudgedState(AS_SOURCE, get_compiler().name)
            if error is None:
                self.judged.append(wrong)
                return None
            message = f"{wrong.device} does not compile it for {architecture}: {error}"
            found = [Finding("lowering", "", message)]

        # Wrong is what comes out, on another device than the one that finds all stages right.
        if self._wrong_on_cpu is not None and not count:
            return _bad_schedule(self._wrong_on_cpu, CpuDevice.name)
        module = stages[-1].module if stages else self.module
        stage = Stage(len(lowering.passes) + 1, CODE_GENERATION, module, False, None)
        source = lowering.source if lowering.language == "cuda" else ""
        return FirstBadState(stage, found[0], right, wrong, False, unjudged, source, module)

    def _judge_scheduled(self) -> list[Finding] | None:
        """The findings of the module as it stands; None where it cannot be interpreted.

        Threads that run at once take seconds where one after the other takes minutes. So these are
        run first, and what they do wrong, or cannot do, must show one after the other, too: a step
        in the middle may have memory of a GPU's block outside of any block.
        """
        state = JudgedState(AS_SCHEDULED, Interpreter.name)
        if self.threaded is not None:
            with suppress(DeviceError):
                if not self._interpret(self.threaded):
                    self.judged.append(state)
                    self.scheduled = state
                    return []
        found = wrong = self._judge(state, lambda: self._interpret(self.module))
        if found is None:
            state = JudgedState(AS_SCHEDULED, CpuDevice.name)  # of what LLVM makes of it
            wrong = self._judge(state, lambda: self._run(self.module, CpuDevice()))
            self._wrong_on_cpu = wrong[0] if wrong else None
        self.scheduled = state if wrong == [] else None
        return found

    def _interpret(self, module: tvm.IRModule, **modes: Any) -> list[Finding]:
        """The findings; raises `DeviceError` where the module cannot be run.

        Iterations that ran at once and are found wrong run one after the other, too: whether they
        may run at once is what the module declares, which may be wrong.
        """
        device = Interpreter(**modes)
        found = self._run(module, device)
        if not (found and device.has_spread):
            return found
        try:
            return self._run(module, Interpreter(**modes, at_once=False))
        except DeviceError:
            if all(finding.message.startswith("race") for finding in found):
                raise
            return found

    def _run(self, module: tvm.IRModule, device: Device) -> list[Finding]:
        """The findings; the interpreter has its share of the time that is left."""
        if isinstance(device, Interpreter):
            now = time.monotonic()
            device.deadline = now + max(self.deadline - now, 0.0) * SHARE
        return self.check(module, device)

    def _judge(self, state: JudgedState, run: Callable[[], list[Finding]]) -> list[Finding] | None:
        """The findings; None where the module cannot be run, which is noted."""
        try:
            found = run()
        except DeviceError as error:
            self.not_run.append(f"{state.state}: {error}")
            return None
        self.judged.append(state)
        return found

    def _judge_stage(self, stage: Stage) -> list[Finding] | str:
        """The findings, or the reason why the stage cannot be judged."""
        if stage.number not in self._verdicts:
            verdict: list[Finding] | str = stage.obstacle
            if stage.program is not None:
                modes: Any = {"in_order": stage.is_in_order, "is_compact": stage.is_compact}
                modes["shapes"] = stage.shapes
                try:
                    verdict = self._interpret(stage.program, **modes)
                    given = stage.given if verdict and stage.is_inner else None
                    if given is not None and self._interpret(given, **modes):
                        verdict = GIVEN_WRONG
                except DeviceError as error:
                    verdict = str(error)
            self._verdicts[stage.number] = verdict
        return self._verdicts[stage.number]

    def _say_unjudged(self, stage: Stage) -> str:
        return f"after {stage.number} {stage.name}: {self._verdicts[stage.number]}"

    def _bisect_stages(self, stages: Sequence[Stage]) -> FirstBadState:
        """The first wrong stage, where the last one is wrong."""
        if self._wrong_on_cpu is not None:
            return _bad_schedule(self._wrong_on_cpu, CpuDevice.name)
        self.deadline = self.last_deadline

        def is_right(place: int) -> bool | None:
            found = self._judge_stage(stages[place])
            return None if isinstance(found, str) else not found

        low, high = bisect(len(stages), is_right)
        stage, found = stages[high], self._judge_stage(stages[high])
        assert not isinstance(found, str)  # a place that is found wrong was judged
        if _is_asked_for(self.module, stage, found):
            wrong = JudgedState(AS_LOWERED, Interpreter.name)
            return FirstBadState(None, found[0], None, wrong, True)
        # What a pass runs itself, after it has spoiled the module, is no gap in front of it.
        between = [
            self._say_unjudged(each)
            for each in stages[low + 1 : high]
            if self._verdicts[each.number] != GIVEN_WRONG or each.number < stage.number
        ]
        wrong = JudgedState(f"after {stage.label}", Interpreter.name)
        if stage.given is not None:
            in_order = stage.is_in_order or stage.name == ORDERS_THREADS
            is_given_right = False
            with suppress(DeviceError):
                is_given_right = not self._interpret(
                    stage.given, in_order=in_order, is_compact=stage.is_compact
                )
            if not is_given_right:
                wrong = JudgedState(f"before {stage.label}", Interpreter.name)
                between.append(f"{wrong.state}: its input differs from the previous pass's output")
        right, before = self.scheduled, self.module
        if low >= 0:
            right = JudgedState(f"after {stages[low].label}", Interpreter.name)
            before = stages[low].module
        is_exact = not between and right is not None and right.device == Interpreter.name
        return FirstBadState(stage, found[0], right, wrong, is_exact, tuple(between), "", before)


def _bad_schedule(finding: Finding, device: str) -> FirstBadState:
    return FirstBadState(None, finding, None, JudgedState(AS_SCHEDULED, device), True)


def _is_asked_for(module: tvm.IRModule, stage: Stage, found: Sequence[Finding]) -> bool:
    """Whether the module itself requests what is wrong, and the pass only carries it out."""
    kinds = {finding.message.partition(":")[0] for finding in found}
    if not kinds or stage.name != ORDERS_THREADS or kinds - {"race", "divergent barrier"}:
        return bool(kinds) and all(stage.name in CARRIES_OUT.get(kind, ()) for kind in kinds)
    bodies = [function.body for function in module.functions.values()]
    if any(is_barrier(it) for body in bodies for it in find_all(body, Evaluate)):
        return True  # whoever writes barriers says where there are some
    if kinds != {"race"}:
        return False
    # TVM inserts no barriers for global memory.
    named = [re.search(r"(?:load of|store to) (\w+)\[", finding.message) for finding in found]
    declared = {
        str(node.buffer.name): str(node.buffer.scope())
        for function in stage.module.functions.values()
        for node in find_all(function.body, AllocBuffer)
    }
    return all(it is not None and declared.get(it[1], "global") == "global" for it in named)


class _Executable(CpuDevice):
    """A program that is compiled already, whatever the module."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def compile(self, module: tvm.IRModule) -> Program:
        return self._program


SECONDS = 3.0
"""How long the states behind a transition are confirmed to be wrong, too."""


def bisect(
    count: int, is_right: Callable[[int], bool | None], *, seconds: float = SECONDS
) -> tuple[int, int]:
    """Two places with a right state, a wrong one, and none between that can be judged.

    The places are 0 to ``count - 1``, and the last of them is wrong. `is_right` is None for a state
    that cannot be judged, and is called once for each place. The first of the two returned is -1
    where no right state was found.

    A wrong state that a right one follows is not what made the last one wrong: the judging device
    may as well have erred. So the states behind the transition are judged, too, and bisected again
    behind the last right one. All of them, unless that takes too long.
    """
    judge, low = functools.cache(is_right), -1
    while True:
        high, unknown = count - 1, set[int]()
        while places := [place for place in range(low + 1, high) if place not in unknown]:
            middle = places[len(places) // 2]
            verdict = judge(middle)
            if verdict is None:
                unknown.add(middle)
            elif verdict:
                low = middle
            else:
                high = middle
        deadline = time.monotonic() + seconds
        later = None
        for place in range(high + 1, count - 1):
            if time.monotonic() > deadline:
                break
            if judge(place):
                later = place
        if later is None:
            return low, high
        low = later
