"""The culprit: the first step of a recipe, or the first pass of TVM, after which all is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import tvm

from tirstep.transforms import find_pipeline
from tirstep.transforms.recipes import Step

from ..devices import find_unbound_blocks
from ..devices.cpu import CpuDevice, make_threads_serial
from ..devices.device import Device, DeviceError
from ..diff import Diff, diff_texts, print_module
from ..finding import Finding
from ..numeric import check_numbers
from ..refusal import explain_refusal
from ..steps import Run, step_label
from .search import AS_LOWERED, HOST, Outcome, Place, Refusal, Suspect, search

TARGET = "nvidia/nvidia-h100"
Array = np.ndarray[Any, Any]
UNKNOWN_START = "the start, of which nothing could be run,"
Kind: TypeAlias = Literal["step", "pass", "between", "refused"]


@dataclass(frozen=True)
class Culprit:
    """What is at fault, and how it was found.

    Attributes
    ----------
    kind : ``"step"``, or ``"pass"`` where the step means the right thing and TVM makes it wrong.
        Both are confirmed: the same device finds the state before right and the one after wrong.
        ``"between"``: what stands between the two could not be judged, or another device judged
        the first of them, and any of what is between may be at fault. ``"refused"``: a pass of TVM
        refuses what the step made; at fault is the step, that pass, or what stands between it and
        the last state that is right.
    right : the last state that is right, with the device; empty where none was found
    wrong : the first state that is wrong, with the device
    number, name : of the step; of the pass among all passes of the compilation, from 1; of what
        made the first wrong state, where that is not all that may be at fault
    finding : what is wrong
    diff : what the step or the pass changed; what changed between the two states
    module : the scheduled module that shows it
    kernel : the module that it should be equal to; None where it is not known
    target : what was compiled for
    run, step : None where a module was given and no recipe
    seed : of the inputs
    not_run : what could not be judged between the two states, each with the reason
    is_custom : another pipeline took the place of TVM's own
    source : the CUDA source, where that is wrong and no pass before it
    is_pass : `number` and `name` are of a pass, and not of a step
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

    @property
    def who(self) -> str:
        """Who is at fault, in a few words; both ends where it is one of several."""
        if self.kind == "between":
            return f"between {self.right or UNKNOWN_START} and {self.wrong}"
        if self.kind == "refused" and self.step is not None:
            by = f"pass {self.number} {self.name}" if self.number else self.name
            last = f", behind {self.right}" if self.right else ""
            return f"step {self.step.index} {self.step.name}, refused by {by}{last}"
        kind = "pass" if self.kind == "refused" else self.kind
        of = f", in step {step_label(self.step)}" if kind == "pass" and self.step else ""
        return f"{kind} {self.number} {self.name}{of}"

    def __str__(self) -> str:
        return f"{self.who}: {self.finding.message}"


@dataclass(frozen=True)
class Search:
    """What came of the search in a recipe: the culprit, if any, and what could not be run.

    Attributes
    ----------
    judged : what was run of each step, and on what, in the order of the steps
    not_run : of the steps that were found right, by their labels: what nothing is known about
    """

    culprit: Culprit | None
    judged: tuple[Place, ...]
    not_run: tuple[str, ...]


def find_culprit(
    run: Run, *, seed: int = 0, target: str = TARGET, pipeline: str | None = None
) -> Culprit | None:
    """The first step of a run that is wrong, or the first pass that makes a right one wrong.

    Every step is first run as it stands, then as TVM lowers it for the target; a step with blocks
    that no loop binds to a GPU is lowered for the CPU. `pipeline` is the name of one that is
    registered with TVM (`tvm.tirx.compilation_pipeline.PIPELINE_MAP`), in place of the one that
    the module asks for, which is mostly TVM's own.

    A step that TVM refuses may be a state on the way: the search goes on, and only where nothing is
    wrong the first such step is returned. None where nothing is wrong; `search_culprit` also says
    what could not be run.
    """
    return search_culprit(run, seed=seed, target=target, pipeline=pipeline).culprit


def search_culprit(
    run: Run, *, seed: int = 0, target: str = TARGET, pipeline: str | None = None
) -> Search:
    """The same, with what was run and what could not be run."""
    return _Steps(run, seed, target, pipeline).search()


