"""The audit of TVM's own passes: each against the interpreter, over the corpus.

A program is right as it stands, by the interpreter, or it is left out. Then TVM's passes run, one
after the other, and what comes out in the end is run, for a CPU LLVM's code, too. Where that is
wrong, the first pass is found after which it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir import SBlock

from tirstep.lowering_checks import Finding
from tirstep.lowering_checks.bisect.bisection import CODE_GENERATION as UNKNOWN_PASS
from tirstep.lowering_checks.bisect.bisection import Check, FirstBadState, ModuleBisection
from tirstep.lowering_checks.compile.compiling import get_target, pass_context, require_compilable
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.lowering_checks.devices import CpuDevice, Device
from tirstep.lowering_checks.devices.device import DeviceError, get_reason, is_tvm_error
from tirstep.lowering_checks.devices.simulator import NEXT_PASS
from tirstep.transforms import get_pipeline
from tirstep.transforms.tir import find_all

from .corpus import Corpus, UndrawnError
from .editing import Edit, register_edited, take_passes
from .quick import (
    CRASHED,
    LEFT_OUT,
    REFUSED,
    RIGHT,
    UNJUDGED,
    WRONG,
    get_kind,
    judge_lowered,
    lower_quickly,
)
from .subject import HOST, ProblemOracle, Subject

UNDRAWN = "undrawn"

CODE_GENERATION = "LLVM"
SHARES_PLACES = "tirx.StorageRewrite"
OURS = "tirstep."
"""What the names of this package's passes begin with, which some schedules bring along."""


@dataclass(frozen=True)
class AuditedTrial:
    """What the audit says of one module.

    Attributes
    ----------
    status : one of `quick.STATUSES`, ``"undrawn"`` or ``"crashed"``
    at : the first pass after which it is wrong, or, where what it makes cannot be interpreted, the
        one without which it is right; or the one that refuses it
    what : the first word of what is wrong: ``"numbers"``, ``"race"``
    reason : a sentence
    changed : the passes that changed the module
    """

    trial: int
    kind: str
    label: str
    target: str
    status: str
    at: str = ""
    what: str = ""
    reason: str = ""
    changed: tuple[str, ...] = ()


Tell = Callable[..., None]
"""Takes what is being done: a module's label, its target, and the name of a pass."""


def be_silent(*_words: str) -> None:
    """Tell nobody."""


def audit_trial(corpus: Corpus, trial: int, tell: Tell = be_silent) -> AuditedTrial:
    """Draw a module, lower it, and name the first pass that is wrong."""
    kind = corpus.get_kind(trial)
    try:
        subject = corpus.draw(trial)
    except UndrawnError as error:
        return AuditedTrial(trial, kind, "", "", UNDRAWN, reason=str(error))
    return audit_subject(subject, trial, kind, tell)


def audit_subject(
    subject: Subject, trial: int = 0, kind: str = "", tell: Tell = be_silent
) -> AuditedTrial:
    """The same for a module that is there already."""
    run = _run_passes(subject, tell)
    found: dict[str, Any] = {"changed": tuple(run.changed)}
    if isinstance(subject.oracle, ProblemOracle):
        pass  # NumPy knows the answer; a wrong schedule is found by the bisection
    else:
        try:
            _ = subject.oracle.arguments, subject.oracle.expected  # type: ignore[attr-defined]
        except DeviceError as error:
            found |= {"status": LEFT_OUT, "reason": str(error)}
    if "status" not in found and run.refused.startswith(OURS):
        found |= {"status": LEFT_OUT, "reason": f"{run.refused} refuses it: {run.reason}"}
    if "status" not in found and run.refused:
        found |= {"status": REFUSED, "at": run.refused, "reason": run.reason}
    if "status" not in found:
        tell(subject.label, subject.target, CODE_GENERATION)
        found |= _judge(subject, run)
    return AuditedTrial(trial, kind, subject.label, subject.target, **found)


@dataclass
class _PassRun:
    """The passes of a module, one by one.

    Attributes
    ----------
    module : behind the last one
    refused : the name of the pass that refused it; empty where none did
    """

    module: tvm.IRModule
    changed: list[str] = field(default_factory=list)
    refused: str = ""
    reason: str = ""


def _run_passes(subject: Subject, tell: Tell) -> _PassRun:
    bound = get_target(subject.target)
    bound = bound if subject.target.startswith(HOST) else bound.with_host(HOST)
    run = _PassRun(tvm.tirx.transform.BindTarget(tvm.target.Target(bound))(subject.module))
    with pass_context(subject.module):
        passes = take_passes(get_pipeline(subject.module))
        names = [str(each.info.name) for each in passes]
        for name, each in zip(names[: names.index(NEXT_PASS)], passes, strict=False):
            before = run.module.clone()
            tell(subject.label, subject.target, name)
            try:
                require_compilable(subject.module)
                run.module = each(run.module)
            except Exception as error:
                if not (is_tvm_error(error) or isinstance(error, DeviceError)):
                    raise
                run.refused, run.reason = name, get_reason(error)
                return run
            if not tvm_ffi.structural_equal(before, run.module):
                run.changed.append(name)
    return run


