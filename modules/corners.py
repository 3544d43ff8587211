"""Corner cases: inputs worth having besides random ones, declared with each kernel by name.

Each kind makes rows of a kernel's first input, among random floats, so that few further runs are
needed; all of it where that is one row. A kernel that only moves elements gets random bits, NaNs
and infinities among them, and must return the same.

Which wrong kernels a kind is there for is told by tests/lowering_checks/test_corner_cases.py, which
plants them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.inputs import Array, is_between, lie_between

if TYPE_CHECKING:
    from tirstep.modules.kernel import Problem

FEW = 128
FAR = 2.0**20
"""Beyond float16, and far from the end of bfloat16."""


@dataclass(frozen=True)
class CornerSlot:
    """The source of a corner case.

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

    def put(self, places: Any, numbers: Any, values: Any = 0.0) -> Array:
        """Some values, zeros by default, with other numbers in some places."""
        changed = np.broadcast_to(values, self.row.shape).astype(np.float64)
        changed[places] = numbers
        return changed

    def as_stored(self, values: Any) -> Array:
        return np.asarray(values).astype(self.dtype.numpy).astype(np.float64)

    def choose_columns(self) -> Array:
        """The first, the last, and others by chance: a quarter of all, but few; more of a type of
        so few bits that an error shows in few results only.
        """
        few = FEW if self.dtype.mantissa_bits > 8 else 4 * FEW
        few = min(few, max(self.size // 4, 8), self.size)
        return np.unique([0, self.size - 1, *self.rng.choice(self.size, few, replace=False)])

    def draw_between(self, count: int) -> Array:
        """Numbers of either sign and from 1 to 2 in magnitude, which no narrower type has."""
        signs = self.rng.choice((-1.0, 1.0), count)
        return lie_between(self.rng.uniform(1, 2, count) * signs)


def draw_magnitudes(slot: CornerSlot, least: float, most: float) -> Array:
    """Numbers of either sign, their logarithms spread evenly."""
    sizes = np.exp(slot.rng.uniform(np.log(least), np.log(most), slot.size))
    return np.minimum(sizes, most) * slot.rng.choice((-1.0, 1.0), slot.size)


def draw_few(slot: CornerSlot) -> Array:
    """The maximum at the end, more whose powers are large, and all rounded down in a narrower type,
    and many whose powers are small: each is a result in which an error of the sum may show.
    """
    columns = slot.choose_columns()
    values, count, as_stored = slot.put(columns, 0.0, -np.inf), columns.size, slot.as_stored
    for _ in range(64):
        top = as_stored([0.02])
        large = as_stored(top + slot.rng.uniform(-1.0, 0.0, 1024))
        large = np.resize(large[is_between(np.exp(large - top))], count // 4 + 1)
        small = as_stored(top + slot.rng.uniform(-12.0, -4.0, count))
        others = slot.rng.permutation(np.concatenate([large[1:], small])[: max(count - 2, 0)])
        values[columns] = np.concatenate([large[:1], others, top])[-count:]
        if is_between(np.exp(values[columns] - values[columns].max()).sum()):
            break
    return values


def draw_sparse(slot: CornerSlot) -> Array:
    """Half of the squares all are rounded down in a narrower type."""
    columns = slot.choose_columns()
    drawn = slot.as_stored(np.abs(slot.draw_between(1024)))
    rounded_down = np.resize(drawn[is_between(drawn * drawn)], columns.size // 2)
    chosen = np.concatenate([rounded_down, drawn])[: columns.size]
    return slot.put(columns, slot.rng.permutation(chosen))


def draw_one_largest(slot: CornerSlot) -> Array:
    columns = np.arange(slot.size % 2, max(slot.size // 2, 1), 2)  # by twos from the last, not it
    chosen = slot.rng.choice(columns) if columns.size else 0
    return slot.put(chosen, slot.dtype.smallest / 4, slot.dtype.smallest / 2)


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


def draw_curve(slot: CornerSlot) -> Array:
    curve = (0.0, 1e-5, 0.03, 0.5, 1, 2, 2.5, *range(3, 10), 9.4, 9.6, 10, 11, 20, 300, 5e4, 1e13)
    edges = (slot.dtype.smallest_subnormal, slot.dtype.smallest_normal, slot.dtype.largest)
    values = np.array([*curve, *edges])
    return np.resize(slot.rng.permutation(np.concatenate([values, -values])), slot.size)


def draw_edges(slot: CornerSlot) -> Array:
    facts = slot.dtype
    small = (facts.smallest_subnormal, facts.smallest_normal, 1024 * facts.smallest_normal)
    sizes = np.array([0.0, *small, facts.largest, *([np.inf] if has_infinity(facts) else [])])
    chosen = slot.rng.permutation(slot.size)[: slot.size // 2]
    return slot.put(chosen, np.resize([*sizes, *-sizes], chosen.size), slot.row)


def draw_few_terms(slot: CornerSlot) -> Array:
    first = int(slot.rng.integers(slot.size))
    # Of few bits themselves: two more, in the same part however a row is distributed, and of one
    # sign, as they must not cancel.
    others = np.array([first + 1, first + slot.size // 64 * 32]) % slot.size
    is_narrow = slot.dtype.mantissa_bits < slot.summed_in.mantissa_bits
    small = np.abs(slot.draw_between(2)) / 64 if is_narrow else 0.0
    return slot.put(first, 128 * slot.draw_between(1)[0], slot.put(others, small))


def draw_thinning(slot: CornerSlot) -> Array:
    places = 2 ** np.arange(slot.size.bit_length()) - 1
    places = np.unique(np.append(places[places < slot.size], slot.size - 1))
    spread = np.where(np.arange(places.size) % 2, 1 / 64, 128.0)
    return slot.put(places, slot.draw_between(places.size) * spread)


def draw_infinity(slot: CornerSlot) -> Array:
    is_alone = slot.size < 2 or not has_infinity(slot.dtype)
    return slot.row if is_alone else slot.put(slot.rng.integers(slot.size), np.inf, slot.row)


def has_infinity(facts: DType) -> bool:
    """float8_e4m3fn has none, and NaNs in their place."""
    return bool(np.isinf(np.array(np.inf).astype(facts.numpy).astype(np.float64)))


ONE_PIXEL = "infinite first"
"""The kind of which an input of signals or images has one."""
DRAWS: Mapping[str, Callable[[CornerSlot], Array]] = {
    # Zeros of either sign: what is added to a sum, a bias or what it begins with, stands alone;
    # powers are ones and sum exactly. The first is negative: a maximum in which zeros differ finds
    # another one first.
    "zeros": lambda s: s.put(0, -1.0, s.rng.choice((-1.0, 1.0), s.size)) * 0.0,
    # About 0.003: epsilon is as large as the mean square.
    "small": lambda s: 0.003 * s.row,
    # Numbers in few columns, zeros in the others: a lost term is much of the mean square.
    "sparse": draw_sparse,
    # Whole numbers, 1e3 times their deviation: the mean of squares less the mean's cancels.
    "offset": draw_offset,
    # Up to where squares sum to overflow's edge: they fit float32, and no narrower type.
    "large": lambda s: draw_magnitudes(
        s, 1e-3, min(np.sqrt(dtype_facts("float32").largest / (64 * s.size)), s.dtype.largest)
    ),
    # One value of 2^66: its square overflows, and its variance is 0.
    "equal": lambda s: np.full(s.size, min(2.0**66, 2.0 ** np.floor(np.log2(s.dtype.largest)))),
    # Whole numbers and negatives: mean and variance are exact, so that a lost term shows.
    "balanced": draw_balanced,
    # -inf but for few columns: few errors in a sum, of which a narrower type makes larger ones.
    "few": draw_few,
    # -inf in the first half: sums whose maximum begins at -inf are no numbers there.
    "masked in front": lambda s: np.where(np.arange(s.size) < s.size // 2, -np.inf, s.row),
    # Nothing but -inf, a row all masked: it has no softmax, and the result is NaN.
    "masked": lambda s: np.full(s.size, -np.inf),
    # Zeros but for a large number in the last column: a maximum without it overflows.
    "last is largest": lambda s: s.put(-1, 1000.0),
    # One of the first half, all near the lowest number: whatever a maximum begins at is above it.
    "one is largest": draw_one_largest,
    # Zeros, either tail of the curve out to where it is 0, magnitudes to overflow's edge.
    "along the curve": draw_curve,
    # Zeros of either sign, infinities, subnormal numbers, the largest: every second element.
    "edges": draw_edges,
    # Magnitudes from the smallest to where sums reach overflow's edge.
    "of all magnitudes": lambda s: draw_magnitudes(
        s, max(s.dtype.smallest_subnormal, 1e-300), s.most
    ),
    # Small numbers: nothing is cut off below some constant.
    "of small magnitudes": lambda s: s.row * np.sqrt(s.dtype.smallest_normal),
    # Few numbers among zeros: a sum of no error but theirs, and no number of a narrower type.
    "few terms": draw_few_terms,
    # Zeros but for numbers ever further apart: whatever the window, some sums have one or two.
    "thinning": draw_thinning,
    # An infinity: it stays with the outputs that sum it, where masks by a product make NaNs.
    "infinite": draw_infinity,
    # The same where indices are clamped to.
    ONE_PIXEL: lambda s: s.put(0, np.inf, s.row) if has_infinity(s.dtype) else s.row,
    # Large integers of one sign: their sum wraps around in a narrower type, or is rounded to it.
    "large integers": lambda s: s.rng.integers(
        int(s.dtype.largest) // 2, int(s.dtype.largest), s.size, endpoint=True
    ),
    # Queries whose scores are so far apart that one key takes all: its value is the result, to the
    # bit; and powers overflow unless the maximum comes off first.
    "one key": lambda s: s.row * min(2.0**20, s.dtype.largest / 2),
    # All scores far below 0, of keys that begin with a 1: a maximum that begins at 0 is above them.
    "low scores": lambda s: s.put(0, -4096.0, s.row),
    # The last key takes all, or the first: a maximum without it overflows.
    "last key": lambda s: s.put(np.s_[1:2], 4096.0),
    "first key": lambda s: s.put(np.s_[2:3], 4096.0),
    # Scores of nothing but -inf: the result is NaN.
    "no key": lambda s: s.put(0, -np.inf, s.row),
}
"""Functions of a row, by the case's name; the comment above each says what it is for."""
SUMMED = ("few terms", "infinite", "zeros", "of all magnitudes", "of small magnitudes")
SUMMED_ALONG = (ONE_PIXEL, "thinning", "zeros")
"""Cases for signals and images, where one row is much of the input."""
NORMALIZED = ("zeros", "small", "large", "sparse", "offset")
OF_INTEGERS = ("large integers",)
"""Cases for integers that are summed, instead of those for floats."""
QUERIES = ("one key", "last key", "first key", "low scores", "no key")


def draw_corners(problem: "Problem", seed: int) -> list[tuple[tuple[str, ...], list[Array]]]:
    """Random floats with rows of corner cases among them, as one or more inputs, and the kinds of
    the rows of each first input, "" of random ones; of signals and images, one for all.

    At most every second row of a matrix is one, the last ones first, in as many inputs as it takes
    for every kind to have one. Of an only row nothing else would be left: it is random in the first
    input. So are inputs that have others `beside` corner cases. Signals and images have one kind at
    a time, since a row is much of them. What makes a sum no number, or overflow, is left out.
    """
    inputs, rng = problem.float_inputs(seed), np.random.default_rng([seed, 1])
    meaning, shape = problem.kernel.meaning, problem.inputs[0].shape
    types = dtype_facts(problem.inputs[0].dtype), dtype_facts(problem.accumulator)
    # For sums of products with numbers up to 1, with as much again for rounding.
    narrowest = min(it.largest for it in (*types, dtype_facts(problem.outputs[0].dtype)))
    facts, most = types[0], narrowest / (2 * (problem.terms + 1))
    beside = list(problem.kernel.ask("beside", *inputs, **problem.shape, **problem.options))
    is_marked = any(one is not other for one, other in zip(inputs, beside, strict=True))
    kinds = meaning.corners if facts.is_float else OF_INTEGERS * problem.is_exact
    has_rows, rows, length = len(shape) == 2 or meaning.has_matrices, 1, math.prod(shape[-2:])
    if has_rows or len(shape) < 3:
        rows, length = math.prod(shape[:-1]), shape[-1]
    is_first_random = is_marked or (rows == 1 and has_rows) or not (has_rows or problem.is_exact)
    drawn: list[tuple[tuple[str, ...], list[Array]]] = []
    if is_first_random or not kinds:
        drawn.append((("",), inputs))
    count = max(rows // (1 if is_marked else 2), 1) if has_rows else 1
    for begin in range(0, len(kinds), count):
        first, names = beside[0].copy(), [""] * rows
        slots = first.reshape(-1, length)
        for place, kind in zip(range(rows)[::-1], kinds[begin : begin + count], strict=False):
            before, is_of_one = first.copy(), has_rows or kind == ONE_PIXEL
            for row in slots[place : place + 1] if is_of_one else slots:
                values = DRAWS[kind](CornerSlot(row.astype(np.float64), *types, most, rng))
                finite = np.clip(values, facts.smallest, facts.largest)
                row[:] = np.where(np.isinf(values), values, finite).astype(facts.numpy)
            if problem.is_exact and not _is_summed(problem, [first, *beside[1:]]):
                first[:] = before
            else:
                names[place] = kind
        drawn.append((tuple(names), [first, *beside[1:]]))
    # For sums, the other inputs than the first beyond the range of float16, of types that have no
    # more bits than that: what passes through it shows by nothing else.
    half, far = dtype_facts("float16"), list(inputs)
    others = problem.inputs[1:] if problem.is_exact and most >= FAR else ()
    for place, tensor in enumerate(others, 1):
        own = dtype_facts(tensor.dtype)
        if own.is_float and own.mantissa_bits <= half.mantissa_bits and own.largest > half.largest:
            far[place] = (inputs[place].astype(np.float64) * FAR).astype(own.numpy)
    is_far = any(one is not other for one, other in zip(far, inputs, strict=True))
    return [*drawn, (("",), far)] if is_far else drawn


def _is_summed(problem: "Problem", inputs: list[Array]) -> bool:
    """Whether no sum of the inputs is no number, or of integers overflows."""
    if not dtype_facts(problem.inputs[0].dtype).is_float:
        return problem.measure_sums(inputs).overflow <= 1
    is_finite = bool(np.isfinite(inputs[0].astype(np.float64)).all())
    return is_finite or not bool(np.isnan(problem.reference(inputs)[0]).any())


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
