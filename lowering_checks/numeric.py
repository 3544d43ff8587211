"""Numbers: a module against the kernel's meaning in NumPy, exact ones first."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tirstep.modules import Problem, Tensor
from tirstep.modules.dtypes import dtype_facts

from .devices.device import Arrays, Device, Program, run
from .finding import Finding


def check_numbers(
    problem: Problem, module: tvm.IRModule, device: Device, *, where: str, seed: int = 0
) -> list[Finding]:
    """Run a module of a problem twice and hold its outputs against the reference.

    First on integer-valued inputs, so small that every sum is exact: any legal schedule gives the
    same bits, and nothing is tolerated. Then on random floats, within the bound that follows from
    the length of the sums and the types (`Problem.error_bound`). Outputs are filled with NaN.
    A device that watches its threads, as the simulator does, adds what it saw in the first run.
    Raises `DeviceError` where the device cannot run the module.
    """
    program = device.compile(module)
    exact, floats = make_cases(problem, seed)
    findings = check_case(problem, program, exact, where)
    seen = [Finding(device.name, where, str(fault)) for fault in program.faults]
    if findings or seen:
        return [*seen, *findings]
    return check_case(problem, program, floats, where)


@dataclass(frozen=True)
class Case:
    """Inputs with the outputs that they must have, in float64, and how far off those may be."""

    inputs: Arrays
    expected: Arrays
    bounds: Arrays
    name: str


@functools.lru_cache(maxsize=2)
def make_cases(problem: Problem, seed: int) -> tuple[Case, Case]:
    """The integers and the random floats of a seed; kept, since every step of a run asks anew."""
    integers = problem.integer_inputs(seed)
    exact = [
        array.astype(dtype_facts(tensor.dtype).numpy)
        for tensor, array in zip(problem.outputs, problem.reference(integers), strict=True)
    ]
    kept = _as_float64(exact)
    none = [np.zeros_like(array) for array in kept]
    floats = problem.float_inputs(seed)
    return (
        Case(integers, kept, none, f"integers, seed {seed}"),
        Case(
            floats,
            problem.reference(floats),
            problem.error_bound(floats),
            f"random floats, seed {seed}",
        ),
    )


def check_case(problem: Problem, program: Program, case: Case, where: str) -> list[Finding]:
    """Run a program on one case and hold its outputs against what they must be."""
    got = run(program, case.inputs, problem.outputs)
    return _compare(problem, got, case.expected, case.bounds, case.name, where)


def _compare(
    problem: Problem, got: Arrays, expected: Arrays, bounds: Arrays, inputs: str, where: str
) -> list[Finding]:
    findings = []
    for tensor, mine, right, bound in zip(
        problem.outputs, _as_float64(got), expected, bounds, strict=True
    ):
        wrong = ~(np.abs(mine - right) <= bound)
        if wrong.any():
            message = _describe(tensor, mine, right, bound, wrong)
            findings.append(Finding("numbers", where, f"{message} ({inputs})"))
    return findings


def _describe(
    tensor: Tensor,
    got: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    bound: np.ndarray[Any, Any],
    wrong: np.ndarray[Any, Any],
) -> str:
    first = tuple(int(index) for index in np.argwhere(wrong)[0])
    place = f"{tensor.name}[{', '.join(map(str, first))}]"
    allowed = f" with an error of at most {bound[first]:.3g}" if bound[first] else ""
    return (
        f"{place} is {got[first]:.9g}, and NumPy has {expected[first]:.9g}{allowed}; "
        f"{int(wrong.sum())} of {wrong.size} elements are wrong"
    )


def _as_float64(arrays: Arrays) -> Arrays:
    return [np.asarray(array).astype(np.float64) for array in arrays]
