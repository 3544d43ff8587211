"""Inputs of a module's problem: whole numbers that show most, random floats, and special values.

What they come to is measured, by running the program with its errors (evaluation.py): whole numbers
are made as large as every sum stays exact with, in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tirstep.modules import Tensor
from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.numeric import Array, arrange, draw_floats, draw_whole_numbers

from .evaluation import Answer

LARGEST_POWER = 24
ROUNDS = 8
"""At most so many inputs of ones in turns, where a sum of all would round."""
SMALL = 4
FEW = 0.9
"""The share of the outputs that must be known for inputs of either sign to be taken."""
Inputs = list[Array]
Measure = Callable[[Inputs], Answer]


@dataclass(frozen=True, eq=False)
class InputMaker:
    """Draws inputs of a program.

    Attributes
    ----------
    tensors : the inputs
    ranges : of integers that are used as indices, by name
    is_deciding : the program compares floats: no two of a tensor are equal then, if its type has
        as many
    is_choosing : it takes maxima or minima of what it loads, or compares that
    measure : what the program comes to on inputs
    """

    tensors: Sequence[Tensor]
    ranges: Mapping[str, tuple[int, int]]
    is_deciding: bool
    is_choosing: bool
    measure: Measure

    def probe(self) -> Inputs:
        """Some inputs of either sign, unmeasured."""
        rng = np.random.default_rng(1)
        return [self._draw_one(rng, tensor, SMALL, False) for tensor in self.tensors]

    def draw_exact(self, seed: int) -> Iterator[Inputs]:
        """Whole numbers as large as all sums of them are exact, or else from -4 to 4.

        Where even ones are too many for a sum, as in float16, there are several rounds, of which
        each has some of the ones and all together have all.
        """
        others = [replace(self, is_deciding=False)] if self.is_deciding else []
        for maker in (self, *others):
            best = maker._find_largest(functools.partial(maker.draw_whole, seed))
            if best is not None:
                yield best
                return
        ones = self.draw_whole(seed, 1)
        for halvings in range(1, ROUNDS.bit_length()):
            rounds = list(self._draw_in_turns(ones, seed, 2**halvings))
            if all(self.measure(inputs).is_exact for inputs in rounds):
                yield from rounds
                return
        yield self._choose_sign(lambda positive: self.draw_whole(seed, SMALL, positive=positive))

    def _find_largest(self, draw: Callable[[int], Inputs]) -> Inputs | None:
        """The inputs of the largest power of two that are exact."""
        best, low, high = None, 0, LARGEST_POWER
        while low <= high:
            middle = (low + high) // 2
            inputs = draw(2**middle)
            if self.measure(inputs).is_exact:
                best, low = inputs, middle + 1
            else:
                high = middle - 1
        return best

    def _draw_in_turns(self, ones: Inputs, seed: int, count: int) -> Iterator[Inputs]:
        """Every input with one in so many of its numbers, another in each of as many rounds."""
        rng = np.random.default_rng([seed, count])
        first = next((place for place, each in enumerate(self.tensors) if self._is_data(each)), 0)
        turns = rng.permutation(ones[first].size).reshape(ones[first].shape) % count
        for turn in range(count):
            kept = np.where(turns == turn, ones[first], 0).astype(ones[first].dtype)
            yield [*ones[:first], kept, *ones[first + 1 :]]

    def _choose_sign(self, draw: Callable[[bool], Inputs]) -> Inputs:
        """Inputs of either sign, or positive ones where more is known of what these come to."""
        mixed = draw(False)
        known = self.measure(mixed).known
        if known >= FEW:
            return mixed
        positive = draw(True)
        return positive if self.measure(positive).known > known else mixed

    def draw_whole(self, seed: int, reach: int, *, positive: bool = False) -> Inputs:
        """Whole numbers from 1 to `reach`, of either sign."""
        rng = np.random.default_rng(seed)
        return [self._draw_whole(rng, tensor, reach, positive) for tensor in self.tensors]

    def _draw_whole(
        self, rng: np.random.Generator, tensor: Tensor, reach: int, positive: bool
    ) -> Array:
        facts = dtype_facts(tensor.dtype)
        if tensor.name in self.ranges or tensor.dtype == "bool":
            return self._draw_indices(rng, tensor)
        if self.is_deciding and facts.is_float:
            return _draw_distinct(rng, tensor.shape, facts, reach, positive)
        values = draw_whole_numbers(rng, tensor.shape, reach, facts)
        if positive or facts.smallest == 0:
            values = np.abs(values)
        return np.asarray(values.astype(facts.numpy))

    def _draw_indices(self, rng: np.random.Generator, tensor: Tensor) -> Array:
        low, high = self.ranges.get(tensor.name, (0, 1))
        facts = dtype_facts(tensor.dtype)
        high = min(high, int(facts.largest))
        drawn = rng.integers(low, high, tensor.shape, endpoint=True)
        return np.asarray(np.asarray(drawn).astype(facts.numpy))

    def _is_data(self, tensor: Tensor) -> bool:
        return tensor.name not in self.ranges and tensor.dtype != "bool" and bool(tensor.shape)

    def draw_random(self, seed: int) -> Inputs:
        """Random floats in [-1, 1), positive ones where the program needs that; with integers as
        large as overflow nothing.
        """
        return self._choose_sign(lambda positive: self._draw_random(seed, positive))

    def _draw_random(self, seed: int, positive: bool) -> Inputs:
        def draw(reach: int) -> Inputs:
            rng = np.random.default_rng(seed)
            return [self._draw_one(rng, tensor, reach, positive) for tensor in self.tensors]

        integers = [
            each
            for each in self.tensors
            if not dtype_facts(each.dtype).is_float and self._is_data(each)
        ]
        if not integers:
            return draw(1)
        power = LARGEST_POWER
        while power and self.measure(draw(2**power)).overflow > 1:
            power -= 1
        return draw(2**power)

    def _draw_one(
        self, rng: np.random.Generator, tensor: Tensor, reach: int, positive: bool
    ) -> Array:
        facts = dtype_facts(tensor.dtype)
        if not facts.is_float:
            return self._draw_whole(rng, tensor, reach, positive)
        values = np.asarray(draw_floats(rng, tensor.shape, facts))
        if self.is_deciding and facts.bytes < 4:
            values = _draw_distinct_floats(rng, tensor.shape, facts)
        return np.abs(values) if positive else values

    def plant(self, inputs: Inputs, seed: int) -> list[Inputs]:
        """The same inputs with special values: with zeros, large and small numbers among them; and
        with rows of negative and of positive numbers alone, of which the largest tells where it
        started; integers at both ends of their types, where nothing overflows by that; and, where
        it takes maxima or compares, in rising and in falling order. Without those of which less is
        known of what they come to.
        """
        rng = np.random.default_rng([seed, 7])
        known = min(self.measure(inputs).known, FEW)
        planted = []
        for change in (_plant_sizes, _plant_signs):
            changed = [
                array
                if not dtype_facts(tensor.dtype).is_float or tensor.is_scalar
                else _limit(change(rng, array.astype(np.float64)), tensor)
                for tensor, array in zip(self.tensors, inputs, strict=True)
            ]
            is_changed = any(now is not before for now, before in zip(changed, inputs, strict=True))
            if is_changed and self.measure(changed).known >= known:
                planted.append(changed)
        ends = [
            array if not self._is_data(tensor) else _plant_ends(array, dtype_facts(tensor.dtype))
            for tensor, array in zip(self.tensors, inputs, strict=True)
        ]
        if any(now is not before for now, before in zip(ends, inputs, strict=True)):
            measured = self.measure(ends)
            if measured.known >= known and measured.overflow <= 1:
                planted.append(ends)
        free = [place for place, each in enumerate(self.tensors) if self._is_data(each)]
        arranged = arrange(inputs, free) if self.is_choosing else []
        return planted + [each for each in arranged if self.measure(each).known >= known]


def _plant_sizes(rng: np.random.Generator, values: Array) -> Array:
    kinds = rng.integers(0, 16, values.shape)
    sizes = np.where(kinds == 1, 2.0**6, np.where(kinds == 2, 2.0**-6, 1.0))
    return np.asarray(values * np.where(kinds == 0, 0.0, sizes))


def _plant_ends(values: Array, facts: DType) -> Array:
    """Integers, of four in turn one the least and one the largest of the type; floats as they are.

    Those of several tensors meet at the same places.
    """
    if facts.is_float:
        return values
    kinds = np.arange(values.size).reshape(values.shape) % 4
    ends = np.where(kinds == 0, facts.smallest, np.where(kinds == 1, facts.largest, values))
    return np.asarray(ends.astype(facts.numpy))


def _plant_signs(rng: np.random.Generator, values: Array) -> Array:
    """Rows of negative numbers, of positive ones, and of both, in turns."""
    kinds = np.arange(len(values) if values.ndim > 1 else 1) % 3
    signs = np.array([-1.0, 1.0, 0.0])[kinds].reshape(-1, *[1] * max(values.ndim - 1, 0))
    return np.where(signs == 0, values, np.abs(values) * signs).reshape(values.shape)


def _limit(values: Array, tensor: Tensor) -> Array:
    facts = dtype_facts(tensor.dtype)
    limited = np.clip(values, facts.smallest, facts.largest)
    return np.asarray(limited.astype(facts.numpy))


def _draw_distinct(
    rng: np.random.Generator, shape: tuple[int, ...], facts: DType, reach: int, positive: bool
) -> Array:
    """Whole numbers of which none is the same as another near it, the largest about `reach`, or as
    many as there are.
    """
    size = int(np.prod(shape))
    count = int(min(size, facts.exact_integers))
    numbers = np.arange(1, count + 1) if positive else np.arange(count) - count // 2
    numbers = numbers * max(int(min(reach, facts.exact_integers) // (count or 1)), 1)
    parts = [rng.permutation(numbers) for _ in range(-(-size // max(count, 1)))]
    values = np.concatenate(parts)[:size] if parts else np.zeros(0)
    return np.asarray(values.reshape(shape).astype(np.float64).astype(facts.numpy))


def _draw_distinct_floats(rng: np.random.Generator, shape: tuple[int, ...], facts: DType) -> Array:
    """Numbers in (-1, 1) of a narrow type, each of them once before any comes again."""
    bits = np.arange(2 ** (8 * facts.bytes), dtype=f"u{facts.bytes}").view(facts.numpy)
    with np.errstate(invalid="ignore"):
        values = bits.astype(np.float64)
    is_fit = np.isfinite(values) & (np.abs(values) < 1) & (np.abs(values) >= 2.0**-8)
    known, size = bits[is_fit], int(np.prod(shape))
    parts = [rng.permutation(known) for _ in range(-(-size // len(known)))]
    return np.asarray(np.concatenate(parts)[:size].reshape(shape))
