"""What the checks say of a program: one of four words, with findings or a reason.

Every command, the report and pytest's plugin say these words, and no others.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import tvm

from tirstep.modules import AnyProblem, KernelError
from tirstep.modules.validation import UnjudgedError

from .device import Device, DeviceError, NotRunError
from .devices import SimulatorDevice
from .numeric import check_numbers
from .reference import ModuleProblem
from .steps import Finding

OUTSIDE = "out of bounds"


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
    """

    status: Status
    findings: tuple[Finding, ...] = ()
    device: str = ""
    reason: str = ""


def judge_numbers(
    problem: AnyProblem, module: tvm.IRModule, device: Device, *, where: str, seed: int = 0
) -> Judgement:
    """`check_numbers`, of any program.

    One of which it is not known what it must compute, since its threads exchange values and it has
    no reference, say, is simulated (`sanitize`). What the device lacks makes a program not judged;
    that TVM refuses it is a finding.
    """
    try:
        if (refusal := problem.find_refusal()) is not None:
            raise UnjudgedError(refusal)
        found = check_numbers(problem, module, device, where=where, seed=seed)
    except UnjudgedError as error:
        return sanitize(problem, module, str(error), where=where, seed=seed)
    except NotRunError as error:
        return Judgement(Status.NOT_JUDGED, reason=str(error))
    except DeviceError as error:
        return Judgement(Status.WRONG, (Finding("lowering", where, str(error)),))
    except KernelError as error:
        finding = Finding("numbers", where, str(error))
        return Judgement(Status.WRONG, (finding,), device.name)
    return Judgement(Status.WRONG if found else Status.RIGHT, tuple(found), device.name)


def sanitize(
    problem: AnyProblem, module: tvm.IRModule, reason: str, *, where: str, seed: int = 0
) -> Judgement:
    """Simulate a program for `reason` without comparing its numbers, on a few kinds of inputs.

    Where an index leaves its buffer and depends on data, these may be a mistake of what was drawn:
    then it is not judged.
    """
    simulator = SimulatorDevice()
    unjudged = Judgement(Status.NOT_JUDGED, reason=reason)
    if not isinstance(problem, ModuleProblem) or simulator.find_obstacle(module) is not None:
        return unjudged
    if problem.find_refusal() is None and not problem.outputs:  # it computes nothing
        return unjudged
    try:
        program = simulator.compile(module)
        program.in_out = problem.loaded_outputs
        found = []
        for arguments in problem.draw_unmeasured(seed):
            program(arguments)
            found = [*program.findings]
            if found:
                break
    except NotRunError as error:
        return Judgement(Status.NOT_JUDGED, reason=f"{reason}; {error}")
    except DeviceError as error:
        return Judgement(Status.WRONG, (Finding("lowering", where, str(error)),))
    except KernelError as error:
        return Judgement(Status.NOT_JUDGED, reason=str(error))
    by_data = problem.indexed_by_data
    if found and all(each.kind == OUTSIDE and each.buffer in by_data for each in found):
        drawn = f"with the data that was drawn, {found[0].message}"
        return Judgement(Status.NOT_JUDGED, device=simulator.name, reason=f"{reason}; {drawn}")
    findings = tuple(Finding(simulator.name, where, str(each)) for each in found)
    status = Status.WRONG if findings else Status.CLEAN
    return Judgement(status, findings, simulator.name, reason)
