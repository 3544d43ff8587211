"""What the checks say of a program: one of four words, with findings or a reason.

Every command, the report and pytest's plugin say these words, and no others.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import tvm

from tirstep.modules import AnyProblem, KernelError
from tirstep.modules.validation import UnjudgedError

from .device import Device, DeviceError, NotRunError, Program, blank
from .devices import SimulatorDevice
from .devices.simulator.interpreter import Interpreter
from .numeric import check_program
from .reference import ModuleProblem
from .steps import Finding

OUTSIDE = "out of bounds"
LONGEST = 5.0
"""Seconds that a simulated run may take; of what takes longer, some thread blocks run."""
REFUSED = 120.0
"""The same of other devices, which run all of a program or nothing."""
WHOLE_WORK, MOST_WORK = 2**24, 2**25
"""Statements in float64 of one evaluation of a reference: up to which all elements are compared,
and of a part; there are some 20 evaluations to a verdict, and 4 to one of a part."""
EACH_SECOND = 8e7
"""Such statements."""
BLOCKS = 8
"""Thread blocks that run where all take too long."""
FEWEST = 64
"""Elements of a part."""
Sampler: TypeAlias = SimulatorDevice | Interpreter
SAMPLERS = (SimulatorDevice, Interpreter)
"""Devices that may run some thread blocks alone."""


class Status(str, enum.Enum):
    """A verdict, in its word."""

    RIGHT = "right"
    """Compared with a reference, or with the program itself in float64."""
    CLEAN = "clean"
    """Simulated without a finding: no race, no divergent barrier, nothing out of bounds or read
    before it is written; there is nothing to compare its numbers with."""
    WRONG = "wrong"
    """There are findings."""
    NOT_JUDGED = "not judged"
    """For a reason, which is told."""

    def __str__(self) -> str:
        return self.value


def get_exit_code(statuses: Iterable[Status], *, strict: bool = False) -> int:
    """0 for right or clean, 1 if anything is wrong, 3 if nothing could be judged; if `strict`, 3 if
    anything could not be.
    """
    known = [*statuses]
    if Status.WRONG in known:
        return 1
    unjudged = known.count(Status.NOT_JUDGED)
    return 3 if unjudged and (strict or unjudged == len(known)) else 0


@dataclass(frozen=True)
class Judgement:
    """What is said of a program.

    Attributes
    ----------
    device : the name of the one that ran it; "" where none did
    reason : why it was not judged, or why there is nothing to compare with; "" otherwise
    unrun : what of it never ran, a sentence for each line: of that nothing is said
    part : what it is said of where it took too long to look at the whole: ``"8 of 256 thread
        blocks"``; "" otherwise
    program : as it was compiled, where its numbers were compared whole
    """

    status: Status
    findings: tuple[Finding, ...] = ()
    device: str = ""
    reason: str = ""
    part: str = ""
    unrun: tuple[str, ...] = ()
    program: Program | None = field(default=None, repr=False, compare=False)


def judge_numbers(
    problem: AnyProblem, module: tvm.IRModule, device: Device, *, where: str, seed: int = 0
) -> Judgement:
    """`check_numbers`, of any program.

    One of which it is not known what it must compute, since its threads exchange values and it has
    no reference, say, is simulated (`_sanitize`). Of one that takes too long some thread blocks
    run, or some elements are compared. What the device lacks makes a program not judged; that TVM
    refuses it is a finding.
    """
    try:
        return compare(problem, module, device, where=where, seed=seed)
    except UnjudgedError as error:
        return _sanitize(problem, module, str(error), where, seed)
    except NotRunError as error:
        return Judgement(Status.NOT_JUDGED, reason=str(error))
    except DeviceError as error:
        return Judgement(Status.WRONG, (Finding("lowering", where, str(error)),))
    except KernelError as error:
        return _judge([Finding("numbers", where, str(error))], device.name)


def compare(
    problem: AnyProblem, module: tvm.IRModule, device: Device, *, where: str, seed: int = 0
) -> Judgement:
    """`judge_numbers`, which raises `UnjudgedError` where there is nothing to compare with, and
    `DeviceError` where the device, or TVM, refuses the module.
    """
    if (refusal := problem.find_refusal()) is not None:
        raise UnjudgedError(refusal)
    seconds = device.estimate(module)
    blocks = device if isinstance(device, SAMPLERS) and seconds > LONGEST else None
    if seconds > REFUSED and blocks is None:
        raise NotRunError(
            f"a run takes the device {device.name} about {seconds:,.0f} s; choose smaller sizes"
        )
    if blocks or (isinstance(problem, ModuleProblem) and problem.work > WHOLE_WORK):
        return _judge_part(problem, module, device, where, seed, blocks)
    program = device.compile(module)
    found = check_program(problem, program, device.name, where=where, seed=seed)
    unrun: list[str] = []
    if isinstance(problem, ModuleProblem) and not found:
        unrun = problem.find_unrun(seed) or program.find_unrun()
    return replace(_judge(found, device.name), unrun=tuple(unrun), program=program)


def watch(problem: ModuleProblem, module: tvm.IRModule, device: Sampler, seed: int) -> Program:
    """A program that ran on a few kinds of inputs, for what the device sees of it, until there is a
    finding.
    """
    is_long = device.estimate(module) > LONGEST
    program = device.compile(module, most_blocks=BLOCKS if is_long else None)
    program.in_out = problem.loaded_outputs
    for arguments in problem.draw_unmeasured(seed):
        program(arguments)
        if program.findings:
            break
    return program


def estimate_seconds(problem: AnyProblem, module: tvm.IRModule, device: Device) -> float:
    """About how long `judge_numbers` takes, to a factor of three."""
    if device.find_obstacle(module) is not None:
        return 0.0
    run, runs = device.estimate(module), 9.0
    evaluations = 0.0
    if isinstance(problem, ModuleProblem) and problem.find_refusal() is None:
        is_whole = problem.work <= WHOLE_WORK
        evaluations = (20 * problem.work if is_whole else 4 * MOST_WORK) / EACH_SECOND
        runs = runs if is_whole else 3.0
    if isinstance(device, SimulatorDevice) and run > LONGEST:
        run, runs = device.estimate(module, most_blocks=BLOCKS), 3.0
    return runs * run + evaluations


def _judge(
    found: Sequence[Finding],
    device: str,
    *,
    otherwise: Status = Status.RIGHT,
    reason: str = "",
    part: str = "",
) -> Judgement:
    return Judgement(Status.WRONG if found else otherwise, tuple(found), device, reason, part)


def _judge_part(
    problem: AnyProblem,
    module: tvm.IRModule,
    device: Device,
    where: str,
    seed: int,
    simulator: Sampler | None,
) -> Judgement:
    """What is said of a program by a part of it: thread blocks, on a simulator, if any, or elements
    of the outputs, of which as many are compared as a reference is computed for in a second.
    """
    if isinstance(problem, ModuleProblem):
        arguments, in_out = next(problem.draw_unmeasured(seed)), problem.loaded_outputs
        stored = problem.stored_places
    else:
        blanks = [blank(tensor) for tensor in problem.outputs]
        arguments, in_out = (
            problem.make_arguments(problem.float_inputs(seed), blanks),
            problem.in_out,
        )
        stored = tuple(map(problem.arguments.index, problem.outputs))
    program = simulator.compile(module, most_blocks=BLOCKS) if simulator else device.compile(module)
    masks = {place: np.ones(arguments[place].shape, bool) for place in stored}
    if simulator:
        program.in_out = in_out
        program(arguments)
        if program.findings:
            faults = [Finding(device.name, where, str(each)) for each in program.findings]
            return _judge(faults, device.name, part=program.part)
        masks = dict(program.stored)
    of_blocks = sum(int(it.sum()) for it in masks.values())
    if isinstance(problem, ModuleProblem):  # as many of these as take `MOST_WORK`, drawn
        rng, whole, share, all_masks = np.random.default_rng([seed, 11]), problem, 1.0, masks
        while (problem := replace(whole, wanted=masks)).work > MOST_WORK:
            if sum(int(it.sum()) for it in masks.values()) <= FEWEST:
                raise UnjudgedError(
                    f"{whole}: {FEWEST} expected elements take {problem.work:,.0f} operations, "
                    f"more than {MOST_WORK:,}; choose smaller sizes"
                )
            share = max(share / 4, 0.9 * share * MOST_WORK / problem.work)
            masks = {at: it & (rng.random(it.shape) < share) for at, it in all_masks.items()}
    program.checked = masks
    found = check_program(problem, program, device.name, where=where, seed=seed, is_short=True)
    compared, size = (sum(map(count, masks.values())) for count in (np.count_nonzero, np.size))
    part = program.part or f"{compared:,} of {size:,} elements"
    if program.part and compared < of_blocks:
        part = f"{compared:,} elements of {program.part}"
    return _judge(found, device.name, part=part)


def _sanitize(
    problem: AnyProblem, module: tvm.IRModule, reason: str, where: str, seed: int
) -> Judgement:
    """Simulate a program for `reason` without comparing its numbers, on a few kinds of inputs.

    One without a finding is clean, but for one with a reference, which cannot be used. Where an
    index leaves its buffer and depends on data, these may be a mistake of what was drawn: then it
    is not judged.
    """
    simulator = SimulatorDevice()
    if (
        not isinstance(problem, ModuleProblem)
        or simulator.find_obstacle(module) is not None
        or (problem.find_refusal() is None and not problem.outputs)  # it computes nothing
    ):
        return Judgement(Status.NOT_JUDGED, reason=reason)
    try:
        program = watch(problem, module, simulator, seed)
    except NotRunError as error:
        return Judgement(Status.NOT_JUDGED, reason=f"{reason}; {error}")
    except DeviceError as error:
        return Judgement(Status.WRONG, (Finding("lowering", where, str(error)),))
    except KernelError as error:
        return Judgement(Status.NOT_JUDGED, reason=str(error))
    by_data, found = problem.indexed_by_data, program.findings
    is_drawn = not problem.recorded_integers
    if found and is_drawn and all(it.kind == OUTSIDE and it.buffer in by_data for it in found):
        drawn = f"with the random data, {found[0].message}"
        return Judgement(Status.NOT_JUDGED, device=simulator.name, reason=f"{reason}; {drawn}")
    findings = [Finding(simulator.name, where, str(each)) for each in found]
    part = program.part
    otherwise = Status.CLEAN if problem.kernel.reference is None else Status.NOT_JUDGED
    judged = _judge(findings, simulator.name, otherwise=otherwise, reason=reason, part=part)
    return judged if found or part else replace(judged, unrun=tuple(program.find_unrun()))
