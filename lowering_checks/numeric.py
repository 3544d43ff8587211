"""Numbers: a module against the kernel's meaning in NumPy, exact ones first."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import tvm

from tirstep.modules import Problem, Tensor
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.numeric import Array

from .devices.device import Arrays, Device, Program, blank
from .finding import Finding


def check_numbers(
    problem: Problem, module: tvm.IRModule, device: Device, *, where: str, seed: int = 0
) -> list[Finding]:
    """Run a module of a problem a few times and hold its outputs against the reference.

    First on integer-valued inputs, as large as every sum stays exact with: any legal schedule gives
    the same bits, and nothing is tolerated; but for kernels that are no sums of products, which get
    small integers and a bound. Then on random floats, within the bound that follows from the length
    of the sums and the types (`Problem.error_interval`), and on the kernel's corner cases
    (`Meaning.corners`), which sums of products have among their floats. Outputs are filled with
    NaN; inputs must be the same after a run. What the device saw in the first run comes with it:
    stores beside a tensor, and of the simulator what its threads did.
    Raises `DeviceError` where the device cannot run the module.
    """
    return check_program(problem, device.compile(module), device.name, where=where, seed=seed)


def check_program(
    problem: Problem, program: Program, device: str, *, where: str, seed: int = 0
) -> list[Finding]:
    """`check_numbers` of a program that is compiled already: one that leaves sizes open, say, which
    fits several problems. `device` is the name of the one that it was compiled for.
    """
    cases = make_cases(problem, seed)
    findings = check_case(problem, program, cases.all[0], where)
    seen = [Finding(device, where, str(fault)) for fault in program.faults]
    if findings or seen:
        return [*seen, *findings]
    for case in cases.all[1:]:
        if findings := check_case(problem, program, case, where):
            return findings
    return []


@dataclass(frozen=True)
class Case:
    """Inputs with the outputs that they must have, in float64, and the ends between which those
    may be instead.

    Where `is_bitwise`, expected are the bits of the outputs, as numbers. `rows` are the corner
    cases in the first input, which repeat from row to row.
    """

    inputs: Arrays
    expected: Arrays
    ends: Sequence[tuple[Array, Array]]
    name: str
    is_bitwise: bool = False
    rows: tuple[str, ...] = ()

    def name_at(self, place: tuple[int, ...]) -> str:
        """What the input is at an element of an output: of corner cases, that of its row."""
        return f"{self.rows[place[0] % len(self.rows)]}, {self.name}" if self.rows else self.name


@dataclass(frozen=True)
class Cases:
    """The cases of a seed: whole numbers, in one or more rounds, random floats, corner cases."""

    exact: tuple[Case, ...]
    floats: tuple[Case, ...]

    @property
    def all(self) -> tuple[Case, ...]:
        return (*self.exact, *self.floats)


@functools.lru_cache(maxsize=2)
def make_cases(problem: Problem, seed: int) -> Cases:
    """The cases of a seed; kept, since every step of a run asks anew."""
    make = _make_exact_case if problem.is_exact else _make_case
    rounds = problem.integer_rounds(seed)
    names = [f"integers, seed {seed}"]
    names += [f"integers, seed {seed}, round {number}" for number in range(2, len(rounds) + 1)]
    exact = tuple(make(problem, *one) for one in zip(rounds, names, strict=True))
    is_bitwise = problem.kernel.meaning.is_bitwise
    make = _make_bit_case if is_bitwise else _make_case
    corners = tuple(
        replace(make(problem, inputs, f"seed {seed}"), rows=rows)
        for rows, inputs in problem.corner_inputs(seed)
    )
    if is_bitwise:  # random floats show nothing that random bits do not
        return Cases(exact, corners)
    floats = _make_case(problem, problem.planted_inputs(seed), f"random floats, seed {seed}")
    return Cases(exact, (floats, *corners))


def _make_exact_case(problem: Problem, inputs: Arrays, name: str) -> Case:
    stored = [
        array.astype(dtype_facts(tensor.dtype).numpy)
        for tensor, array in zip(problem.outputs, problem.reference(inputs), strict=True)
    ]
    expected = _as_float64(stored)
    return Case(inputs, expected, [(array, array) for array in expected], name)


def _make_case(problem: Problem, inputs: Arrays, name: str) -> Case:
    return Case(inputs, problem.reference(inputs), problem.error_interval(inputs), name)


def _make_bit_case(problem: Problem, inputs: Arrays, name: str) -> Case:
    expected = problem.reference(_as_bits(inputs))
    return Case(inputs, expected, [(bits, bits) for bits in expected], name, is_bitwise=True)


def check_case(problem: Problem, program: Program, case: Case, where: str) -> list[Finding]:
    """Run a program on one case, hold its outputs against what they must be, and its inputs
    against what they were.
    """
    after = program([*case.inputs, *map(blank, problem.outputs)])
    count = len(case.inputs)
    findings = _compare(problem, after[count:], case, where)
    for tensor, before, now in zip(problem.inputs, case.inputs, after[:count], strict=True):
        # By their bits: a zero may have changed its sign.
        bits = f"u{before.itemsize}"
        changed = np.ascontiguousarray(before).view(bits) != now.view(bits)
        if changed.any():
            message = _describe_change(tensor, before, now, changed)
            findings.append(Finding("numbers", where, f"{message} ({case.name_at((0,))})"))
    return findings


def _compare(problem: Problem, got: Arrays, case: Case, where: str) -> list[Finding]:
    findings = []
    mine = _as_float64(_as_bits(got) if case.is_bitwise else got)
    for tensor, one, right, ends in zip(
        problem.outputs, mine, case.expected, case.ends, strict=True
    ):
        # A NaN is in no interval, and right only where the reference has one.
        wrong = ~((ends[0] <= one) & (one <= ends[1])) & ~(np.isnan(one) & np.isnan(right))
        if problem.kernel.meaning.has_signed_zeros and dtype_facts(tensor.dtype).is_float:
            wrong |= (one == 0) & (right == 0) & (np.signbit(one) != np.signbit(right))
        if wrong.any():
            message = _describe(tensor, one, right, ends, wrong)
            unit = "as numbers, " if case.is_bitwise else ""
            name = case.name_at(_find_first(wrong))
            findings.append(Finding("numbers", where, f"{message} ({unit}{name})"))
    return findings


def _describe(
    tensor: Tensor,
    got: Array,
    expected: Array,
    ends: tuple[Array, Array],
    wrong: Array,
) -> str:
    first = _find_first(wrong)
    place, right = _name_place(tensor, first), expected[first]
    with np.errstate(invalid="ignore"):
        bound = max(ends[1][first] - right, right - ends[0][first])
    allowed = f" with an error of at most {bound:.3g}" if bound > 0 else ""
    return (
        f"{place} is {got[first]:.9g}, and NumPy has {right:.9g}{allowed}; "
        f"{int(wrong.sum())} of {wrong.size} elements are wrong"
    )


def _describe_change(
    tensor: Tensor,
    before: Array,
    now: Array,
    changed: Array,
) -> str:
    first = _find_first(changed)
    return (
        f"the input {_name_place(tensor, first)} was {float(before[first]):.9g} before the run and "
        f"is {float(now[first]):.9g} after it; {int(changed.sum())} of {changed.size} elements of "
        "an input that a kernel may only read are changed"
    )


def _find_first(wrong: Array) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(wrong)[0])


def _name_place(tensor: Tensor, index: tuple[int, ...]) -> str:
    return f"{tensor.name}[{', '.join(map(str, index))}]"


def _as_bits(arrays: Arrays) -> Arrays:
    return [np.ascontiguousarray(array).view(f"u{array.itemsize}") for array in arrays]


def _as_float64(arrays: Arrays) -> Arrays:
    return [np.asarray(array).astype(np.float64) for array in arrays]
