"""Inputs that leave no doubt, and the error that is allowed where doubt is inevitable."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.errors import KernelError

if TYPE_CHECKING:
    from tirstep.modules.kernel import Problem

Array: TypeAlias = npt.NDArray[Any]

_LARGEST_INTEGER = 4


def draw_exact(problem: "Problem", seed: int) -> list[Array]:
    """Whole numbers of which every partial sum, in any order, is exact. See Problem.

    The numbers are from -4 to 4 without 0, so that no term of a sum can be lost unnoticed. Where
    that is too much, they become smaller, and then fewer: the others are 0.
    """
    largest = [(float(r), 1.0) for r in range(_LARGEST_INTEGER, 0, -1)]
    fewer = [(1.0, 2.0**-halvings) for halvings in range(1, 32)]
    for reach, density in largest + fewer:
        rng = np.random.default_rng(seed)
        inputs = [
            _whole_numbers(rng, tensor.shape, reach, density).astype(
                dtype_facts(tensor.dtype).numpy
            )
            for tensor in problem.inputs
        ]
        if _fits(problem, inputs):
            return inputs
    raise _overflow(problem)


def _whole_numbers(
    rng: np.random.Generator, shape: tuple[int, ...], reach: float, density: float
) -> Array:
    values = np.floor(1 + rng.random(shape) * reach) * rng.choice((-1.0, 1.0), shape)
    kept = rng.random(shape) < density
    kept.flat[rng.integers(kept.size)] = True  # never all zeros
    return np.where(kept, values, 0.0)


def draw_random(problem: "Problem", seed: int) -> list[Array]:
    """Floats in [-1, 1); for integer types, integers of the widest range that cannot overflow."""
    tensors = [(tensor.shape, dtype_facts(tensor.dtype)) for tensor in problem.inputs]
    # One halving more, and nothing but zeros would be left of the narrowest.
    for halvings in range(min(facts.mantissa_bits for _, facts in tensors)):
        rng = np.random.default_rng(seed)
        inputs = [
            _floats(rng, shape, facts) if facts.is_float else _integers(rng, shape, facts, halvings)
            for shape, facts in tensors
        ]
        if dtype_facts(problem.accumulator).is_float or _fits(problem, inputs):
            return inputs
    raise _overflow(problem)


def _overflow(problem: "Problem") -> KernelError:
    return KernelError(
        f"{problem}: the smallest inputs overflow {problem.accumulator}; choose a wider type"
    )


def _floats(rng: np.random.Generator, shape: tuple[int, ...], facts: DType) -> Array:
    # The clip is for the types so narrow that 0.999 would round to 1.
    below_one = 1.0 - facts.unit_roundoff
    return np.minimum(rng.uniform(-1.0, 1.0, shape), below_one).astype(facts.numpy)


def _integers(
    rng: np.random.Generator, shape: tuple[int, ...], facts: DType, halvings: int
) -> Array:
    full = rng.integers(int(facts.smallest), int(facts.largest), shape, endpoint=True)
    # Towards zero: a shift to the right would leave -1 of every negative number.
    return (np.sign(full) * (np.abs(full) >> halvings)).astype(facts.numpy)


def _fits(problem: "Problem", inputs: Sequence[Array]) -> bool:
    """Whether no partial sum can leave the accumulator's exact integers, nor the output's range.

    The sum of the absolute values of all terms bounds every partial sum in every order.
    """
    exact = dtype_facts(problem.accumulator).exact_integers
    return all(
        float(sums.max()) <= min(exact, dtype_facts(output.dtype).largest)
        for sums, output in zip(_sums_of_magnitudes(problem, inputs), problem.outputs, strict=True)
    )


def _sums_of_magnitudes(problem: "Problem", inputs: Sequence[Array]) -> list[Array]:
    # In float64 before the absolute value: that of the least int8 is no int8.
    return problem.reference([np.abs(array.astype(np.float64)) for array in inputs])


def bound_error(problem: "Problem", inputs: Sequence[Array]) -> list[Array]:
    """The bound of Problem.error_bound, which says what it is."""
    acc = dtype_facts(problem.accumulator)
    if not acc.is_float:
        return [np.zeros(output.shape) for output in problem.outputs]
    n = problem.terms
    roundings = n * acc.unit_roundoff
    gamma = roundings / (1 - roundings) if roundings < 1 else np.inf
    bounds = []
    for exact, sums, output in zip(
        problem.reference(inputs),
        _sums_of_magnitudes(problem, inputs),
        problem.outputs,
        strict=True,
    ):
        out = dtype_facts(output.dtype)
        # A sum without a single term is exact, whatever gamma (0 times infinity is no number).
        summing = np.where(sums > 0, gamma, 0.0) * sums + n * acc.smallest_subnormal
        storing = out.unit_roundoff * (np.abs(exact) + summing) + out.smallest_subnormal
        bounds.append(summing + storing)
    return bounds
