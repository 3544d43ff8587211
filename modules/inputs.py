"""Inputs that leave no doubt: integers that sum exactly, and floats that narrow types change."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tirstep.modules.dtypes import dtype_facts

Array: TypeAlias = npt.NDArray[Any]
LARGEST_POWER = 31
SMALL = 4
DRAWN_AT_ONCE = 1 << 16
TURNS = 64
"""At most so many inputs of ones in turns, where a sum of all would round."""


@dataclass(frozen=True)
class Measured:
    """The magnitudes of inputs."""

    is_exact: bool  # whether any legal order of the sums gives the same bits
    overflow: float  # the largest ratio of a magnitude to what its type holds


@dataclass(frozen=True, eq=False)
class InputMaker:
    """Draws inputs of a program.

    Attributes
    ----------
    tensors : the inputs
    ranges : the least and the largest value of integers that are no numbers to sum, by name
    measure : what the program comes to on inputs, with what `Measured` has
    """

    tensors: Sequence[Any]
    ranges: Mapping[str, tuple[int, int]]
    measure: Callable[[list[Array]], Any]

    def draw_exact(self, seed: int) -> Iterator[list[Array]]:
        """Whole numbers as large as all sums of them are exact, or else from -4 to 4.

        They have either sign and all orders of magnitude, so that what is rounded to a narrower
        type on its way shows; none is 0, so that no term of a sum can be lost unnoticed. Where even
        ones are too many for a sum, as in float16, there are several rounds, of which each has some
        of the ones and all together have all.
        """
        best, low, high = None, 0, LARGEST_POWER  # the largest power of two that is exact
        while low <= high:
            middle = (low + high) // 2
            inputs = self.draw_whole(seed, 2**middle)
            is_exact = self.measure(inputs).is_exact
            best, low = (inputs, middle + 1) if is_exact else (best, low)
            high = high if is_exact else middle - 1
        if best is not None:
            yield best
            return
        ones = self.draw_whole(seed, 1)
        first = next((place for place, each in enumerate(self.tensors) if self.is_data(each)), 0)
        for count in (2**halvings for halvings in range(1, TURNS.bit_length())):
            # Every input with one in so many of its numbers, another in each of as many rounds.
            rng = np.random.default_rng([seed, count])
            turns = rng.permutation(ones[first].size).reshape(ones[first].shape) % count
            rounds = [[*ones] for _ in range(count)]
            for turn, inputs in enumerate(rounds):
                inputs[first] = np.where(turns == turn, ones[first], 0).astype(ones[first].dtype)
            if all(self.measure(inputs).is_exact for inputs in rounds):
                yield from rounds
                return
        yield self.draw_small(seed)

    def draw_small(self, seed: int) -> list[Array]:
        """Whole numbers from -4 to 4."""
        return self.draw_whole(seed, SMALL)

    def draw_whole(self, seed: int, reach: int) -> list[Array]:
        """Whole numbers from 1 to `reach`, of either sign."""
        rng = np.random.default_rng(seed)
        return [self.draw_one(rng, tensor, reach) for tensor in self.tensors]

    def draw_one(self, rng: np.random.Generator, tensor: Any, reach: int) -> Array:
        """Whole numbers for a tensor."""
        facts = dtype_facts(tensor.dtype)
        if tensor.name in self.ranges or tensor.dtype == "bool":
            low, high = self.ranges.get(tensor.name, (0, 1))
            high = min(high, int(facts.largest))
            return np.asarray(rng.integers(low, high, tensor.shape, endpoint=True), facts.numpy)
        # From 1 to `reach`, their logarithms spread evenly, with random signs.
        most = min(reach, facts.exact_integers)
        signs = (1.0, 1.0) if facts.smallest == 0 else (-1.0, 1.0)
        return draw_in_parts(
            tensor,
            lambda count: (
                np.minimum(np.floor(np.exp(rng.random(count) * np.log(most + 1))), most)
                * rng.choice(signs, count)
            ),
        )

    def is_data(self, tensor: Any) -> bool:
        """Whether an input's numbers are summed, or compared."""
        return tensor.name not in self.ranges and tensor.dtype != "bool" and bool(tensor.shape)

    def draw_random(self, seed: int) -> list[Array]:
        """Random floats in [-1, 1), with integers as large as overflow nothing."""
        are_floats = (dtype_facts(it.dtype).is_float for it in self.tensors if self.is_data(it))
        power = 0 if all(are_floats) else LARGEST_POWER
        while power and self.measure(self._draw_floats(seed, power)).overflow > 1:
            power -= 1
        return self._draw_floats(seed, power)

    def _draw_floats(self, seed: int, power: int) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [self.draw_float(rng, tensor, 2**power) for tensor in self.tensors]

    def draw_float(self, rng: np.random.Generator, tensor: Any, reach: int) -> Array:
        """Random floats for a tensor, in [-1, 1), that lie between two numbers of narrower types;
        whole numbers up to `reach` for one of another type.
        """
        facts = dtype_facts(tensor.dtype)
        if not facts.is_float:
            return self.draw_one(rng, tensor, reach)
        # The clip is for the types so narrow that 0.999 would round to 1.
        end = 1.0 - facts.unit_roundoff
        return draw_in_parts(
            tensor, lambda count: lie_between(np.clip(rng.uniform(-1.0, 1.0, count), -end, end))
        )


def draw_in_parts(tensor: Any, draw: Callable[[int], Array]) -> Array:
    """A tensor's numbers, so many drawn at once as stay in the cache."""
    result = np.empty(tensor.shape, dtype_facts(tensor.dtype).numpy)
    flat = result.reshape(-1)
    for part in (flat[at : at + DRAWN_AT_ONCE] for at in range(0, flat.size, DRAWN_AT_ONCE)):
        part[:] = draw(part.size)
    return result


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
            flat = inputs[place].reshape(-1)
            # NumPy sorts no float8.
            order = np.argsort(flat.astype(np.float64), kind="stable")[::step]
            changed[place] = flat[order].reshape(inputs[place].shape)
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
