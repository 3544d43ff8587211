"""Numbers: a module against the kernel's meaning in NumPy, exact ones first."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tirstep.modules import Problem, Tensor
from tirstep.modules.dtypes import dtype_facts

from .devices.device import Arrays, Device, Program, blank
from .finding import Finding


def check_numbers(
    problem: Problem, module: tvm.IRModule, device: Device, *, where: str, seed: int = 0
) -> list[Finding]:
    """Run a module of a problem twice and hold its outputs against the reference.

    First on integer-valued inputs, as large as every sum stays exact with: any legal schedule gives
    the same bits, and nothing is tolerated; but for kernels that are no sums of products, which get
    small integers and a bound. Then on random floats, within the bound that follows from the length
    of the sums and the types (`Problem.error_bound`). Outputs are filled with NaN;
    inputs must be the same after a run. What the device saw in the first run comes with it: stores
    beside a tensor, and of the simulator what its threads did.
    Raises `DeviceError` where the device cannot run the module.
    """
    return check_program(problem, device.compile(module), device.name, where=where, seed=seed)


def check_program(
    problem: Problem, program: Program, device: str, *, where: str, seed: int = 0
) -> list[Finding]:
    """`check_numbers` of a program that is compiled already: one that leaves sizes open, say, which
    fits several problems. `device` is the name of the one that it was compiled for.
    """
    exact, floats = make_cases(problem, seed)
    findings = check_case(problem, program, exact, where)
    seen = [Finding(device, where, str(fault)) for fault in program.faults]
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
    make = _make_exact_case if problem.is_exact else _make_case
    return (
        make(problem, problem.integer_inputs(seed), f"integers, seed {seed}"),
        _make_case(problem, problem.float_inputs(seed), f"random floats, seed {seed}"),
    )


def _make_exact_case(problem: Problem, inputs: Arrays, name: str) -> Case:
    stored = [
        array.astype(dtype_facts(tensor.dtype).numpy)
        for tensor, array in zip(problem.outputs, problem.reference(inputs), strict=True)
    ]
    expected = _as_float64(stored)
    return Case(inputs, expected, [np.zeros_like(array) for array in expected], name)


def _make_case(problem: Problem, inputs: Arrays, name: str) -> Case:
    return Case(inputs, problem.reference(inputs), problem.error_bound(inputs), name)


def check_case(problem: Problem, program: Program, case: Case, where: str) -> list[Finding]:
    """Run a program on one case, hold its outputs against what they must be, and its inputs
    against what they were.
    """
    after = program([*case.inputs, *map(blank, problem.outputs)])
    count = len(case.inputs)
    findings = _compare(problem, after[count:], case.expected, case.bounds, case.name, where)
    for tensor, before, now in zip(problem.inputs, case.inputs, after[:count], strict=True):
        # By their bits: a zero may have changed its sign.
        bits = f"u{before.itemsize}"
        changed = np.ascontiguousarray(before).view(bits) != now.view(bits)
        if changed.any():
            message = _describe_change(tensor, before, now, changed)
            findings.append(Finding("numbers", where, f"{message} ({case.name})"))
    return findings


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
    first = _find_first(wrong)
    place = _name_place(tensor, first)
    allowed = f" with an error of at most {bound[first]:.3g}" if bound[first] else ""
    return (
        f"{place} is {got[first]:.9g}, and NumPy has {expected[first]:.9g}{allowed}; "
        f"{int(wrong.sum())} of {wrong.size} elements are wrong"
    )


def _describe_change(
    tensor: Tensor,
    before: np.ndarray[Any, Any],
    now: np.ndarray[Any, Any],
    changed: np.ndarray[Any, Any],
) -> str:
    first = _find_first(changed)
    return (
        f"the input {_name_place(tensor, first)} was {float(before[first]):.9g} before the run and "
        f"is {float(now[first]):.9g} after it; {int(changed.sum())} of {changed.size} elements of "
        "an input that a kernel may only read are changed"
    )


def _find_first(wrong: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(wrong)[0])


def _name_place(tensor: Tensor, index: tuple[int, ...]) -> str:
    return f"{tensor.name}[{', '.join(map(str, index))}]"


def _as_float64(arrays: Arrays) -> Arrays:
    return [np.asarray(array).astype(np.float64) for array in arrays]
