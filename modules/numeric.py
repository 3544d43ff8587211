"""Inputs that leave no doubt, and the error that is allowed where doubt is inevitable."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.errors import KernelError

if TYPE_CHECKING:
    from tirstep.modules.kernel import Problem

Array: TypeAlias = npt.NDArray[Any]


def draw_exact(problem: "Problem", seed: int) -> Iterator[list[Array]]:
    """Whole numbers of which every partial sum, in any order, is exact. See Problem.

    They have either sign and all orders of magnitude up to the largest that fits, so that what is
    rounded to a narrower type on its way shows. None is 0, so that no term of a sum can be lost
    unnoticed, but for those of one output (`zeros` of the kernel), where whatever is added to the
    sum shows, however small. Where even ones are too much for a sum, each row of the first input
    has as many as fit, in columns of its own, and there are as many inputs as it takes for every
    column to have had its turn.
    """
    if not problem.is_exact:
        yield _draw_small(problem, seed)
        return
    for reach in _find_reaches(problem):
        rng = np.random.default_rng(seed)
        drawn = [
            _whole_numbers(rng, tensor.shape, reach, dtype_facts(tensor.dtype))
            for tensor in problem.inputs
        ]
        inputs = _set_zeros(problem, drawn)
        if _fits(problem, inputs):
            yield inputs
            return
    yield from _draw_in_turns(problem, inputs, np.random.default_rng([seed, 1]))


def _draw_in_turns(
    problem: "Problem", ones: list[Array], rng: np.random.Generator
) -> Iterator[list[Array]]:
    """Ones of either sign, so few in a row that they fit; the columns in turns over the rows."""
    columns = ones[0].shape[-1]
    live = np.flatnonzero(ones[0].reshape(-1, columns).any(axis=1))
    order = rng.permutation(columns)
    fitting = columns
    while fitting > 1:
        fitting //= 2
        if _fits(problem, _keep_columns(ones, live, order, fitting, 0)):
            break
    else:
        raise _overflow(problem)
    # Halved until it fits: as many more as fit all the same.
    for step in (fitting // 2, fitting // 4, fitting // 8):
        if step and _fits(problem, _keep_columns(ones, live, order, fitting + step, 0)):
            fitting += step
    for first in range(0, columns, fitting * len(live)):
        yield _keep_columns(ones, live, order, fitting, first)


def _keep_columns(
    ones: list[Array], live: Array, order: Array, count: int, first: int
) -> list[Array]:
    """Of the first input `count` columns a row, each row beginning where the one before ends."""
    columns = len(order)
    kept = np.zeros_like(ones[0].reshape(-1, columns))
    for turn, row in enumerate(live):
        chosen = order[(first + turn * count + np.arange(count)) % columns]
        kept[row, chosen] = ones[0].reshape(-1, columns)[row, chosen]
    return [kept.reshape(ones[0].shape), *ones[1:]]


def _draw_small(problem: "Problem", seed: int) -> list[Array]:
    """Whole numbers from -4 to 4, for kernels that are no sums of products; never all zeros."""
    rng = np.random.default_rng(seed)
    inputs = []
    for tensor in problem.inputs:
        values = rng.integers(-4, 5, tensor.shape)
        values.flat[rng.integers(values.size)] = 3
        inputs.append(values.astype(dtype_facts(tensor.dtype).numpy))
    return inputs


def _find_reaches(problem: "Problem") -> Iterator[int]:
    """The largest numbers, those that may fit first, and ones at last.

    The first guess is for products of two numbers, and adds up their means.
    """
    limit = min(_find_limits(problem))
    reach = 1
    while (problem.terms + 1) * (2 * reach / np.log(2 * reach + 1)) ** 2 <= limit:
        reach *= 2
    while reach >= 1:
        yield reach
        reach //= 2


def _whole_numbers(
    rng: np.random.Generator, shape: tuple[int, ...], reach: int, facts: DType
) -> Array:
    """Numbers from 1 to `reach`, their logarithms spread evenly, with random signs."""
    most = min(reach, facts.exact_integers)
    sizes = np.minimum(np.floor(np.exp(rng.random(shape) * np.log(most + 1))), most)
    values = sizes * rng.choice((-1.0, 1.0), shape)
    return np.asarray(values.astype(facts.numpy))


def _set_zeros(problem: "Problem", drawn: list[Array]) -> list[Array]:
    """The inputs with the kernel's zeros in them; without, where one would be left all zeros."""
    inputs = [array.copy() for array in drawn]
    for array, place in zip(inputs, problem.zeros, strict=False):
        array[place] = 0
    return inputs if all(array.any() for array in inputs) else drawn


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
    sums = _sums_of_magnitudes(problem, inputs)
    limits = _find_limits(problem)
    return all(float(one.max()) <= limit for one, limit in zip(sums, limits, strict=True))


