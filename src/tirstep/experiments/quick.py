"""The passes alone, without code generation: ten times as fast as a compilation.

It runs a pipeline's list up to where TVM merges dynamic shared memory, which the simulator does
itself, and takes host and device apart. Behind that come passes that write calls in another way; a
change of these is tried by `trying.try_change` alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from tirstep.lowering_checks import Finding
from tirstep.lowering_checks.compile.compiling import (
    MAIN,
    get_target,
    pass_context,
    require_compilable,
)
from tirstep.lowering_checks.devices.device import (
    Arrays,
    DeviceError,
    DeviceFinding,
    Program,
    get_reason,
    is_tvm_error,
)
from tirstep.lowering_checks.devices.simulator import NEXT_PASS, simulate_lowered
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.transforms import get_pipeline

from .editing import Edit, cut_passes
from .subject import HOST, Subject, explain_failure

LEFT_OUT, UNCHANGED, RIGHT, WRONG, REFUSED, UNJUDGED, CRASHED = STATUSES = (
    "left out",
    "unchanged",
    "right",
    "wrong",
    "refused",
    "unjudged",
    "crashed",
)


SECONDS = 60.0
"""What it may take to run a module, once without a change or with it: else it is not judged."""


class TimeLimit:
    """`SECONDS` from now on; `end` is when they are over, by `time.monotonic`."""

    def __init__(self) -> None:
        self.end = time.monotonic() + SECONDS

    def explain(self, error: Exception) -> str:
        """Why nothing came of a run: that the time was over, or what it raised."""
        if time.monotonic() > self.end:
            return f"it takes more than {SECONDS:g} s to run"
        return explain_failure(error)


@dataclass(frozen=True)
class QuickVerdict:
    """What the passes say of a subject; `kind` is the first word of what is wrong."""

    status: str
    reason: str = ""
    kind: str = ""


def is_quick(edits: Sequence[Edit], base: str) -> bool:
    """Whether all edits are of passes before `NEXT_PASS`."""
    return cut_passes(edits, NEXT_PASS, base)[1] is not None


def lower_quickly(module: tvm.IRModule, target: str, edits: Sequence[Edit] = ()) -> tvm.IRModule:
    """The module before host and device are taken apart; raises what TVM raises where it refuses,
    and `DeviceError` for one that would be copied too often.
    """
    require_compilable(module)
    bound = get_target(target)
    bound = bound if target.startswith(HOST) else bound.with_host(HOST)
    with pass_context(module):
        _, edited = cut_passes(edits, NEXT_PASS, get_pipeline(module))
        assert edited is not None, "is_quick was not asked"
        begun = tvm.tirx.transform.BindTarget(tvm.target.Target(bound))(module)
        return tvm.transform.Sequential(edited)(begun)


def try_quickly(edits: Sequence[Edit], subject: Subject) -> QuickVerdict:
    """A subject without a change of the pipeline and with it, judged by the interpreter alone."""
    try:
        without = lower_quickly(subject.module, subject.target)
    except Exception as error:
        return QuickVerdict(LEFT_OUT, f"TVM refuses it without the change: {_explain(error)}")
    try:
        found: Any = lower_quickly(subject.module, subject.target, edits)
    except Exception as error:
        found = _explain(error)
    if isinstance(found, tvm.IRModule) and tvm_ffi.structural_equal(without, found):
        return QuickVerdict(UNCHANGED)
    before, note = judge_lowered(subject, without)
    if before:
        return QuickVerdict(LEFT_OUT, f"wrong without the change: {before[0].message}")
    if before is None:
        return QuickVerdict(LEFT_OUT, note)
    if not isinstance(found, str):
        found = explain_lost(subject.module, found) or found
    if isinstance(found, str):
        return QuickVerdict(REFUSED, found, REFUSED)
    after, note = judge_lowered(subject, found)
    if after is None:
        return QuickVerdict(UNJUDGED, note)
    if not after:
        return QuickVerdict(RIGHT)
    return QuickVerdict(WRONG, str(after[0].message), get_kind(after[0], subject.module))


def explain_lost(module: tvm.IRModule, lowered: tvm.IRModule) -> str:
    """A sentence where the passes left a function out; "" where all are there."""
    names = {str(variable.name_hint) for variable in lowered.get_global_vars()}
    lost = [it for it in (str(v.name_hint) for v in module.get_global_vars()) if it not in names]
    return f"the module has no function '{lost[0]}' behind it" if lost else ""


def get_kind(finding: Finding, module: tvm.IRModule) -> str:
    """``"numbers"``, or what the simulator calls it: ``"race"``, ``"out of bounds"``.

    A race for an argument is another kind than one for a kernel's own memory, which TVM has to
    order: a smaller program must show the same.
    """
    if finding.check == "numbers":
        return finding.check
    kind, _, rest = finding.message.partition(":")
    names = [str(parameter.name) for parameter in module[MAIN].params]
    named = re.search(r"(?:load of|store to) (\w+)\[", rest)
    is_of_argument = kind == "race" and named is not None and named[1] in names
    return f"{kind} for an argument" if is_of_argument else kind


def judge_lowered(
    subject: Subject, lowered: tvm.IRModule, *, merges: bool = True
) -> tuple[tuple[Finding, ...] | None, str]:
    """The findings of what the passes made; None, and the reason, where it cannot be run.

    Without `merges`, buffers of dynamic shared memory stay apart (`simulate_lowered`). All runs
    together take `SECONDS` at most.
    """
    limit = TimeLimit()

    def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
        simulation = simulate_lowered(lowered, arguments, merges=merges, deadline=limit.end)
        return simulation.arguments, simulation.findings

    try:
        program = Program(run)
        if subject.target.startswith(HOST):
            interpreter = Interpreter(in_order=False)
            interpreter.deadline = limit.end
            program = interpreter.compile(lowered)
        return tuple(subject.oracle.check(program, "simulator", subject.label)), ""
    except Exception as error:  # a module that a pass has spoiled may be anything
        return None, limit.explain(error)


def _explain(error: Exception) -> str:
    if isinstance(error, DeviceError) or not is_tvm_error(error):
        return f"{type(error).__name__}: {error}"
    return get_reason(error)
