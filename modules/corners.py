"""Corner cases: inputs worth having besides random ones, declared with each kernel.

A `Corner` makes one row of a kernel's first input: a row where that is a matrix, all of it
otherwise. Kernels that are no sums of products get inputs of such rows alone, as many rows in one
input as it has. Of the others, whose whole numbers tell most, some rows or elements of the random
floats are corner cases, so that no further run is needed; and a kernel that only moves elements
gets random bits, NaNs and infinities among them, and must return the same.

Which wrong kernels a case is there for is told by tests/lowering_checks/test_corner_cases.py, which
plants them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tirstep.modules.dtypes import DType, dtype_facts

if TYPE_CHECKING:
    from tirstep.modules.kernel import Problem

Array = npt.NDArray[Any]
FEW = 32


@dataclass(frozen=True)
class Slot:
    """What a corner case is drawn from.

    Attributes
    ----------
    row : random floats in [-1, 1), in float64: as many elements as are wanted
    dtype : of the input
    most : the magnitude up to which no sum of the kernel can overflow
    rng : whence further chance comes
    """

    row: Array
    dtype: DType
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
    """One kind of row, its name, and in one line what it is for."""

    name: str
    purpose: str
    draw: Callable[[Slot], Array]


def corner(purpose: str) -> Callable[[Callable[[Slot], Array]], Corner]:
    """Make a `Corner` of a function of a `Slot`; it is called as the function is."""

    def make(draw: Callable[[Slot], Array]) -> Corner:
        return Corner(draw.__name__.replace("_", " "), purpose, draw)

    return make


def draw_corners(problem: "Problem", seed: int) -> list[tuple[tuple[str, ...], list[Array]]]:
    """Inputs of a problem's corner cases alone, and the names of their rows, which repeat.

    Each kind has a row at least, and as many as there are where the input has more rows than there
    are kinds. The other inputs are random floats.
    """
    kinds = problem.kernel.meaning.corners
    drawn = []
    for first in range(0, len(kinds), _count_rows(problem)):
        rng = np.random.default_rng([seed, first])
        inputs = problem.float_inputs(seed)
        count = min(len(kinds) - first, _count_rows(problem))
        chosen = kinds[first : first + count]
        facts, rows = _facts(problem), inputs[0].reshape(_count_rows(problem), -1)
        for index, row in enumerate(rows):
            slot = Slot(row.astype(np.float64), facts, _find_most(problem), rng)
            rows[index] = _store(chosen[index % count].draw(slot), facts)
        drawn.append((tuple(kind.name for kind in chosen), inputs))
    return drawn


def plant_corners(problem: "Problem", inputs: Sequence[Array], seed: int) -> list[Array]:
    """Random floats of a kernel that sums products, with corner cases in them.

    At most every second row is one, the last ones first. An only row of a matrix stays as it is,
    since nothing else would be left. What makes an output no number is left out.
    """
    planted = [array.copy() for array in inputs]
    facts = _facts(problem)
    if not facts.is_float:
        return planted
    rng = np.random.default_rng([seed, 1])
    for index, kind in zip(_find_places(problem), problem.kernel.meaning.corners, strict=False):
        before = planted[0].copy()
        row = planted[0].reshape(-1, before.shape[-1])[index]
        slot = Slot(row.astype(np.float64), facts, _find_most(problem), rng)
        row[:] = _store(kind.draw(slot), facts)
        if np.isnan(problem.reference(planted)[0]).any():
            planted[0] = before
    return planted


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
            array[np.isnan(array)] = rare[-1]
        inputs.append(array)
    return inputs


def _find_places(problem: "Problem") -> Iterator[int]:
    """The rows of the first input that corner cases may take; of vectors and images the first."""
    shape = problem.inputs[0].shape
    rows = shape[0]
    return iter(range(rows - 1, rows - 1 - rows // 2, -1) if len(shape) == 2 else range(1))


def _count_rows(problem: "Problem") -> int:
    shape = problem.inputs[0].shape
    return shape[0] if len(shape) > 1 else 1


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
def zeros(slot: Slot) -> Array:
    return slot.signs() * 0.0


@corner("zeros in few columns, -inf in the others: a lost term is much of the sum; masked columns")
def few(slot: Slot) -> Array:
    values = np.full(slot.size, -np.inf)
    values[_choose_columns(slot)] = 0.0
    return values


@corner("an offset far below 0: what begins at 0, or at -10000, wins the maximum; powers vanish")
def low(slot: Slot) -> Array:
    return slot.row - (2.0**19 if slot.dtype.largest > 2.0**20 else 1000)


@corner("up to overflow's edge in both signs: powers overflow unless the maximum comes off first")
def high(slot: Slot) -> Array:
    values = slot.magnitudes(1.0, slot.dtype.largest)
    values[slot.rng.integers(slot.size)] = slot.dtype.largest
    return values


@corner("the first half is -inf, a mask: sums whose maximum begins at -inf are no numbers there")
def masked_in_front(slot: Slot) -> Array:
    return np.where(np.arange(slot.size) < slot.size // 2, -np.inf, slot.row)


@corner("nothing but -inf, a row all masked: it has no softmax, and the result is NaN")
def masked(slot: Slot) -> Array:
    return np.full(slot.size, -np.inf)


@corner("zeros but for a large number in the last column: a maximum without it overflows")
def last_is_largest(slot: Slot) -> Array:
    values = np.zeros(slot.size)
    values[-1] = 1000.0
    return values


@corner("the same in the first half, all near the lowest number: a maximum of -1e30 is above it")
def one_is_largest(slot: Slot) -> Array:
    values = np.full(slot.size, slot.dtype.smallest / 2)
    columns = np.arange(slot.size % 2, max(slot.size // 2, 1), 2)  # by twos from the last, not it
    values[slot.rng.choice(columns) if columns.size else 0] = slot.dtype.smallest / 4
    return values


@corner("subnormal numbers: they count as zeros or as themselves, and nothing divides by them")
def subnormal(slot: Slot) -> Array:
    return slot.row * slot.dtype.smallest_normal


@corner("numbers in few columns, zeros in the others: a lost term is much of the mean square")
def sparse(slot: Slot) -> Array:
    values = np.zeros(slot.size)
    columns = _choose_columns(slot)
    values[columns] = 1 + np.abs(slot.row[columns])
    return values


@corner("about 0.003: epsilon is as large as the mean square")
def small(slot: Slot) -> Array:
    return 0.003 * slot.row


@corner("up to where squares sum to overflow's edge: they fit float32, and no narrower type")
def large(slot: Slot) -> Array:
    most = np.sqrt(dtype_facts("float32").largest / (64 * slot.size))
    return slot.magnitudes(1e-3, min(most, slot.dtype.largest))


@corner("all about 1000: an offset of many times the deviation")
def high_offset(slot: Slot) -> Array:
    return slot.row + 1000


@corner("whole numbers, 1e3 times their deviation: the mean of squares less the mean's cancels")
def offset(slot: Slot) -> Array:
    exact = slot.dtype.exact_integers // 2 + 3  # of which neighbours are whole numbers too
    by_sum = 2**23 // slot.size
    base = max(min(4099, exact, by_sum), 1)
    return base + slot.rng.integers(0, 2, slot.size)


@corner("one value of 2^66: its square overflows, and its variance is 0")
def equal(slot: Slot) -> Array:
    return np.full(slot.size, min(2.0**66, 2.0 ** np.floor(np.log2(slot.dtype.largest))))


@corner(
    "whole numbers with their negatives: mean and variance are exact, so that a lost term shows"
)
def balanced(slot: Slot) -> Array:
    half = slot.rng.integers(1, 5, slot.size // 2).astype(np.float64)
    values = np.concatenate([half, -half, np.zeros(slot.size % 2)])
    return slot.rng.permutation(values)


def _choose_columns(slot: Slot) -> Array:
    """The first, the last, and others by chance: an eighth of all, or 32."""
    count = min(FEW, max(slot.size // 8, 1))
    chosen = slot.rng.choice(slot.size, count, replace=False)
    return np.unique(np.concatenate([[0, slot.size - 1], chosen]))


# Of vectors, for functions of single elements.

_GELU = (0.0, 1e-5, 0.03, 0.5, 1, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 9.4, 9.6, 10, 11, 20, 300, 5e4, 1e13)


@corner("zeros, either tail of the curve out to where it is 0, and magnitudes to overflow's edge")
def along_the_curve(slot: Slot) -> Array:
    edges = (slot.dtype.smallest_subnormal, slot.dtype.smallest_normal, slot.dtype.largest)
    values = np.array([*_GELU, *edges])
    return np.resize(slot.rng.permutation(np.concatenate([values, -values])), slot.size)


@corner("zeros of either sign, infinities, subnormal numbers, the largest: every second element")
def edges(slot: Slot) -> Array:
    facts = slot.dtype
    small = (facts.smallest_subnormal, facts.smallest_normal, 1024 * facts.smallest_normal)
    sizes = (0.0, np.inf, *small, facts.largest)
    values = np.array([*sizes, *(-size for size in sizes)])
    chosen = slot.rng.permutation(slot.size)[: slot.size // 2]
    mixed = slot.row.copy()
    mixed[chosen] = np.resize(values, chosen.size)
    return mixed


# Of rows and vectors that are summed.


@corner("an infinity: it stays with the outputs that sum it, where masks by a product make NaNs")
def infinite(slot: Slot) -> Array:
    values = slot.row.copy()
    if slot.size > 1 and _has_infinity(slot.dtype):
        values[slot.rng.integers(slot.size)] = np.inf
    return values


@corner("magnitudes from the smallest to where sums reach overflow's edge")
def of_all_magnitudes(slot: Slot) -> Array:
    return slot.magnitudes(max(slot.dtype.smallest_subnormal, 1e-300), slot.most)


@corner("small numbers: nothing is cut off below some constant")
def of_small_magnitudes(slot: Slot) -> Array:
    return slot.row * np.sqrt(slot.dtype.smallest_normal)


@corner("an infinity where indices are clamped to: a mask by a product or a difference is a NaN")
def infinite_first(slot: Slot) -> Array:
    values = slot.row.copy()
    if slot.size > 1 and _has_infinity(slot.dtype):
        values[0] = np.inf
    return values


def _has_infinity(facts: DType) -> bool:
    """float8_e4m3fn has none, and NaNs in their place."""
    return bool(np.isinf(np.array(np.inf).astype(facts.numpy).astype(np.float64)))


SUMMED = (infinite, of_all_magnitudes, of_small_magnitudes)
SUMMED_ALONG = (infinite_first,)
"""Of signals and images, where one row is much of the input."""
