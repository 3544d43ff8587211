"""Numbers: what a module computes against the kernel's meaning in NumPy, exact inputs first.

The comparison itself, `find_wrong` and `describe_wrong`, is the same for arrays of NumPy and
tensors of PyTorch: `xp` is the module that they belong to. What error is allowed says
`modules/error_bounds.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tirstep.modules import AnyProblem
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.error_bounds import round_end
from tirstep.modules.inputs import Array

from .device import Arrays, Device, Program, blank
from .steps import CheckError, Finding

INTEGERS = ("integers",)
"""What rows of whole numbers are."""
Bound = float | Array
"""An absolute error that is allowed, for all elements of an output or for each."""
ULPS = 64
"""Units in the last place, of the largest number expected, by which floats may be off where no
bound is given: as many roundings differ as a changed order of some thousand terms costs."""


def check_numbers(
    problem: AnyProblem, module: tvm.IRModule, device: Device, *, where: str, seed: int = 0
) -> list[Finding]:
    """Run a module of a problem a few times and compare its outputs with the reference.

    First on integer-valued inputs, as large as possible while every sum stays exact: any legal
    schedule gives the same bits, and no error is tolerated. Kernels that are not sums of products
    get small integers and a bound instead. Then on random floats with the kernel's corner cases
    among them (`Meaning.corners`), within the bound that follows from the length of the sums and
    the types (`AnyProblem.error_interval`). Outputs are filled with NaN before a run, and inputs
    must be unchanged after it. The device's own findings are included: stores outside of a tensor,
    and from the simulator what its threads did. Raises `DeviceError` if the device cannot run the
    module.
    """
    return check_program(problem, device.compile(module), device.name, where=where, seed=seed)


def check_program(
    problem: AnyProblem,
    program: Program,
    device: str,
    *,
    where: str,
    seed: int = 0,
    is_short: bool = False,
) -> list[Finding]:
    """`check_numbers` of a program that is compiled already: one that leaves sizes open, say, which
    fits several problems. `device` is the name of the one that it was compiled for. If `is_short`,
    on whole numbers and on random floats once.
    """
    program.in_out = problem.in_out
    for case in make_cases(problem, seed, is_short):
        findings = check_case(problem, program, case, where)
        faults = [Finding(device, where, str(fault)) for fault in program.findings]
        if findings or faults:
            return [*faults, *findings]
    return []


@dataclass(frozen=True)
class NumericCase:
    """Inputs, and the outputs that they must have.

    Attributes
    ----------
    expected : in float64; where `is_bitwise`, the bits of the outputs as numbers
    ends : the least and the largest values that are right as well
    rows : the corner cases in the first input, "" where it is random, which repeat
    row_shape : how many rows there are, along each axis but the last, of that and of the outputs
    """

    inputs: Arrays
    expected: Arrays
    ends: Sequence[tuple[Array, Array]]
    name: str
    is_bitwise: bool = False
    rows: tuple[str, ...] = ("",)
    row_shape: tuple[int, ...] = (1,)

    def name_at(self, place: tuple[int, ...]) -> str:
        """What the input is at an element of an output: of corner cases, that of its row."""
        row = 0
        for index, extent in zip(place, self.row_shape, strict=False):
            row = row * extent + index
        return f"{self.rows[row % len(self.rows)] or 'random floats'}, {self.name}"


@functools.lru_cache(maxsize=2)
def make_cases(problem: AnyProblem, seed: int, is_short: bool) -> tuple[NumericCase, ...]:
    """The cases of a seed: whole numbers (`INTEGERS`), one or more times, then random floats and
    corner cases; cached, since every step of a run needs them.
    """
    meaning = problem.kernel.meaning
    row_shape = problem.inputs[0].shape[:-1] if meaning.has_matrices else (1,)

    def make(rows: tuple[str, ...], inputs: Arrays, number: int) -> NumericCase:
        name = f"seed {seed}" + (f", round {number}" if number > 1 else "")
        is_exact = rows == INTEGERS and problem.is_exact
        is_bitwise = meaning.is_bitwise and rows != INTEGERS
        expected = problem.reference(as_bits(inputs) if is_bitwise else inputs)
        if is_exact:
            pairs = zip(expected, problem.outputs, strict=True)
            expected = [round_end(array, tensor.dtype, 1) for array, tensor in pairs]
        is_interval = not is_exact and not is_bitwise
        ends = problem.error_interval(inputs) if is_interval else [(it, it) for it in expected]
        return NumericCase(inputs, expected, ends, name, is_bitwise, rows, row_shape)

    whole = [(INTEGERS, it) for it in problem.integer_rounds(seed)[: 1 if is_short else None]]
    is_plain = is_short and not meaning.is_bitwise
    drawn = [(("",), problem.float_inputs(seed))] if is_plain else problem.planted_inputs(seed)
    numbered = [*enumerate(whole, 1), *enumerate(drawn, 1)]
    return tuple(make(*it, number) for number, it in numbered)


def check_case(
    problem: AnyProblem, program: Program, case: NumericCase, where: str
) -> list[Finding]:
    """Run a program on one case, hold its outputs against what they must be, and its inputs
    against what they were.
    """
    blanks = [blank(tensor) for tensor in problem.outputs]
    after = program(problem.make_arguments(case.inputs, blanks))
    findings, outputs = list[Finding](), problem.take_outputs(after)
    values = _as_float64(as_bits(outputs) if case.is_bitwise else outputs)
    intervals, places = case.ends, [*map(find_wrong, values, case.expected, case.ends)]
    if any(map(np.any, places)) and (added := problem.find_own_errors(case.inputs)):
        intervals = problem.error_interval(case.inputs, added)
        places = [*map(find_wrong, values, case.expected, intervals)]
    for tensor, got, expected, ends, wrong in zip(
        problem.outputs, values, case.expected, intervals, places, strict=True
    ):
        if problem.kernel.meaning.has_signed_zeros and dtype_facts(tensor.dtype).is_float:
            wrong |= (got == 0) & (expected == 0) & (np.signbit(got) != np.signbit(expected))
        if (mask := program.checked.get(problem.arguments.index(tensor))) is not None:
            wrong &= mask
        if wrong.any():
            source = problem.reference_name
            message = describe_wrong(tensor.name, got, expected, ends, wrong, reference=source)
            unit = "as numbers, " if case.is_bitwise else ""
            name = case.name_at(_find_worst(got, ends, wrong))
            findings.append(Finding("numbers", where, f"{message} ({unit}{name})"))
    for tensor, before, now in zip(
        problem.inputs, case.inputs, problem.take_inputs(after), strict=True
    ):
        # By their bits: a zero may have changed its sign.
        changed = np.not_equal(*as_bits([before, now]))
        if tensor not in problem.outputs and changed.any():
            first = _find_first(changed)
            findings.append(
                Finding(
                    "numbers",
                    where,
                    f"the input {_name_place(tensor.name, first)} was {float(before[first]):.9g} "
                    f"before the run and is {float(now[first]):.9g} after it; {int(changed.sum())} "
                    f"of {changed.size} elements of an input that a kernel may only read are "
                    f"changed ({case.name_at((0,))})",
                )
            )
    return findings


def find_wrong(got: Any, expected: Any, ends: tuple[Any, Any], xp: Any = np) -> Any:
    """Which elements of an output lie outside of the ends, and are not what is expected either.

    A NaN is right only where one is expected.
    """
    low, high = ends
    is_near = (low <= got) & (got <= high)
    return ~(is_near | (got == expected) | (xp.isnan(got) & xp.isnan(expected)))


def describe_wrong(
    name: str,
    got: Any,
    expected: Any,
    ends: tuple[Any, Any],
    wrong: Any,
    *,
    reference: str = "NumPy",
    xp: Any = np,
) -> str:
    """The worst element of an output, the one that is farthest off what is allowed, or NaN; what it
    should be, and how many are wrong.

    `reference` is where the expected values are from.
    """
    shape, worst = tuple(wrong.shape), _find_worst(got, ends, wrong, xp)
    value, right = got[worst].item(), expected[worst].item()
    low, high = (xp.broadcast_to(xp.asarray(end), shape)[worst].item() for end in ends)
    bound = max(high - right, right - low)
    allowed = f" with an error of at most {bound:.3g}" if bound > 0 else ""
    return (
        f"{_name_place(name, worst)} is {_spell(value)}, and {reference} has "
        f"{_spell(right)}{allowed}; {int(wrong.sum())} of {math.prod(shape)} elements are wrong"
    )


def compare_outputs(
    got: Sequence[Array],
    expected: Sequence[Array],
    bounds: Sequence[Bound] | None = None,
    *,
    names: Sequence[str],
    where: str,
) -> list[Finding]:
    """Hold outputs against expected arrays of any module; one finding for each that is off.

    `bounds` are absolute errors, one for each output; without them see `get_default_bound`.
    Raises `CheckError` where they are too few or too many.
    """
    if bounds is None:
        bounds = [get_default_bound(array) for array in expected]
    if len(bounds) != len(expected):
        raise CheckError(
            f"{len(expected)} outputs are expected and {len(bounds)} bounds given; give one bound "
            "for each"
        )
    findings = []
    for name, output, right, bound in zip(names, got, expected, bounds, strict=True):
        # Integers stay what they are: the largest of int64 are no float64.
        if output.dtype.kind not in "biu" or np.any(bound):
            output, right = _as_float64([output, right])
        ends = (right - bound, right + bound) if np.any(bound) else (right, right)
        wrong = find_wrong(output, right, ends)
        if wrong.any():
            message = describe_wrong(
                name, output, right, ends, wrong, reference="the expected output"
            )
            findings.append(Finding("numbers", where, message))
    return findings


def get_default_bound(expected: Array) -> float:
    """0 for integers, and for floats that are all whole numbers; otherwise `ULPS` of the largest.

    Whole numbers are what exact sums of whole inputs come to, and any legal order gives the same.
    """
    if expected.dtype.kind in "biu":
        return 0.0
    values = expected.astype(np.float64)
    values = np.abs(values[np.isfinite(values)])
    facts = dtype_facts(str(expected.dtype))
    largest = float(values.max(initial=0))
    # Beyond what a type holds exactly every number is a whole one.
    if largest <= facts.exact_integers and np.array_equal(values, np.round(values)):
        return 0.0
    return ULPS * 2 * facts.unit_roundoff * largest


def _find_first(wrong: Any) -> tuple[int, ...]:
    """The index of the first element that is true."""
    flat = int((wrong.reshape(-1) * 1).argmax())
    return tuple(int(index) for index in np.unravel_index(flat, tuple(wrong.shape)))


def _find_worst(got: Any, ends: tuple[Any, Any], wrong: Any, xp: Any = np) -> tuple[int, ...]:
    """The index of the wrong element that is farthest off its ends: of the first that is no finite
    number, if any is, and of one that should be none only where there is no other.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        got = got * 1.0
        low, high = (xp.asarray(end) * 1.0 - got for end in ends)
        off = xp.maximum(low, -high)
        off = xp.where(xp.isfinite(off), off, xp.where(xp.isfinite(got), -1.0, np.inf))
    return _find_first(wrong & (off == off[wrong].max()))


def _name_place(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"


def _spell(value: float) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def as_bits(arrays: Arrays) -> Arrays:
    """The bits of each element, as unsigned integers."""
    return [np.ascontiguousarray(array).view(f"u{array.itemsize}") for array in arrays]


def _as_float64(arrays: Arrays) -> Arrays:
    with np.errstate(invalid="ignore"):  # a NaN that signals
        return [np.asarray(array).astype(np.float64) for array in arrays]
