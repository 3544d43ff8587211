"""Two programs side by side: their TIR, their structure, and what they compute of equal inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import tvm
import tvm_ffi

from tirstep.modules import AnyProblem, KernelError
from tirstep.modules.inputs import Array

from .compile.compiling import make_main
from .device import blank
from .devices import CpuDevice, Device
from .judgement import Judgement, Status, judge_numbers
from .reference import ModuleKernel, ModuleProblem
from .steps import CheckError, Diff, diff_modules


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
    judgements : of the first and of the second, each against the reference
    differences : of each output; empty where one of the two could not be run
    """

    diff: Diff
    is_same_structure: bool
    judgements: tuple[Judgement, Judgement]
    differences: tuple[Difference, ...]

    @property
    def is_same(self) -> bool:
        """Whether both compute what the reference does, within its bounds."""
        return all(each.status is Status.RIGHT for each in self.judgements)

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
    judgements: list[Judgement] = []
    outputs: list[Sequence[Array]] = []
    for module, name in zip((first, second), names, strict=True):
        runner = device if device.find_obstacle(module) is None else CpuDevice()
        own = problem
        if isinstance(problem, ModuleProblem) and module is second:  # as `check --reference` does
            meant = ModuleKernel(make_main(problem.function), names[0])
            kernel = ModuleKernel(second, name, None, meant, problem.kernel.recorded)
            own = kernel.problem()
        judged = judge_numbers(own, module, runner, where=name, seed=seed)
        if judged.unrun and judged.status is not Status.WRONG:
            reason = f"{name}: {'; '.join(judged.unrun)}"
            judged = replace(judged, status=Status.NOT_JUDGED, reason=reason)
        judgements.append(judged)
        outputs.append([])
        with contextlib.suppress(KernelError):  # nothing can be said of random floats, say
            if judged.program is not None:
                blanks = [blank(tensor) for tensor in problem.outputs]
                arguments = problem.make_arguments(problem.float_inputs(seed), blanks)
                outputs[-1] = problem.take_outputs(judged.program(arguments))
    differences = []
    for tensor, one, other in zip(problem.outputs, *outputs, strict=True) if all(outputs) else ():
        same = (one == other) | ((one != one) & (other != other))
        apart = np.abs(one.astype(np.float64) - other.astype(np.float64))[~same]
        largest = float(apart.max(initial=0.0))
        differences.append(Difference(tensor.name, int((~same).sum()), int(same.size), largest))
    return Comparison(
        diff_modules(first, second, names=names, context=context),
        bool(tvm_ffi.structural_equal(first, second, map_free_vars=True)),
        (judgements[0], judgements[1]),
        tuple(differences),
    )


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
            f"{name} takes {ours}, and {owner} {theirs}; compare programs with the same "
            "arguments, in the same order"
        )
