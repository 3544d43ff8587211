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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.inputs import is_between, lie_between

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
    """One kind of row.

    With `is_of_first`, of signals and images only the first row has it, and the kind before it in
    a kernel's list the others, in the same input.
    """

    name: str
    draw: Callable[[CornerSlot], Array]
    is_of_first: bool = False


def pick(*names: str) -> tuple[Corner, ...]:
    """Corner cases of the table, by name."""
    return tuple(Corner(name, DRAWS[name], name == "infinite pixel") for name in names)


def draw_corners(problem: "Problem", seed: int) -> list[tuple[tuple[str, ...], list[Array]]]:
    """Inputs of a problem's corner cases alone, and the names of their rows, which repeat.

    Each kind has a row at least, and as many as there are where the input has more rows than there
    are kinds. The other inputs are random floats, or what the kernel has `beside` corner cases.
    """
    kinds, drawn = problem.kernel.meaning.corners, []
    *rows, _ = problem.inputs[0].shape
    height = math.prod(rows) if _has_rows(problem) else next(iter(rows), 1)
    for first in range(0, len(kinds), height):
        rng = np.random.default_rng([seed, first])
        constants = {**problem.shape, **problem.options}
        inputs = list(problem.kernel.ask("beside", *problem.float_inputs(seed), **constants))
        chosen, slots = kinds[first : first + height], inputs[0].reshape(height, -1)
        for index, row in enumerate(slots):
            slots[index] = _draw(problem, chosen[index % len(chosen)], row, rng)
        drawn.append((tuple(kind.name for kind in chosen), inputs))
    return drawn


