"""Two programs side by side: their TIR, their structure, and what they compute of equal inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
import tvm_ffi

from tirstep.modules import AnyProblem
from tirstep.modules.inputs import Array

from .device import blank
from .devices import CpuDevice, Device, DeviceError
from .diff import Diff, diff_modules
from .numeric import check_program
from .reference import ModuleKernel
from .steps import CheckError, Finding


@dataclass(frozen=True)
class Difference:
    """How an output of two programs differs on the same random floats.

    Attributes
    ----------
    name : of the output
    changed : how many of its `size` elements differ in a bit; two NaNs are the same
    largest : the largest difference, in absolute numbers; NaN where one of the two has a NaN
    """

    name: str
    changed: int
    size: int
    largest: float


@dataclass(frozen=True)
class Comparison:
    """What `compare_programs` found.

    Attributes
    ----------
    diff : of their TIR
    is_same_structure : whether they are structurally equal, whatever their names
    findings : of the first and of the second, each against the reference
    checked_on : the device of each
    differences : of each output; empty where one of the two could not be run
    """

    diff: Diff
    is_same_structure: bool
    findings: tuple[tuple[Finding, ...], tuple[Finding, ...]]
    checked_on: tuple[str, str]
    differences: tuple[Difference, ...]

    @property
    def is_same(self) -> bool:
        """Whether both compute what the reference does, within its bounds."""
        return not any(self.findings)

    @property
    def is_bitwise(self) -> bool:
        """Whether their outputs are the same to the bit on the inputs that were drawn."""
        return bool(self.differences) and not any(it.changed for it in self.differences)


def compare_programs(
    problem: AnyProblem,
    first: tvm.IRModule,
    second: tvm.IRModule,
    device: Device,
    *,
    names: tuple[str, str] = ("first", "second"),
    seed: int = 0,
    context: int = 3,
) -> Comparison:
    """Hold two programs against one reference, and against each other.

    `problem` has the reference: a kernel's meaning, or a module computed in float64. A program that
    the device cannot run, as its loops are not bound, say, runs on the CPU. Raises `CheckError`
    where the two do not take the same arguments.
    """
    for module, name in zip((first, second), names, strict=True):
        require_same_arguments(problem, names[0], module, name)
    runs = [
        run_program(problem, module, device, name, seed)
        for module, name in zip((first, second), names, strict=True)
    ]
    (found, on, outputs), (other_found, other_on, other_outputs) = runs
    differences = [
        _compare_arrays(tensor.name, *pair)
        for tensor, pair in zip(
            problem.outputs, zip(outputs, other_outputs, strict=True), strict=False
        )
        if outputs and other_outputs
    ]
    return Comparison(
        diff_modules(first, second, names=names, context=context),
        bool(tvm_ffi.structural_equal(first, second, map_free_vars=True)),
        (found, other_found),
        (on, other_on),
        tuple(differences),
    )


def run_program(
    problem: AnyProblem, module: tvm.IRModule, device: Device, name: str, seed: int
) -> tuple[tuple[Finding, ...], str, Sequence[Array]]:
    """The findings of one program, the device that ran it, and its outputs on random floats."""
    runner = device if device.find_obstacle(module) is None else CpuDevice()
    try:
        program = runner.compile(module)
        findings = tuple(check_program(problem, program, runner.name, where=name, seed=seed))
        blanks = [blank(tensor) for tensor in problem.outputs]
        arguments = problem.make_arguments(problem.float_inputs(seed), blanks)
        outputs = problem.take_outputs(program(arguments))
    except DeviceError as error:
        return (Finding("lowering", name, str(error)),), runner.name, ()
    return findings, runner.name, outputs


def _compare_arrays(name: str, first: Array, second: Array) -> Difference:
    same = (first == second) | ((first != first) & (second != second))
    apart = np.abs(first.astype(np.float64) - second.astype(np.float64))[~same]
    return Difference(name, int((~same).sum()), int(same.size), float(apart.max(initial=0.0)))


def require_same_arguments(
    problem: AnyProblem, owner: str, module: tvm.IRModule, name: str
) -> None:
    """Raise `CheckError` for a module that takes other arguments than a problem, its owner's."""
    own = ModuleKernel(module, name).problem().arguments
    if [(each.shape, each.dtype) for each in own] != [
        (each.shape, each.dtype) for each in problem.arguments
    ]:
        ours = ", ".join(f"{it.name} {it.dtype}{list(it.shape)}" for it in own)
        theirs = ", ".join(f"{it.name} {it.dtype}{list(it.shape)}" for it in problem.arguments)
        raise CheckError(
            f"{name} takes {ours}, and {owner} {theirs}; compare programs of the same arguments, "
            "in the same order"
        )
