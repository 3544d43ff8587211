"""Numbers: a module against the kernel's meaning in NumPy, exact ones first."""

from __future__ import annotations

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
    Raises `DeviceError` where the device cannot run the module.
    """
    program = device.compile(module)
    findings = _check_exact(problem, program, where, seed)
    return findings or _check_floats(problem, program, where, seed)


def _check_exact(problem: Problem, program: Program, where: str, seed: int) -> list[Finding]:
    inputs = problem.integer_inputs(seed)
    expected = [
        array.astype(dtype_facts(tensor.dtype).numpy)
        for tensor, array in zip(problem.outputs, problem.reference(inputs), strict=True)
    ]
    got = run(program, inputs, problem.outputs)
    kept = _as_float64(expected)
    return _compare(
        problem, got, kept, [np.zeros_like(one) for one in kept], f"integers, seed {seed}", where
    )


def _check_floats(problem: Problem, program: Program, where: str, seed: int) -> list[Finding]:
    inputs = problem.float_inputs(seed)
    got = run(program, inputs, problem.outputs)
    bounds = problem.error_bound(inputs)
    expected = problem.reference(inputs)
    return _compare(problem, got, expected, bounds, f"random floats, seed {seed}", where)


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