def plant_corners(problem: "Problem", inputs: Sequence[Array], seed: int) -> list[list[Array]]:
    """Random floats of a kernel that sums products, with corner cases in them, as one or more
    inputs, so that none is without a place because rows are few.

    What makes an output no number, or overflows, is left out.
    """
    rng, facts = np.random.default_rng([seed, 1]), dtype_facts(problem.inputs[0].dtype)
    kinds, drawn = list(problem.kernel.meaning.corners if facts.is_float else OF_INTEGERS), []
    # The rows of the first input that corner cases may take, for each input that is drawn. Of a
    # matrix at most every second row, the last ones first, in as many inputs as it takes for every
    # kind to have one. Of an only row nothing else would be left: it is none in the first input.
    # Signals and images have one kind at a time, since a row is much of them, and at most another
    # in the first row.
    rows, shape = math.prod(problem.inputs[0].shape[:-1]), problem.inputs[0].shape
    places: list[list[slice]] = [[]]
    if not _has_rows(problem):
        for kind in kinds:
            if not kind.is_of_first and places[-1]:
                places.append([])
            places[-1].append(np.s_[:1] if kind.is_of_first else np.s_[:])
    elif rows == 1:
        places += [[np.s_[:]]] * len(kinds)
    else:
        alone = [np.s_[row : row + 1] for row in range(rows - 1, rows - 1 - rows // 2, -1)]
        places = [alone] * max(-(-len(kinds) // len(alone)), 1)
    is_flat = len(shape) > 2 and not _has_rows(problem)
    length = math.prod(shape[-2:]) if is_flat else shape[-1]  # of images whole ones
    for free in places:
        planted = [array.copy() for array in inputs]
        for place, kind in zip(free, kinds, strict=False):
            before = planted[0].copy()
            for row in planted[0].reshape(-1, length)[place]:
                row[:] = _draw(problem, kind, row, rng)
            if not facts.is_float:
                is_right = problem.measure_sums(planted).overflow <= 1
            else:
                is_finite = bool(np.isfinite(planted[0].astype(np.float64)).all())
                is_right = is_finite or not bool(np.isnan(problem.reference(planted)[0]).any())
            if not is_right:
                planted[0] = before
        kinds = kinds[len(free) :]
        drawn.append(planted)
    # The other inputs than the first, beyond the range of float16, of types that have no more bits
    # than that: what passes through it shows by nothing else.
    half = dtype_facts("float16")
    types = [dtype_facts(tensor.dtype) for tensor in problem.inputs]
    are_far = [
        place > 0
        and each.is_float
        and each.mantissa_bits <= half.mantissa_bits
        and each.largest > half.largest
        for place, each in enumerate(types)
    ]
    if any(are_far) and _find_most(problem) >= FAR:
        drawn.append(
            [
                (array.astype(np.float64) * FAR).astype(array.dtype) if is_far else array
                for array, is_far in zip(inputs, are_far, strict=True)
            ]
        )
    return drawn


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


def _has_rows(problem: "Problem") -> bool:
    """Whether the first input is a matrix, or several, whose rows are summed one by one."""
    return len(problem.inputs[0].shape) == 2 or problem.kernel.meaning.has_matrices


def _find_most(problem: "Problem") -> float:
    """For sums of products with numbers up to 1, with as much again for rounding."""
    types = (problem.inputs[0].dtype, problem.accumulator, problem.outputs[0].dtype)
    largest = min(dtype_facts(name).largest for name in types)
    return largest / (2 * (problem.terms + 1))


def _draw(problem: "Problem", kind: Corner, row: Array, rng: np.random.Generator) -> Array:
    """A row of a kind, as the type has it; what is beyond its range, infinities apart, as its
    largest number.
    """
    facts, summed_in = (dtype_facts(it) for it in (problem.inputs[0].dtype, problem.accumulator))
    slot = CornerSlot(row.astype(np.float64), facts, summed_in, _find_most(problem), rng)
    values = kind.draw(slot)
    finite = np.clip(values, facts.smallest, facts.largest)
    return np.where(np.isinf(values), values, finite).astype(facts.numpy)


# What takes more than a line of the table.


def draw_few(slot: CornerSlot) -> Array:
    """The maximum at the end, more whose powers are large, and all rounded down in a narrower type,
    and many whose powers are small: each is a result in which an error of the sum may show.
    """
    values, columns = np.full(slot.size, -np.inf), _choose_columns(slot)
    count = columns.size
    for _ in range(64):
        top = _as_stored(slot, np.array([0.02]))
        large = _as_stored(slot, top + slot.rng.uniform(-1.0, 0.0, 1024))
        large = np.resize(large[is_between(np.exp(large - top))], count // 4 + 1)
        small = _as_stored(slot, top + slot.rng.uniform(-12.0, -4.0, count))
        others = slot.rng.permutation(np.concatenate([large[1:], small])[: max(count - 2, 0)])
        values[columns] = np.concatenate([large[:1], others, top])[-count:]
        if is_between(np.exp(values[columns] - values[columns].max()).sum()):
            break
    return values


def draw_sparse(slot: CornerSlot) -> Array:
    """Half of the squares all are rounded down in a narrower type."""
    columns = _choose_columns(slot)
    drawn = _as_stored(slot, np.abs(_draw_between(slot, 1024)))
    rounded_down = np.resize(drawn[is_between(drawn * drawn)], columns.size // 2)
    chosen = np.concatenate([rounded_down, drawn])[: columns.size]
    return _put(np.zeros(slot.size), columns, slot.rng.permutation(chosen))


def draw_offset(slot: CornerSlot) -> Array:
    exact = slot.dtype.exact_integers // 2 + 3  # of which neighbours are whole numbers too
    base = max(min(4099, exact, 2**23 // slot.size), 1)
    return base + slot.rng.integers(0, 2, slot.size)


def draw_balanced(slot: CornerSlot) -> Array:
    """As large as the squares sum exactly with; one of more bits than float16 is much of them."""
    most = max(int(min(np.sqrt(2**22 / slot.size), slot.dtype.exact_integers)), 4)
    wide = min(2507, slot.dtype.exact_integers - 1)
    three = np.array([wide, -(wide // 2), wide // 2 - wide])[: slot.size // 3 * 3]
    count = (slot.size - three.size) // 2
    half = slot.rng.integers(most // 2, most, count, endpoint=True).astype(np.float64)
    zeros = np.zeros(slot.size - three.size - 2 * count)
    return slot.rng.permutation(np.concatenate([three, half, -half, zeros]))


def draw_one_largest(slot: CornerSlot) -> Array:
    columns = np.arange(slot.size % 2, max(slot.size // 2, 1), 2)  # by twos from the last, not it
    chosen = slot.rng.choice(columns) if columns.size else 0
    return _put(np.full(slot.size, slot.dtype.smallest / 2), chosen, slot.dtype.smallest / 4)


def draw_curve(slot: CornerSlot) -> Array:
    curve = (0.0, 1e-5, 0.03, 0.5, 1, 2, 2.5, *range(3, 10), 9.4, 9.6, 10, 11, 20, 300, 5e4, 1e13)
    edges = (slot.dtype.smallest_subnormal, slot.dtype.smallest_normal, slot.dtype.largest)
    values = np.array([*curve, *edges])
    return np.resize(slot.rng.permutation(np.concatenate([values, -values])), slot.size)


def draw_edges(slot: CornerSlot) -> Array:
    facts = slot.dtype
    small = (facts.smallest_subnormal, facts.smallest_normal, 1024 * facts.smallest_normal)
    sizes = (0.0, *small, facts.largest, *([np.inf] if _has_infinity(facts) else []))
    values = np.array([*sizes, *(-size for size in sizes)])
    chosen = slot.rng.permutation(slot.size)[: slot.size // 2]
    return _put(slot.row.copy(), chosen, np.resize(values, chosen.size))


def draw_few_terms(slot: CornerSlot) -> Array:
    values, first = np.zeros(slot.size), int(slot.rng.integers(slot.size))
    if slot.dtype.mantissa_bits < slot.summed_in.mantissa_bits:
        # Of few bits itself: with two more, in the same part however a row is distributed.
        others = np.array([first + 1, first + slot.size // 64 * 32]) % slot.size
        values[others] = np.abs(_draw_between(slot, 2)) / 64  # of one sign: they must not cancel
    return _put(values, first, 128 * _draw_between(slot, 1)[0])


def draw_thinning(slot: CornerSlot) -> Array:
    places = 2 ** np.arange(slot.size.bit_length()) - 1
    places = np.unique(np.append(places[places < slot.size], slot.size - 1))
    spread = np.where(np.arange(places.size) % 2, 1 / 64, 128.0)
    return _put(np.zeros(slot.size), places, _draw_between(slot, places.size) * spread)


def plant_infinity(slot: CornerSlot, place: int | None = None, least: int = 2) -> Array:
    """At a place, or anywhere, of `least` elements or more; not in a type without."""
    if slot.size < least or not _has_infinity(slot.dtype):
        return slot.row.copy()
    return _put(slot.row.copy(), slot.rng.integers(slot.size) if place is None else place, np.inf)


def draw_zeros(slot: CornerSlot) -> Array:
    """The first is negative: a maximum in which zeros differ finds another one first."""
    return _put(slot.signs(), 0, -1.0) * 0.0


def _choose_columns(slot: CornerSlot) -> Array:
    """The first, the last, and others by chance: a quarter of all, but few.

    More of a type of so few bits that an error shows in few results only.
    """
    few = FEW if slot.dtype.mantissa_bits > 8 else 2 * FEW
    count = min(few, max(slot.size // 4, 1))
    chosen = slot.rng.choice(slot.size, count, replace=False)
    return np.unique(np.concatenate([[0, slot.size - 1], chosen]))


def _draw_between(slot: CornerSlot, count: int) -> Array:
    """Numbers of either sign and from 1 to 2 in magnitude, which no narrower type has."""
    return lie_between(slot.rng.uniform(1, 2, count) * slot.rng.choice((-1.0, 1.0), count))


def _put(values: Array, places: Any, numbers: Any) -> Array:
    """The values with others in some places."""
    values[places] = numbers
    return values


def _move(values: Array, component: int, offset: float) -> Array:
    """Move the scores of the keys that have a mark, where the query has that component."""
    if component < values.size:
        values[component] += offset
    return values


def _as_stored(slot: CornerSlot, values: Array) -> Array:
    return values.astype(slot.dtype.numpy).astype(np.float64)


def _has_infinity(facts: DType) -> bool:
    """float8_e4m3fn has none, and NaNs in their place."""
    return bool(np.isinf(np.array(np.inf).astype(facts.numpy).astype(np.float64)))


# Components of the keys of attention are marks: 1 of all keys, of those in front, of the last, of
# the first (`_mark_keys` in attention.py); 0 of the others.
ALL, FRONT, LAST, FIRST = range(4)

DRAWS: Mapping[str, Callable[[CornerSlot], Array]] = {
    # -- Of rows, for softmax and the normalizations
    # Zeros of either sign: a mean square of 0, and powers that are ones and sum exactly.
    "zeros": draw_zeros,
    # -inf but for few columns: few errors in a sum, of which a narrower type makes larger ones.
    "few": draw_few,
    # An offset far below 0: what begins at 0, or at -10000, wins the maximum; powers vanish.
    "low": lambda s: s.row - (2.0**19 if s.dtype.largest > 2.0**20 else 1000),
    # Up to overflow's edge: powers overflow unless the maximum comes off first.
    "high": lambda s: _put(
        s.magnitudes(1.0, s.dtype.largest), s.rng.integers(s.size), s.dtype.largest
    ),
    # The first half is -inf: sums whose maximum begins at -inf are no numbers there.
    "masked in front": lambda s: np.where(np.arange(s.size) < s.size // 2, -np.inf, s.row),
    # Nothing but -inf, a row all masked: it has no softmax, and the result is NaN.
    "masked": lambda s: np.full(s.size, -np.inf),
    # Zeros but for a large number in the last column: a maximum without it overflows.
    "last is largest": lambda s: _put(np.zeros(s.size), -1, 1000.0),
    # Zeros but for a large number in the first column.
    "first is largest": lambda s: _put(np.zeros(s.size), 0, 1000.0),
    # One of the first half, all near the lowest number: a maximum of -1e30 is above it.
    "one is largest": draw_one_largest,
    # Subnormal numbers: they count as zeros or as themselves, and nothing divides by them.
    "subnormal": lambda s: s.row * s.dtype.smallest_normal,
    # Numbers in few columns, zeros in the others: a lost term is much of the mean square.
    "sparse": draw_sparse,
    # About 0.003: epsilon is as large as the mean square.
    "small": lambda s: 0.003 * s.row,
    # Up to where squares sum to overflow's edge: they fit float32, and no narrower type.
    "large": lambda s: s.magnitudes(
        1e-3, min(np.sqrt(dtype_facts("float32").largest / (64 * s.size)), s.dtype.largest)
    ),
    # All about 1000: an offset of many times the deviation.
    "high offset": lambda s: s.row + 1000,
    # Whole numbers, 1e3 times their deviation: the mean of squares less the mean's cancels.
    "offset": draw_offset,
    # One value of 2^66: its square overflows, and its variance is 0.
    "equal": lambda s: np.full(s.size, min(2.0**66, 2.0 ** np.floor(np.log2(s.dtype.largest)))),
    # Whole numbers and negatives: mean and variance are exact, so that a lost term shows.
    "balanced": draw_balanced,
    # -- Of vectors, for functions of single elements
    # Zeros, either tail of the curve out to where it is 0, magnitudes to overflow's edge.
    "along the curve": draw_curve,
    # Zeros of either sign, infinities, subnormal numbers, the largest: every second element.
    "edges": draw_edges,
    # -- Of rows and vectors that are summed
    # An infinity: it stays with the outputs that sum it, where masks by a product make NaNs.
    "infinite": plant_infinity,
    # Few numbers among zeros: a sum of no error but theirs, and no number of a narrower type.
    "few terms": draw_few_terms,
    # One number among zeros: sums all along the curve of what is made of them, out to its tails.
    "one term": lambda s: _put(
        np.zeros(s.size), numbers=s.magnitudes(0.5, 32.0)[0], places=s.rng.integers(s.size)
    ),
    # Nothing but zeros: what is added to a sum, a bias or what it begins with, stands alone.
    "nothing": lambda s: np.zeros(s.size),
    # Magnitudes from the smallest to where sums reach overflow's edge.
    "of all magnitudes": lambda s: s.magnitudes(max(s.dtype.smallest_subnormal, 1e-300), s.most),
    # Small numbers: nothing is cut off below some constant.
    "of small magnitudes": lambda s: s.row * np.sqrt(s.dtype.smallest_normal),
    # An infinity where indices are clamped to: a mask by a product or a difference is a NaN.
    "infinite first": lambda s: plant_infinity(s, 0),
    # An infinity in the first pixel: what has a finite number for it.
    "infinite pixel": lambda s: plant_infinity(s, 0, least=1),
    # Zeros but for numbers ever further apart: whatever the window, some sums have one or two.
    "thinning": draw_thinning,
    # Large integers of one sign: their sum wraps around in a narrower type, or is rounded to it.
    "large integers": lambda s: s.rng.integers(
        int(s.dtype.largest) // 2, int(s.dtype.largest), s.size, endpoint=True
    ).astype(np.float64),
    # -- Of queries of attention
    # All scores far below 0: a maximum that begins at 0 is above them, and powers vanish.
    "low scores": lambda s: _move(s.row.copy(), ALL, -4096.0),
    # Scores spread far to both sides: powers overflow unless the maximum comes off first.
    "spread scores": lambda s: s.row * 512,
    # Scores so far apart that one key takes all: its value is the result, to the bit.
    "one key": lambda s: s.row * min(2.0**20, s.dtype.largest / 2),
    # The last key takes all: a maximum without it overflows.
    "last key": lambda s: _move(np.zeros(s.size), LAST, 4096.0),
    # The first key takes all.
    "first key": lambda s: _move(np.zeros(s.size), FIRST, 4096.0),
    # Keys in front score less, so that the maximum grows: what was summed is rescaled.
    "front vanishes": lambda s: _move(s.row.copy(), FRONT, -8.0),
    # Keys in front score more: a maximum that begins again behind them lacks theirs.
    "back vanishes": lambda s: _move(s.row.copy(), FRONT, 8.0),
    # Scores of nothing but -inf, a row all masked: it has no softmax, and the result is NaN.
    "no key": lambda s: _move(s.row.copy(), ALL, -np.inf),
}
"""What each makes of a row, by name; and above it, what it is there for."""
SUMMED = pick("few terms", "infinite", "nothing", "of all magnitudes", "of small magnitudes")
SUMMED_ALONG = pick("infinite first", "thinning", "nothing")
"""Of signals and images, where one row is much of the input."""
OF_INTEGERS = pick("large integers")
"""Of integers that are summed, in the place of those."""