def _find_limits(problem: "Problem") -> list[float]:
    exact = dtype_facts(problem.accumulator).exact_integers
    return [min(exact, dtype_facts(output.dtype).largest) for output in problem.outputs]


def _sums_of_magnitudes(problem: "Problem", inputs: Sequence[Array]) -> list[Array]:
    # In float64 before the absolute value: that of the least int8 is no int8.
    return problem.reference([np.abs(array.astype(np.float64)) for array in inputs])


def bound_error(problem: "Problem", inputs: Sequence[Array]) -> list[Array]:
    """The bound of Problem.error_bound, which says what it is."""
    bounds = []
    for exact, error, output in zip(
        problem.reference(inputs), bound_computing(problem, inputs), problem.outputs, strict=True
    ):
        out = dtype_facts(output.dtype)
        storing = out.unit_roundoff * (np.abs(exact) + error) + out.underflow
        bounds.append(error + storing)
    return bounds


def find_intervals(problem: "Problem", inputs: Sequence[Array]) -> list[tuple[Array, Array]]:
    """The intervals of Problem.error_interval, which says what they are."""
    intervals = []
    for exact, error, output in zip(
        problem.reference(inputs), bound_computing(problem, inputs), problem.outputs, strict=True
    ):
        with np.errstate(invalid="ignore"):  # an infinity less an infinite bound
            ends = [
                _store(np.where(np.isinf(exact), exact, exact + sign * error), output.dtype, sign)
                for sign in (-1, 1)
            ]
        intervals.append((ends[0], ends[1]))
    return intervals


def _store(values: Array, dtype: str, sign: int) -> Array:
    """Values rounded to a type, in float64, as the end of an interval: the upper one with sign 1.

    Where float8 overflows, NumPy has an infinity or, in a type without, no number; CUDA has the
    largest number, of infinities too (`__NV_SATFINITE` of the constructors in cuda_fp8.h). Both
    are in the interval.
    """
    facts = dtype_facts(dtype)
    if not facts.is_float:
        return values
    with np.errstate(over="ignore"):
        stored = values.astype(facts.numpy).astype(np.float64)
    if facts.bytes > 1:
        return stored
    beyond = ~np.isfinite(stored) & ~np.isnan(values)
    most = np.where(np.sign(values) == sign, np.inf, facts.largest)
    return np.where(beyond, np.copysign(most, values), stored)


def bound_computing(problem: "Problem", inputs: Sequence[Array]) -> list[Array]:
    """How far off each output may be before it is stored, in absolute numbers."""
    acc = dtype_facts(problem.accumulator)
    if not acc.is_float:
        return [np.zeros(output.shape) for output in problem.outputs]
    own, doubles = problem.kernel.meaning.error, [array.astype(np.float64) for array in inputs]
    if problem.kernel.meaning.is_bitwise:
        return [np.zeros(output.shape) for output in problem.outputs]
    if own is None:
        return _bound_sums(problem, inputs, acc)
    constants = {**problem.sizes, **problem.options}
    return [own(*doubles, u=acc.unit_roundoff, tiny=acc.underflow, **constants)]


def _bound_sums(problem: "Problem", inputs: Sequence[Array], acc: DType) -> list[Array]:
    n = problem.terms
    roundings = n * acc.unit_roundoff
    gamma = roundings / (1 - roundings) if roundings < 1 else np.inf
    # A sum without a single term is exact, whatever gamma (0 times infinity is no number); so is
    # one with an infinity, of which the others change nothing.
    bounds = []
    for sums in _sums_of_magnitudes(problem, inputs):
        rounded = (sums > 0) & np.isfinite(sums)
        bounds.append(np.multiply(gamma, sums, out=np.zeros_like(sums), where=rounded))
    return [bound + max(n, 1) * acc.underflow for bound in bounds]
