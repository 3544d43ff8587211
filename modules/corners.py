"""Corner cases: inputs worth having besides random ones, declared with each kernel.

A `Corner` makes one row of a kernel's first input: a row where that is a matrix, all of it
otherwise. Kernels that are no sums of products get inputs of such rows alone, as many rows in one
input as it has. Of the others, whose whole numbers tell most, some rows or elements of the random
floats are corner cases, so that no further run is needed; and a kernel that only moves elements
gets random bits, NaNs and infinities among them, and must return the same.

Which wrong kernels a case is there for is told by tests/lowering_checks/test_corner_cases.py, which
plants them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.numeric import fits, is_between, lie_between

if TYPE_CHECKING:
    from tirstep.modules.kernel import Problem

Array = npt.NDArray[Any]
FEW = 128
FAR = 2.0**20
"""Beyond float16, and far from the end of bfloat16."""


@dataclass(frozen=True)
class CornerSlot:
    """What a corner case is drawn from.

    Attributes
    ----------
    row : random floats in [-1, 1), in float64: as many elements as are wanted
    dtype : of the input
    summed_in : the type of the kernel's accumulator
    most : the magnitude up to which no sum of the kernel can overflow
    rng : whence further chance comes
    """

    row: Array
    dtype: DType
    summed_in: DType
    most: float
    rng: np.random.Generator

    @property
    def size(self) -> int:
        return int(self.row.size)

    def magnitudes(self, least: float, most: float) -> Array:
        """Numbers of either sign, their logarithms spread evenly from `least` to `most`."""
        sizes = np.exp(self.rng.uniform(np.log(least), np.log(most), self.size))
        return np.minimum(sizes, most) * self.signs()

    def signs(self) -> Array:
        return self.rng.choice((-1.0, 1.0), self.size)


@dataclass(frozen=True)
class Corner:
    """One kind of row, its name, and in one line what it is for.

    With `is_of_first`, of signals and images only the first row has it, and the kind before it in
    a kernel's list the others, in the same input.
    """

    name: str
    purpose: str
    draw: Callable[[CornerSlot], Array]
    is_of_first: bool = False


def corner(
    purpose: str, *, is_of_first: bool = False
) -> Callable[[Callable[[CornerSlot], Array]], Corner]:
    """Make a `Corner` of a function of a `CornerSlot`; it is called as the function is."""

    def make(draw: Callable[[CornerSlot], Array]) -> Corner:
        return Corner(draw.__name__.replace("_", " "), purpose, draw, is_of_first)

    return make


def draw_corners(problem: "Problem", seed: int) -> list[tuple[tuple[str, ...], list[Array]]]:
    """Inputs of a problem's corner cases alone, and the names of their rows, which repeat.

    Each kind has a row at least, and as many as there are where the input has more rows than there
    are kinds. The other inputs are random floats, or what the kernel has `beside` corner cases.
    """
    kinds = problem.kernel.meaning.corners
    drawn = []
    for first in range(0, len(kinds), _count_rows(problem)):
        rng = np.random.default_rng([seed, first])
        constants = {**problem.shape, **problem.options}
        inputs = list(problem.kernel.ask("beside", *problem.float_inputs(seed), **constants))
        count = min(len(kinds) - first, _count_rows(problem))
        chosen = kinds[first : first + count]
        facts, rows = _facts(problem), inputs[0].reshape(_count_rows(problem), -1)
        for index, row in enumerate(rows):
            slot = _make_slot(problem, row, rng)
            rows[index] = _store(chosen[index % count].draw(slot), facts)
        drawn.append((tuple(kind.name for kind in chosen), inputs))
    return drawn


def plant_corners(problem: "Problem", inputs: Sequence[Array], seed: int) -> list[list[Array]]:
    """Random floats of a kernel that sums products, with corner cases in them, as one or more
    inputs, so that none is without a place because rows are few (`_find_places`).

    What makes an output no number, or overflows, is left out.
    """
    rng = np.random.default_rng([seed, 1])
    kinds = list(problem.kernel.meaning.corners if _facts(problem).is_float else OF_INTEGERS)
    drawn = []
    for places in _find_places(problem, kinds):
        planted = [array.copy() for array in inputs]
        for place, kind in zip(places, kinds, strict=False):
            _plant(problem, planted, place, kind, rng)
        kinds = kinds[len(places) :]
        drawn.append(planted)
    return drawn + _draw_far(problem, inputs)


def _draw_far(problem: "Problem", inputs: Sequence[Array]) -> list[list[Array]]:
    """The other inputs than the first, beyond the range of float16, of types that have no more bits
    than that: what passes through it shows by nothing else. One list of inputs, or none.
    """
    half = dtype_facts("float16")
    types = [dtype_facts(tensor.dtype) for tensor in problem.inputs]
    are_far = [
        place > 0 and facts.mantissa_bits <= half.mantissa_bits and facts.largest > half.largest
        for place, facts in enumerate(types)
    ]
    are_far = [is_far and facts.is_float for is_far, facts in zip(are_far, types, strict=True)]
    if not any(are_far) or _find_most(problem) < FAR:
        return []
    return [
        [
            (array.astype(np.float64) * FAR).astype(array.dtype) if is_far else array
            for array, is_far in zip(inputs, are_far, strict=True)
        ]
    ]


def _plant(
    problem: "Problem", planted: list[Array], place: Any, kind: Corner, rng: np.random.Generator
) -> None:
    """Put a corner case into the rows of a place, or leave them where an output would be none."""
    facts, before = _facts(problem), planted[0].copy()
    for row in _as_rows(problem, planted[0])[place]:
        row[:] = _store(kind.draw(_make_slot(problem, row, rng)), facts)
    if not facts.is_float:
        is_right = fits(problem, planted)
    elif np.isfinite(planted[0].astype(np.float64)).all():
        is_right = True
    else:
        is_right = not np.isnan(problem.reference(planted)[0]).any()
    if not is_right:
        planted[0] = before


def draw_bits(problem: "Problem", seed: int) -> list[Array]:
    """Random bits for every input, whatever numbers or NaNs they are; of floats, some are zeros of
    either sign, infinities and NaNs, which chance rarely draws.

    All NaNs are the type's usual one: what else its bits may hold, a conversion need not keep.
    """
    rng = np.random.default_rng(seed)
    inputs = []
    for tensor in problem.inputs:
        facts = dtype_facts(tensor.dtype)
        bits = np.dtype(f"u{facts.numpy.itemsize}")
        drawn = rng.integers(0, np.iinfo(bits).max, tensor.shape, dtype=bits, endpoint=True)
        array = drawn.view(facts.numpy)
        if facts.is_float:
            rare = np.array([0.0, -0.0, np.inf, -np.inf, np.nan]).astype(facts.numpy)
            chosen = rng.permutation(array.size)[: -(-array.size // 8)]
            array.flat[chosen] = rng.choice(rare, chosen.size)
            with np.errstate(invalid="ignore"):  # what bits there are: signalling NaNs too
                array[np.isnan(array)] = rare[-1]
        inputs.append(array)
    return inputs


def _find_places(problem: "Problem", kinds: Sequence[Corner]) -> list[list[slice]]:
    """The rows of the first input that corner cases may take, for each input that is drawn.

    Of a matrix at most every second row, the last ones first, in as many inputs as it takes for
    every kind to have one. Of an only row nothing else would be left: it is none in the first
    input. Signals and images have one kind at a time, since a row is much of them, and at most
    another in the first row.
    """
    if not _has_rows(problem):
        places: list[list[slice]] = [[]]
        for kind in kinds:
            if not kind.is_of_first and places[-1]:
                places.append([])
            places[-1].append(np.s_[:1] if kind.is_of_first else np.s_[:])
        return places
    rows = math.prod(problem.inputs[0].shape[:-1])
    if rows == 1:
        return [[], *([[np.s_[:]]] * len(kinds))]
    alone = [np.s_[row : row + 1] for row in range(rows - 1, rows - 1 - rows // 2, -1)]
    return [alone] * max(-(-len(kinds) // len(alone)), 1)


def _has_rows(problem: "Problem") -> bool:
    """Whether the first input is a matrix, or several, whose rows are summed one by one."""
    return len(problem.inputs[0].shape) == 2 or problem.kernel.meaning.has_matrices


def _as_rows(problem: "Problem", array: Array) -> Array:
    """Rows of matrices, whole signals, images: a view."""
    if array.ndim > 2 and not _has_rows(problem):
        return array.reshape(-1, array.shape[-2] * array.shape[-1])
    return array.reshape(-1, array.shape[-1])


def _count_rows(problem: "Problem") -> int:
    *rows, _ = problem.inputs[0].shape
    return math.prod(rows) if _has_rows(problem) else next(iter(rows), 1)


def _make_slot(problem: "Problem", row: Array, rng: np.random.Generator) -> CornerSlot:
    summed_in = dtype_facts(problem.accumulator)
    return CornerSlot(row.astype(np.float64), _facts(problem), summed_in, _find_most(problem), rng)


def _facts(problem: "Problem") -> DType:
    return dtype_facts(problem.inputs[0].dtype)


def _find_most(problem: "Problem") -> float:
    """For sums of products with numbers up to 1, with as much again for rounding."""
    types = (problem.inputs[0].dtype, problem.accumulator, problem.outputs[0].dtype)
    largest = min(dtype_facts(name).largest for name in types)
    return largest / (2 * (problem.terms + 1))


def _store(values: Array, facts: DType) -> Array:
    """As the type has them; what is beyond its range, infinities apart, as its largest number."""
    finite = np.clip(values, facts.smallest, facts.largest)
    return np.where(np.isinf(values), values, finite).astype(facts.numpy)


# Of rows, for softmax and the normalizations.


@corner("zeros of either sign: a mean square of 0, and powers that are ones and sum exactly")
def zeros(slot: CornerSlot) -> Array:
    return slot.signs() * 0.0


@corner("-inf but for few columns: a sum of few errors, of which a narrower type makes larger ones")
def few(slot: CornerSlot) -> Array:
    values = np.full(slot.size, -np.inf)
    columns = _choose_columns(slot)
    for _ in range(64):
        values[columns] = _draw_few(slot, columns.size)
        if is_between(np.exp(values[columns] - values[columns].max()).sum()):
            break
    return values


def _draw_few(slot: CornerSlot, count: int) -> Array:
    """The maximum at the end, more whose powers are large, and all rounded down in a narrower type,
    and many whose powers are small: each is a result in which an error of the sum may show.
    """
    top = _as_stored(slot, np.array([0.02]))
    large = _as_stored(slot, top + slot.rng.uniform(-1.0, 0.0, 1024))
    large = np.resize(large[is_between(np.exp(large - top))], count // 4 + 1)
    small = _as_stored(slot, top + slot.rng.uniform(-12.0, -4.0, count))
    others = slot.rng.permutation(np.concatenate([large[1:], small])[: max(count - 2, 0)])
    return np.concatenate([large[:1], others, top])[-count:]


def _as_stored(slot: CornerSlot, values: Array) -> Array:
    return values.astype(slot.dtype.numpy).astype(np.float64)


@corner("an offset far below 0: what begins at 0, or at -10000, wins the maximum; powers vanish")
def low(slot: CornerSlot) -> Array:
    return slot.row - (2.0**19 if slot.dtype.largest > 2.0**20 else 1000)


@corner("up to overflow's edge in both signs: powers overflow unless the maximum comes off first")
def high(slot: CornerSlot) -> Array:
    values = slot.magnitudes(1.0, slot.dtype.largest)
    values[slot.rng.integers(slot.size)] = slot.dtype.largest
    return values


@corner("the first half is -inf, a mask: sums whose maximum begins at -inf are no numbers there")
def masked_in_front(slot: CornerSlot) -> Array:
    return np.where(np.arange(slot.size) < slot.size // 2, -np.inf, slot.row)


@corner("nothing but -inf, a row all masked: it has no softmax, and the result is NaN")
def masked(slot: CornerSlot) -> Array:
    return np.full(slot.size, -np.inf)


@corner("zeros but for a large number in the last column: a maximum without it overflows")
def last_is_largest(slot: CornerSlot) -> Array:
    values = np.zeros(slot.size)
    values[-1] = 1000.0
    return values


@corner("zeros but for a large number in the first column")
def first_is_largest(slot: CornerSlot) -> Array:
    values = np.zeros(slot.size)
    values[0] = 1000.0
    return values


@corner("the same in the first half, all near the lowest number: a maximum of -1e30 is above it")
def one_is_largest(slot: CornerSlot) -> Array:
    values = np.full(slot.size, slot.dtype.smallest / 2)
    columns = np.arange(slot.size % 2, max(slot.size // 2, 1), 2)  # by twos from the last, not it
    values[slot.rng.choice(columns) if columns.size else 0] = slot.dtype.smallest / 4
    return values


@corner("subnormal numbers: they count as zeros or as themselves, and nothing divides by them")
def subnormal(slot: CornerSlot) -> Array:
    return slot.row * slot.dtype.smallest_normal


@corner("numbers in few columns, zeros in the others: a lost term is much of the mean square")
def sparse(slot: CornerSlot) -> Array:
    values = np.zeros(slot.size)
    columns = _choose_columns(slot)
    drawn = _as_stored(slot, np.abs(_draw_between(slot, 1024)))
    # Half of the squares all are rounded down in a narrower type.
    rounded_down = np.resize(drawn[is_between(drawn * drawn)], columns.size // 2)
    chosen = np.concatenate([rounded_down, drawn])[: columns.size]
    values[columns] = slot.rng.permutation(chosen)
    return values


@corner("about 0.003: epsilon is as large as the mean square")
def small(slot: CornerSlot) -> Array:
    return 0.003 * slot.row


@corner("up to where squares sum to overflow's edge: they fit float32, and no narrower type")
def large(slot: CornerSlot) -> Array:
    most = np.sqrt(dtype_facts("float32").largest / (64 * slot.size))
    return slot.magnitudes(1e-3, min(most, slot.dtype.largest))


@corner("all about 1000: an offset of many times the deviation")
def high_offset(slot: CornerSlot) -> Array:
    return slot.row + 1000


@corner("whole numbers, 1e3 times their deviation: the mean of squares less the mean's cancels")
def offset(slot: CornerSlot) -> Array:
    exact = slot.dtype.exact_integers // 2 + 3  # of which neighbours are whole numbers too
    by_sum = 2**23 // slot.size
    base = max(min(4099, exact, by_sum), 1)
    return base + slot.rng.integers(0, 2, slot.size)


@corner("one value of 2^66: its square overflows, and its variance is 0")
def equal(slot: CornerSlot) -> Array:
    return np.full(slot.size, min(2.0**66, 2.0 ** np.floor(np.log2(slot.dtype.largest))))


@corner(
    "whole numbers with their negatives: mean and variance are exact, so that a lost term shows"
)
def balanced(slot: CornerSlot) -> Array:
    # As large as the squares sum exactly with; one of more bits than float16 has is much of them.
    most = max(int(min(np.sqrt(2**22 / slot.size), slot.dtype.exact_integers)), 4)
    wide = min(2507, slot.dtype.exact_integers - 1)
    three = np.array([wide, -(wide // 2), wide // 2 - wide])[: slot.size // 3 * 3]
    count = (slot.size - three.size) // 2
    half = slot.rng.integers(most // 2, most, count, endpoint=True).astype(np.float64)
    zeros = np.zeros(slot.size - three.size - 2 * count)
    return slot.rng.permutation(np.concatenate([three, half, -half, zeros]))


def _choose_columns(slot: CornerSlot) -> Array:
    """The first, the last, and others by chance: a quarter of all, but few.

    More of a type of so few bits that an error shows in few results only.
    """
    few = FEW if slot.dtype.mantissa_bits > 8 else 2 * FEW
    count = min(few, max(slot.size // 4, 1))
    chosen = slot.rng.choice(slot.size, count, replace=False)
    return np.unique(np.concatenate([[0, slot.size - 1], chosen]))


# Of vectors, for functions of single elements.

_GELU = (0.0, 1e-5, 0.03, 0.5, 1, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 9.4, 9.6, 10, 11, 20, 300, 5e4, 1e13)


@corner("zeros, either tail of the curve out to where it is 0, and magnitudes to overflow's edge")
def along_the_curve(slot: CornerSlot) -> Array:
    edges = (slot.dtype.smallest_subnormal, slot.dtype.smallest_normal, slot.dtype.largest)
    values = np.array([*_GELU, *edges])
    return np.resize(slot.rng.permutation(np.concatenate([values, -values])), slot.size)


@corner("zeros of either sign, infinities, subnormal numbers, the largest: every second element")
def edges(slot: CornerSlot) -> Array:
    facts = slot.dtype
    small = (facts.smallest_subnormal, facts.smallest_normal, 1024 * facts.smallest_normal)
    sizes = (0.0, *small, facts.largest, *([np.inf] if _has_infinity(facts) else []))
    values = np.array([*sizes, *(-size for size in sizes)])
    chosen = slot.rng.permutation(slot.size)[: slot.size // 2]
    mixed = slot.row.copy()
    mixed[chosen] = np.resize(values, chosen.size)
    return mixed


# Of rows and vectors that are summed.


@corner("an infinity: it stays with the outputs that sum it, where masks by a product make NaNs")
def infinite(slot: CornerSlot) -> Array:
    values = slot.row.copy()
    if slot.size > 1 and _has_infinity(slot.dtype):
        values[slot.rng.integers(slot.size)] = np.inf
    return values


@corner("few numbers among zeros: a sum of no error but theirs, and no number of a narrower type")
def few_terms(slot: CornerSlot) -> Array:
    values = np.zeros(slot.size)
    first = int(slot.rng.integers(slot.size))
    if slot.dtype.mantissa_bits < slot.summed_in.mantissa_bits:
        # Of few bits itself: with two more, in the same part however a row is distributed.
        others = np.array([first + 1, first + slot.size // 64 * 32]) % slot.size
        values[others] = np.abs(_draw_between(slot, 2)) / 64  # of one sign: they must not cancel
    values[first] = 128 * _draw_between(slot, 1)[0]
    return values


@corner(
    "one number among zeros: sums all along the curve of what is made of them, out to its tails"
)
def one_term(slot: CornerSlot) -> Array:
    values = np.zeros(slot.size)
    values[slot.rng.integers(slot.size)] = slot.magnitudes(0.5, 32.0)[0]
    return values


@corner("nothing but zeros: what is added to a sum, a bias, stands alone")
def nothing(slot: CornerSlot) -> Array:
    return np.zeros(slot.size)


@corner("magnitudes from the smallest to where sums reach overflow's edge")
def of_all_magnitudes(slot: CornerSlot) -> Array:
    return slot.magnitudes(max(slot.dtype.smallest_subnormal, 1e-300), slot.most)


@corner("small numbers: nothing is cut off below some constant")
def of_small_magnitudes(slot: CornerSlot) -> Array:
    return slot.row * np.sqrt(slot.dtype.smallest_normal)


@corner("an infinity where indices are clamped to: a mask by a product or a difference is a NaN")
def infinite_first(slot: CornerSlot) -> Array:
    values = slot.row.copy()
    if slot.size > 1 and _has_infinity(slot.dtype):
        values[0] = np.inf
    return values


@corner("an infinity in the first pixel: what has a finite number for it", is_of_first=True)
def infinite_pixel(slot: CornerSlot) -> Array:
    values = slot.row.copy()
    if _has_infinity(slot.dtype):
        values[0] = np.inf
    return values


@corner("zeros but for numbers ever further apart: whatever the window, some sums have one or two")
def thinning(slot: CornerSlot) -> Array:
    values = np.zeros(slot.size)
    places = 2 ** np.arange(slot.size.bit_length()) - 1
    places = np.unique(np.append(places[places < slot.size], slot.size - 1))
    spread = np.where(np.arange(places.size) % 2, 1 / 64, 128.0)
    values[places] = _draw_between(slot, places.size) * spread
    return values


@corner(
    "large integers of one sign: their sum wraps around in a narrower type, or is rounded to it"
)
def large_integers(slot: CornerSlot) -> Array:
    most = int(slot.dtype.largest)
    return slot.rng.integers(most // 2, most, slot.size, endpoint=True).astype(np.float64)


def _draw_between(slot: CornerSlot, count: int) -> Array:
    """Numbers of either sign and from 1 to 2 in magnitude, which no narrower type has."""
    return lie_between(slot.rng.uniform(1, 2, count) * slot.rng.choice((-1.0, 1.0), count))


def _has_infinity(facts: DType) -> bool:
    """float8_e4m3fn has none, and NaNs in their place."""
    return bool(np.isinf(np.array(np.inf).astype(facts.numpy).astype(np.float64)))


SUMMED = (few_terms, infinite, of_all_magnitudes, of_small_magnitudes)
SUMMED_WITH_BIAS = (few_terms, infinite, nothing, of_all_magnitudes, of_small_magnitudes)
SUMMED_ALONG = (infinite_first, thinning)
"""Of signals and images, where one row is much of the input."""
OF_INTEGERS = (large_integers,)
"""Of integers that are summed, in the place of those."""


# Of queries of attention. Components of the keys are marks: 1 of all keys, of those in front, of
# the last, of the first (`_mark_keys` in attention.py); 0 of the others.

ALL, FRONT, LAST, FIRST = range(4)


def _add(values: Array, component: int, offset: float) -> Array:
    """Move the scores of the keys that have a mark, where the query has that component."""
    if component < values.size:
        values[component] += offset
    return values


@corner("all scores far below 0: a maximum that begins at 0 is above them, and powers vanish")
def low_scores(slot: CornerSlot) -> Array:
    return _add(slot.row.copy(), ALL, -4096.0)


@corner("scores spread far to both sides: powers overflow unless the maximum comes off first")
def spread_scores(slot: CornerSlot) -> Array:
    return slot.row * 512


@corner("scores so far apart that one key takes all: its value is the result, to the bit")
def one_key(slot: CornerSlot) -> Array:
    return slot.row * min(2.0**20, slot.dtype.largest / 2)


@corner("the last key takes all: a maximum without it overflows")
def last_key(slot: CornerSlot) -> Array:
    return _add(np.zeros(slot.size), LAST, 4096.0)


@corner("the first key takes all")
def first_key(slot: CornerSlot) -> Array:
    return _add(np.zeros(slot.size), FIRST, 4096.0)


@corner("keys in front score less, so that the maximum grows: what was summed is rescaled")
def front_vanishes(slot: CornerSlot) -> Array:
    return _add(slot.row.copy(), FRONT, -8.0)


@corner("keys in front score more: a maximum that begins again behind them lacks theirs")
def back_vanishes(slot: CornerSlot) -> Array:
    return _add(slot.row.copy(), FRONT, 8.0)


@corner("scores of nothing but -inf, a row all masked: it has no softmax, and the result is NaN")
def no_key(slot: CornerSlot) -> Array:
    return _add(slot.row.copy(), ALL, -np.inf)