class _Steps:
    """The search in the steps of a run, one after the other.

    Attributes
    ----------
    scheduled, lowered : the last step whose module was found right as it stands, and as TVM lowers
        it for the target, each with the state
    """

    def __init__(self, run: Run, seed: int, target: str, pipeline: str | None) -> None:
        self.run, self.seed, self.target, self.pipeline = run, seed, target, pipeline
        self.judged: list[Place] = []
        self.missed: list[str] = []
        self.scheduled: tuple[Step, Place] | None = None
        self.lowered: tuple[Step, Place] | None = None
        self.refused: Culprit | None = None

    def search(self) -> Search:
        for step in self.run.steps:
            culprit = self._search_step(step)
            if culprit is not None:
                missed = [] if self.refused is None else [str(self.refused)]
                return Search(culprit, tuple(self.judged), tuple(missed))
        missed = self.missed
        if self.refused is not None:
            missed = [one for one in missed if not one.startswith(str(self.refused.who))]
        return Search(self.refused, tuple(self.judged), tuple(missed))

    def _search_step(self, step: Step) -> Culprit | None:
        where = self.run.label(step)

        def judge(module: tvm.IRModule, device: Device) -> list[Finding]:
            return check_numbers(self.run.problem, module, device, where=where, seed=self.seed)

        module, target, threaded = step.module, self.target, None
        if find_unbound_blocks(module):
            module, target, threaded = make_threads_serial(module), HOST, step.module
        found = search(module, judge, target, self.pipeline, threaded=threaded)
        self.judged += found.judged
        if found.suspect is not None:
            return self._accuse(step, module, found, found.suspect, target)
        self.missed += [f"{step_label(step)}, {one}" for one in found.not_run]
        if found.refused is not None and self.refused is None:
            self.refused = self._describe_refusal(step, module, found.refused, target)
        if found.scheduled is not None:
            self.scheduled = (step, found.scheduled)
        if found.lowered is not None and target == self.target:
            self.lowered = (step, found.lowered)
        return None

    def _accuse(
        self, step: Step, module: tvm.IRModule, found: Outcome, suspect: Suspect, target: str
    ) -> Culprit:
        stage, is_exact = suspect.stage, suspect.is_exact
        last = self.lowered if suspect.wrong.what == AS_LOWERED else self.scheduled
        right, before = "", self.run.steps[max(0, step.index - 1)].module
        if stage is not None and suspect.right is not None:
            right, before = (
                f"step {step_label(step)} {suspect.right.tell(right=True)}",
                suspect.before or module,
            )
        elif step.index and last is not None:
            right, before = f"step {step_label(last[0])} {last[1].tell(right=True)}", last[0].module
            is_exact = is_exact and self._is_next(last, step, suspect.wrong)
        else:
            is_exact = is_exact and not step.index
        not_run = list(suspect.not_run)
        if not is_exact and (stage is None or suspect.right is None):
            first = 0 if last is None else last[0].index
            not_run = [*self._list_missed(first, step.index), *found.not_run, *not_run]
        number, name, after = step.index, step.name, step.module
        if stage is not None:
            number, name, after = stage.number, stage.name, stage.module
        kind: Kind = "step" if stage is None else "pass"
        return self._make(
            step,
            module,
            target,
            kind=kind if is_exact else "between",
            right=right,
            wrong=f"step {step_label(step)} {suspect.wrong.tell(right=False)}",
            number=number,
            name=name,
            finding=suspect.finding.at(step.source),
            diff=diff_states(before, after, right, number, name),
            not_run=tuple(dict.fromkeys(not_run)),
            source=suspect.source,
            is_pass=stage is not None,
        )

    def _is_next(self, last: tuple[Step, Place], step: Step, wrong: Place) -> bool:
        """Whether the last right step is the one before, and right on the same device, too."""
        before, place = last
        if before.index != step.index - 1:
            return False
        if place.by == wrong.by:
            return True
        cpu = CpuDevice()
        if wrong.by != cpu.name:
            return False
        try:
            where = self.run.label(before)
            return not check_numbers(
                self.run.problem, before.module, cpu, where=where, seed=self.seed
            )
        except DeviceError:
            return False

    def _list_missed(self, first: int, stop: int) -> list[str]:
        labels = [step_label(one) for one in self.run.steps[first:stop]]
        return [one for one in self.missed if one.partition(",")[0] in labels]

    def _describe_refusal(
        self, step: Step, module: tvm.IRModule, refused: Refusal, target: str
    ) -> Culprit:
        failed, label = refused.failed, step_label(step)
        finding = Finding("lowering", self.run.label(step), explain_refusal(module, failed))
        right = "" if refused.right is None else f"step {label} {refused.right.tell(right=True)}"
        before = self.run.steps[max(0, step.index - 1)].module
        return self._make(
            step,
            module,
            target,
            kind="refused",
            right=right,
            wrong=f"step {label} {AS_LOWERED}",
            number=failed.number,
            name=failed.name,
            finding=finding.at(step.source),
            diff=diff_states(before, step.module, "the step before", step.index, step.name),
            not_run=refused.not_run,
            source="",
            is_pass=True,
        )

    def _make(self, step: Step, module: tvm.IRModule, target: str, **parts: Any) -> Culprit:
        return Culprit(
            module=module,
            kernel=self.run.steps[0].module,
            target=target,
            run=self.run,
            step=step,
            seed=self.seed,
            is_custom=(self.pipeline or find_pipeline(module)) != "default",
            **parts,
        )


def diff_states(
    before: tvm.IRModule, after: tvm.IRModule, right: str, number: int, name: str
) -> Diff:
    names = (right or "before", f"{number} {name}")
    return diff_texts(print_module(before), print_module(after), names=names)