def _judge(subject: Subject, run: _PassRun) -> dict[str, Any]:
    findings, note = judge_lowered(subject, run.module)
    if findings is None:
        return _find_refusal(subject) or {"status": UNJUDGED, "reason": note}
    if findings:
        return _find_first(subject, findings[0])
    if not subject.target.startswith(HOST):
        return {"status": RIGHT}
    if (obstacle := CpuDevice().find_obstacle(subject.module)) is not None:
        return {"status": UNJUDGED, "reason": obstacle}
    try:
        program = CpuDevice().compile(subject.module)
        wrong = subject.oracle.check(program, CpuDevice.name, subject.label)
    except DeviceError as error:
        return {"status": REFUSED, "at": CODE_GENERATION, "reason": str(error)}
    if not wrong:
        return {"status": RIGHT}
    return {
        "status": WRONG,
        "at": CODE_GENERATION,
        "what": get_kind(wrong[0], subject.module),
        "reason": wrong[0].message,
    }


def _find_refusal(subject: Subject) -> dict[str, Any]:
    """The later pass that refuses what could not be run; nothing where none does."""
    if subject.target.startswith(HOST) and CpuDevice().find_obstacle(subject.module) is not None:
        return {}
    failed = lower_through_passes(subject.module, subject.target).failed
    if failed is None or failed.is_limit or failed.name.startswith(OURS):
        return {}
    return {"status": REFUSED, "at": failed.name, "reason": failed.reason}


def _find_first(subject: Subject, finding: Finding) -> dict[str, Any]:
    """The first pass after which a module is wrong; none where its schedule already is."""

    def check(module: tvm.IRModule, device: Device) -> list[Finding]:
        return subject.oracle.check(device.compile(module), device.name, subject.label)

    bad = ModuleBisection(check, subject.module, None).find_first_bad(subject.target, None)
    if bad is not None and (bad.stage is None or _is_in_global_memory(bad.finding, subject.module)):
        return {"status": LEFT_OUT, "reason": f"the schedule itself: {bad.finding.message}"}
    at = UNKNOWN_PASS if bad is None or bad.stage is None else bad.stage.name
    if bad is None or at == UNKNOWN_PASS or not bad.is_exact:
        at = _find_sharing_pass(subject) or at
    if at == UNKNOWN_PASS and (found := _look_without_sharing(subject, check)) is not None:
        bad, at = found
    wrong = finding if bad is None else bad.finding
    known = {"what": get_kind(wrong, subject.module), "reason": wrong.message}
    if bad is None and at == UNKNOWN_PASS:
        return {"status": UNJUDGED, **known}
    return {"status": WRONG, "at": at, **known}


def _is_in_global_memory(finding: Finding, module: tvm.IRModule) -> bool:
    """Whether threads race for a buffer of global memory that is no argument: no pass of TVM puts
    barriers there, so that whoever made the program has to order it.
    """
    named = re.match(r"race: (?:load of|store to) (\w+)\[", finding.message)
    return named is not None and any(
        str(buffer.name) == named[1] and buffer.scope() == "global"
        for function in module.functions.values()
        for block in find_all(function.body, SBlock)
        for buffer in block.alloc_buffers
    )


def _look_without_sharing(subject: Subject, check: Check) -> tuple[FirstBadState, str] | None:
    """The first wrong pass of a pipeline without `SHARES_PLACES`, where what stands before the end
    cannot be interpreted: with buffers of several types in one place, which is that pass's doing.
    """
    with register_edited([Edit("drop", SHARES_PLACES)]) as name:
        bad = ModuleBisection(check, subject.module, None).find_first_bad(subject.target, name)
    if bad is None or bad.stage is None or bad.stage.name == UNKNOWN_PASS:
        return None
    return bad, bad.stage.name


def _find_sharing_pass(subject: Subject) -> str:
    """The pass that gives two buffers of shared memory one place, where that is what is wrong.

    The module is right where each buffer has a place of its own: without `SHARES_PLACES`, and with
    dynamic shared memory as it is before TVM merges it. Then the pass is the first of the two that
    makes it wrong. "" where it is another thing.
    """
    try:
        apart = lower_quickly(subject.module, subject.target, [Edit("drop", SHARES_PLACES)])
        shared = lower_quickly(subject.module, subject.target)
    except Exception as error:  # a pass behind it may not do without it
        if not (is_tvm_error(error) or isinstance(error, DeviceError)):
            raise
        return ""
    if judge_lowered(subject, apart, merges=False)[0] != ():
        return ""
    if judge_lowered(subject, shared, merges=False)[0]:
        return SHARES_PLACES
    return NEXT_PASS if judge_lowered(subject, shared)[0] else ""


@dataclass(frozen=True)
class AuditRow:
    """One pass of the table: how many modules it changed, and what it did to them.

    Attributes
    ----------
    wrong : of how many it is the first behind which they are wrong, by what is wrong
    refused : how many it refused
    """

    name: str
    changed: int
    wrong: Mapping[str, int]
    refused: int


def tabulate(trials: Iterable[AuditedTrial], order: Sequence[str]) -> list[AuditRow]:
    """The rows of all passes, in the pipeline's order, then of what is no pass of it."""
    changed: Counter[str] = Counter()
    wrong: dict[str, Counter[str]] = {}
    refused: Counter[str] = Counter()
    for each in trials:
        changed.update(set(each.changed))
        if each.status in (WRONG, CRASHED):
            wrong.setdefault(each.at, Counter())[each.what] += 1
        elif each.status == REFUSED:
            refused[each.at] += 1
    names = dict.fromkeys([*order, *wrong, *refused])
    return [
        AuditRow(name, changed[name], dict(wrong.get(name, {})), refused[name])
        for name in names
        if changed[name] or name in wrong or refused[name]
    ]


def to_json(trial: AuditedTrial) -> dict[str, Any]:
    """A trial as JSON has it."""
    return asdict(trial)


def from_json(document: Mapping[str, Any]) -> AuditedTrial:
    """The trial of a line of JSON."""
    return AuditedTrial(**{**document, "changed": tuple(document["changed"])})
