"""The audit of TVM's own passes: each against the interpreter, over the corpus.

A program is right as it stands, by the interpreter, or it is left out. Where it is wrong as TVM
compiles it, for a CPU by LLVM, bisection finds the first pass after which it is.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.s_tir import SBlock

from tirstep.lowering_checks import Finding
from tirstep.lowering_checks.bisect.bisection import CODE_GENERATION, ModuleBisection
from tirstep.lowering_checks.compile.compiling import using_pipeline
from tirstep.lowering_checks.device import DeviceError
from tirstep.lowering_checks.devices import CpuDevice, Device
from tirstep.lowering_checks.devices.simulator import NEXT_PASS, SimulatorDevice
from tirstep.transforms import get_pipeline
from tirstep.transforms.tir import find_all

from .corpus import TrialRecord
from .editing import Edit
from .trying import (
    HOST,
    LEFT_OUT,
    REFUSED,
    RIGHT,
    UNJUDGED,
    WRONG,
    Experiment,
    ModuleOracle,
    Subject,
    get_kind,
)

OURS = "tirstep."
"""What the names of this package's passes begin with, which some schedules bring along."""
SHARES_PLACES = "tirx.StorageRewrite"
SECONDS = 60.0
"""Behind which no state of a module is interpreted any more."""


def audit(subject: Subject) -> Mapping[str, Any]:
    """Compile a module, and name the first pass that is wrong, as fields of a `TrialRecord`."""

    def check(module: tvm.IRModule, device: Device) -> list[Finding]:
        return subject.oracle.check(device.compile(module), device.name, subject.label)

    is_gpu = subject.target != HOST
    if isinstance(subject.oracle, ModuleOracle):
        try:
            _ = subject.oracle.arguments, subject.oracle.expected
        except DeviceError as error:
            return {"status": LEFT_OUT, "reason": str(error)}
    if not is_gpu and (obstacle := CpuDevice().find_obstacle(subject.module)) is not None:
        return {"status": UNJUDGED, "reason": obstacle}
    end = time.monotonic() + SECONDS
    search = ModuleBisection(check, subject.module, None, end, end)
    bad = search.find_first_bad(subject.target, None)
    if search.lowering is None:
        wrong = "" if bad is None else bad.finding.message
        return {"status": LEFT_OUT, "reason": f"the schedule itself: {wrong}"}
    found: dict[str, Any] = {"changed": [*dict.fromkeys(it.name for it in search.lowering.changed)]}
    failed = search.lowering.failed
    if failed is not None and failed.name.startswith(OURS):
        return {**found, "status": LEFT_OUT, "reason": str(failed)}
    if bad is not None and (bad.failed is not None or bad.source):
        at = CODE_GENERATION if bad.failed is None else bad.failed.name
        return {**found, "status": REFUSED, "reason": bad.finding.message, "at": at}
    at, finding = ("", None) if bad is None or bad.stage is None else (bad.stage.name, bad.finding)
    if finding is None and is_gpu:
        # Some states behind `SHARES_PLACES` cannot be interpreted: with buffers of several types in
        # one place. The simulator, which merges them itself, runs what becomes of these.
        try:
            for each in check(subject.module, SimulatorDevice())[:1]:
                # `SHARES_PLACES` where it is right without that, and else the merging behind it.
                at, finding = SHARES_PLACES, each
                with Experiment("apart", Edit("drop", SHARES_PLACES)) as experiment:
                    with using_pipeline(experiment.name_pipelines(get_pipeline(subject.module))[1]):
                        at = NEXT_PASS if check(subject.module, SimulatorDevice()) else at
        except Exception as error:  # a module that a pass has spoiled may be anything
            is_told = isinstance(error, DeviceError)
            reason = f"{'' if is_told else f'{type(error).__name__}: '}{error}"
            return {**found, "status": UNJUDGED, "reason": reason}
    elif finding is None and search.lowered is None:
        return {**found, "status": UNJUDGED, "reason": "; ".join(search.not_run)}
    if finding is None:
        return {**found, "status": RIGHT}
    # No pass of TVM puts barriers where threads race for a buffer of global memory that is no
    # argument, so that whoever made the program has to order it.
    named = re.match(r"race: (?:load of|store to) (\w+)\[", finding.message)
    if named is not None and any(
        str(buffer.name) == named[1] and buffer.scope() == "global"
        for function in subject.module.functions.values()
        for block in find_all(function.body, SBlock)
        for buffer in block.alloc_buffers
    ):
        return {**found, "status": LEFT_OUT, "reason": f"the schedule itself: {finding.message}"}
    what = get_kind(finding, subject.module)
    return {**found, "status": WRONG, "reason": finding.message, "what": what, "at": at}


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


def tabulate(trials: Iterable[TrialRecord], order: Sequence[str]) -> list[AuditRow]:
    """The rows of all passes, in the pipeline's order, then of what is no pass of it."""
    changed: Counter[str] = Counter()
    wrong: dict[str, Counter[str]] = {}
    refused: Counter[str] = Counter()
    for each in trials:
        changed.update(each.changed)
        if each.status == WRONG:
            wrong.setdefault(each.at, Counter())[each.what] += 1
        elif each.status == REFUSED:
            refused[each.at] += 1
    return [
        AuditRow(name, changed[name], dict(wrong.get(name, {})), refused[name])
        for name in dict.fromkeys([*order, *wrong, *refused])
        if changed[name] or name in wrong or refused[name]
    ]
