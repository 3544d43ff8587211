"""The culprit: the first step of a recipe, or the first pass of TVM, after which all is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tvm

from tirstep.transforms import find_pipeline
from tirstep.transforms.recipes import Step

from ..devices import find_unbound_blocks
from ..devices.cpu import make_threads_serial
from ..devices.device import Device
from ..diff import Diff, diff_texts, print_module
from ..finding import CheckError, Finding
from ..numeric import check_numbers
from ..steps import Run, step_label
from .search import HOST, Judged, Suspect, search

TARGET = "nvidia/nvidia-h100"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Culprit:
    """What is at fault, and how it was found.

    Attributes
    ----------
    kind : ``"step"``, or ``"pass"`` where the step means the right thing and TVM makes it wrong
    number, name : of the step; of the pass among all passes of the compilation, from 1
    finding : what is wrong
    diff : what the step or the pass changed
    module : the scheduled module that shows it
    kernel : the module that it should be equal to; None where it is not known
    target : what was compiled for
    run, step : None where a module was given and no recipe
    seed : of the inputs
    not_run : stages before the culprit that could not be run, each with the reason: one of these
        may be at fault just as well
    is_custom : another pipeline took the place of TVM's own
    source : the CUDA source, where its generation is at fault and no pass before it
    """

    kind: Literal["step", "pass"]
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

    def __str__(self) -> str:
        who = f"{self.kind} {self.number} {self.name}"
        of = f", in step {step_label(self.step)}" if self.kind == "pass" and self.step else ""
        return f"{who}{of}: {self.finding.message}"


@dataclass(frozen=True)
class Search:
    """What came of the search in a recipe: the culprit, if any, and what could not be run.

    Attributes
    ----------
    judged : what was run of each step, and on what, in the order of the steps
    not_run : of the steps that were found right, by their labels: what nothing is known about
    """

    culprit: Culprit | None
    judged: tuple[Judged, ...]
    not_run: tuple[str, ...]


def find_culprit(
    run: Run, *, seed: int = 0, target: str = TARGET, pipeline: str | None = None
) -> Culprit | None:
    """The first step of a run that is wrong, or the first pass that makes a right one wrong.

    Every step is first run as it stands, then as TVM lowers it for the target; a step with blocks
    that no loop binds to a GPU is lowered for the CPU. `pipeline` is the name of one that is
    registered with TVM (`tvm.tirx.compilation_pipeline.PIPELINE_MAP`), in place of the one that
    the module asks for, which is mostly TVM's own.
    None where nothing is wrong; `search_culprit` also says what could not be run.
    """
    return search_culprit(run, seed=seed, target=target, pipeline=pipeline).culprit


def search_culprit(
    run: Run, *, seed: int = 0, target: str = TARGET, pipeline: str | None = None
) -> Search:
    """The same, with what was run and what could not be run."""
    judged: list[Judged] = []
    missed: list[str] = []
    for step in run.steps:
        where = run.label(step)

        def judge(module: tvm.IRModule, device: Device, where: str = where) -> list[Finding]:
            return check_numbers(run.problem, module, device, where=where, seed=seed)

        module, its_target, threaded = step.module, target, None
        if find_unbound_blocks(module):
            module, its_target, threaded = make_threads_serial(module), HOST, step.module
        found = search(module, judge, its_target, pipeline, threaded=threaded)
        judged += found.judged
        if found.suspect is not None:
            culprit = _accuse(run, step, module, found.suspect, seed, its_target, pipeline)
            return Search(culprit, tuple(judged), ())
        missed += [f"{step_label(step)}, {one}" for one in found.not_run]
    return Search(None, tuple(judged), tuple(missed))


def find_bad_pass(
    module: tvm.IRModule,
    arguments: Sequence[Array],
    expected: Sequence[Array],
    target: str,
    *,
    pipeline: str | None = None,
    kernel: tvm.IRModule | None = None,
) -> Culprit | None:
    """The same for any module with a function ``main``, at some arguments.

    `expected` are the last of the arguments after the run, compared bit for bit. A module that is
    wrong as it stands is a culprit of kind ``"step"``, number 0. `kernel` is the module from which
    it was scheduled, for the reproducer.
    """
    if len(expected) > len(arguments):
        raise CheckError("find_bad_pass: more outputs are expected than there are arguments")

    def judge(one: tvm.IRModule, device: Device) -> list[Finding]:
        program = device.compile(one)
        got = program(arguments)[len(arguments) - len(expected) :]
        faults = [Finding(device.name, "main", str(fault)) for fault in program.faults]
        return [*faults, *_compare(got, expected)]

    suspect = search(module, judge, target, pipeline).suspect
    if suspect is None:
        return None
    number, name, diff = _describe(suspect, 0, "main", module, module)
    kind: Literal["step", "pass"] = "step" if suspect.stage is None else "pass"
    return Culprit(
        kind=kind,
        number=number,
        name=name,
        finding=suspect.finding,
        diff=diff,
        module=module,
        kernel=kernel,
        target=target,
        run=None,
        step=None,
        seed=0,
        not_run=suspect.not_run,
        is_custom=(pipeline or find_pipeline(module)) != "default",
        source=suspect.source,
    )


def _accuse(
    run: Run,
    step: Step,
    module: tvm.IRModule,
    suspect: Suspect,
    seed: int,
    target: str,
    pipeline: str | None,
) -> Culprit:
    before = run.steps[max(0, step.index - 1)]
    number, name, diff = _describe(suspect, step.index, step.name, before.module, step.module)
    return Culprit(
        kind="step" if suspect.stage is None else "pass",
        number=number,
        name=name,
        finding=suspect.finding.at(step.source),
        diff=diff,
        module=module,
        kernel=run.steps[0].module,
        target=target,
        run=run,
        step=step,
        seed=seed,
        not_run=suspect.not_run,
        is_custom=(pipeline or find_pipeline(module)) != "default",
        source=suspect.source,
    )


def _describe(
    suspect: Suspect, number: int, name: str, before: tvm.IRModule, after: tvm.IRModule
) -> tuple[int, str, Diff]:
    names = ("the step before", f"{number:02d}_{name}")
    stage = suspect.stage
    if stage is not None:
        number, name, before, after = stage.number, stage.name, stage.before, stage.module
        names = (f"before {name}", f"after {name}")
    return number, name, diff_texts(print_module(before), print_module(after), names=names)


def _compare(got: Sequence[Array], expected: Sequence[Array]) -> list[Finding]:
    findings = []
    for number, (mine, right) in enumerate(zip(got, expected, strict=True)):
        wrong = mine != right
        if wrong.any():
            first = tuple(int(index) for index in np.argwhere(wrong)[0])
            findings.append(
                Finding(
                    "numbers",
                    "main",
                    f"output {number} is {mine[first]} at {list(first)}, and {right[first]} is "
                    f"expected; {int(wrong.sum())} of {wrong.size} elements are wrong",
                )
            )
    return findings
