"""Inputs that leave no doubt, and the error that is allowed where doubt is inevitable.

Outputs are compared with these bounds in `lowering_checks/numeric.py`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tirstep.modules.dtypes import DType, dtype_facts, get_storage
from tirstep.modules.rounded import Rounded, bound_sums
from tirstep.modules.validation import KernelError

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
    best, low, high = None, 0, int(np.log2(min(_find_limits(problem))))
    while low <= high:  # the largest power of two that fits
        middle = (low + high) // 2
        inputs = _draw_up_to(problem, 2**middle, seed)
        room = _find_room(problem, inputs)
        if np.isinf(room):  # the one output of a small problem would add up zeros alone
            inputs = _draw_up_to(problem, 2**middle, seed, has_zeros=False)
            room = _find_room(problem, inputs)
        # It is infinite where no term is: all windows of a convolution see its padding.
        if room >= 1:
            best, low = inputs, middle + 1
        else:
            high = middle - 1
    if best is not None:
        yield best
        return
    yield from _draw_in_turns(problem, inputs, np.random.default_rng([seed, 1]))


def _draw_up_to(
    problem: "Problem", reach: int, seed: int, *, has_zeros: bool = True
) -> list[Array]:
    rng = np.random.default_rng(seed)
    drawn = [
        draw_whole_numbers(rng, tensor.shape, reach, _get_facts(problem, tensor.dtype))
        for tensor in problem.inputs
    ]
    return _set_zeros(problem, drawn) if has_zeros else drawn


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
        if fits(problem, _keep_columns(ones, live, order, fitting, 0)):
            break
    else:
        raise _overflow(problem)
    # Halved until it fits: as many more as fit all the same.
    for step in (fitting // 2, fitting // 4, fitting // 8):
        if step and fits(problem, _keep_columns(ones, live, order, fitting + step, 0)):
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
        values = np.asarray(rng.integers(-4, 5, tensor.shape))
        values.flat[rng.integers(values.size)] = 3
        inputs.append(values.astype(dtype_facts(tensor.dtype).numpy))
    return _draw_ranges(problem, inputs, rng)


def _draw_ranges(problem: "Problem", inputs: list[Array], rng: np.random.Generator) -> list[Array]:
    """The inputs with those in their place that have a range (`ranges` of the kernel)."""
    for place, (least, most) in problem.ranges.items():
        drawn = rng.integers(least, most, inputs[place].shape, endpoint=True)
        inputs[place] = drawn.astype(inputs[place].dtype)
    return inputs


def _get_facts(problem: "Problem", dtype: str) -> DType:
    """Of an input: of a float32 those of tf32, where products are formed of what that keeps."""
    operands = str(problem.options.get("dtype", dtype))
    return dtype_facts(operands if get_storage(operands) == dtype else dtype)


def draw_whole_numbers(
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
            draw_floats(rng, shape, facts)
            if facts.is_float
            else _integers(rng, shape, facts, halvings)
            for shape, facts in tensors
        ]
        inputs = _draw_ranges(problem, inputs, rng)
        if dtype_facts(problem.accumulator).is_float or fits(problem, inputs):
            return inputs
    raise _overflow(problem)


def _overflow(problem: "Problem") -> KernelError:
    return KernelError(
        f"{problem}: the smallest inputs overflow {problem.accumulator}; choose a wider type"
    )


def draw_floats(rng: np.random.Generator, shape: tuple[int, ...], facts: DType) -> Array:
    """Random floats in [-1, 1) of a type, that lie between two numbers of narrower ones."""
    # The clip is for the types so narrow that 0.999 would round to 1.
    below_one = 1.0 - facts.unit_roundoff
    result = np.empty(shape, facts.numpy)
    flat = result.reshape(-1)
    for start in range(0, flat.size, DRAWN_AT_ONCE):
        part = flat[start : start + DRAWN_AT_ONCE]
        drawn = np.clip(rng.uniform(-1.0, 1.0, part.size), -below_one, below_one)
        part[:] = lie_between(drawn)
    return result


DRAWN_AT_ONCE = 1 << 16
"""Numbers of a large tensor that are drawn together: their float64 stay in the cache."""


# Of the 24 bits of a float32, the first of which has the weight 2^23: the 9th and 12th; the 10th,
# 11th and 13th.
_CLEARED, _SET = np.uint32(2**15 | 2**12), np.uint32(2**14 | 2**13 | 2**11)


def arrange(inputs: Sequence[Array], places: Sequence[int]) -> list[list[Array]]:
    """The inputs with the numbers of some in rising order, and with those in falling order.

    A maximum or a minimum is at an end of whatever rows it is taken of then, which it seldom is of
    random numbers: a loop that leaves out its first or last iteration shows.
    """
    if all(inputs[place].size < 2 for place in places):
        return []
    arranged = []
    for step in (1, -1):
        changed = list(inputs)
        for place in places:
            array = inputs[place]
            doubles = array.reshape(-1).astype(np.float64)  # NumPy sorts no float8
            order = np.argsort(doubles, kind="stable")[::step]
            changed[place] = array.reshape(-1)[order].reshape(array.shape)
        arranged.append(changed)
    return arranged


def lie_between(values: Array) -> Array:
    """Numbers like others, as float32, but so far between two of bfloat16, and between two of
    float16 or TF32, that rounding to either changes each, and always towards zero.

    The first bit that bfloat16 lacks, the 9th, is 0, and the two after it are 1; with the 12th,
    that float16 lacks, it is the same. Zeros stay.
    """
    bits = values.astype(np.float32).view(np.uint32)
    changed = (bits & ~_CLEARED | _SET).view(np.float32)
    return np.where(values == 0, np.float32(0), changed)


def is_between(values: Array) -> Array:
    """Which numbers lie as those of `lie_between` do, as near as matters: a quarter of the way or
    more above one of bfloat16, and of float16 or TF32, and nearer to it than to the next.
    """
    mantissas, _ = np.frexp(np.abs(values))
    between = np.ones(np.shape(values), bool)
    for bits in (8, 11):
        beyond = np.ldexp(mantissas, bits) % 1
        between &= (beyond >= 0.25) & (beyond < 0.5)
    return between


def _integers(
    rng: np.random.Generator, shape: tuple[int, ...], facts: DType, halvings: int
) -> Array:
    full = rng.integers(int(facts.smallest), int(facts.largest), shape, endpoint=True)
    # Towards zero: a shift to the right would leave -1 of every negative number.
    return (np.sign(full) * (np.abs(full) >> halvings)).astype(facts.numpy)


def fits(problem: "Problem", inputs: Sequence[Array]) -> bool:
    """Whether no partial sum can leave the accumulator's exact integers, nor the output's range."""
    return _find_room(problem, inputs) >= 1


def _find_room(problem: "Problem", inputs: Sequence[Array]) -> float:
    """How many times the largest sum may be what it is.

    The sum of the absolute values of all terms bounds every partial sum in every order.
    """
    sums = _sums_of_magnitudes(problem, inputs)
    limits = _find_limits(problem)
    with np.errstate(divide="ignore"):
        return min(
            limit / np.float64(total.max()) for total, limit in zip(sums, limits, strict=True)
        )


def _find_limits(problem: "Problem") -> list[float]:
    exact = dtype_facts(problem.accumulator).exact_integers
    return [min(exact, dtype_facts(output.dtype).largest) for output in problem.outputs]


def _sums_of_magnitudes(problem: "Problem", inputs: Sequence[Array]) -> list[Array]:
    # In float64 before the absolute value: that of the least int8 is no int8.
    return problem.reference([np.abs(array.astype(np.float64)) for array in inputs])


def bound_storing(exact: Any, error: Any, dtype: str, xp: Any = np) -> Any:
    """How far off what was computed with an error may be once it is rounded to a type.

    `xp` is the module that the arrays belong to: NumPy, or PyTorch.
    """
    out = dtype_facts(dtype)
    return error + (out.unit_roundoff * (xp.abs(exact) + error) + out.underflow)


def round_end(values: Array, dtype: str, sign: int) -> Array:
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
    meaning, acc = problem.kernel.meaning, dtype_facts(problem.accumulator)
    if not acc.is_float or meaning.is_bitwise:
        return [np.zeros(output.shape) for output in problem.outputs]
    constants = {**problem.shape, **problem.options}
    doubles = [np.asarray(x).astype(np.float64) for x in inputs]
    if meaning.error is not None:
        units = {"u": acc.unit_roundoff, "tiny": acc.underflow}
        found = problem.kernel.ask("error", *doubles, **units, **constants)
        return problem.take_results("error", found)
    if problem.is_exact:
        present = [(double != 0).astype(np.float64) for double in doubles]
        pairs = zip(_sums_of_magnitudes(problem, doubles), problem.reference(present), strict=True)
        return [bound_exact(problem, *pair) for pair in pairs]
    rounded = [
        double if place in problem.ranges else Rounded(double, acc)
        for place, double in enumerate(doubles)
    ]
    with np.errstate(invalid="ignore", over="ignore"):
        found = problem.kernel.ask("reference", *rounded, **constants)
        results = [each.closed for each in (found if isinstance(found, tuple) else (found,))]
        errors = [np.broadcast_to(each.error, each.shape) for each in results]
    return [
        np.where(np.isnan(error) & ~np.isnan(each.value), np.inf, error)
        for each, error in zip(results, errors, strict=True)
    ]


def bound_exact(problem: "Problem", magnitudes: Any, terms: Any, xp: Any = np) -> Any:
    """How far off sums, or sums of products, may be before they are stored, in absolute numbers.

    `magnitudes` is the reference of the inputs' absolute values, and `terms` of ones where inputs
    are not 0; `xp` is the module that they belong to: NumPy, or PyTorch. Operands of type tf32 lose
    all but 11 bits, 2^-10 of each at most: tensor cores cut bits off, the vendor's libraries round.
    """
    acc, operands = dtype_facts(problem.accumulator), str(problem.options.get("dtype"))
    if not acc.is_float:
        return xp.zeros_like(magnitudes)
    roundings = terms if problem.multiplies else xp.maximum(terms - 1.0, 0.0 * terms)
    lost = (1 + 2 * dtype_facts("tf32").unit_roundoff * (operands == "tf32")) ** 2 - 1
    rounding = bound_sums(magnitudes, roundings, acc, xp)
    return rounding if lost == 0 else lost * magnitudes + (1 + lost) * rounding
