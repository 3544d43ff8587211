"""Inputs of a module's problem: whole numbers that show most, random floats, and special values.

What they come to is measured, by running the program with its errors (evaluation.py): whole numbers
are made as large as every sum stays exact with, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tirstep.modules import Tensor
from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.inputs import SMALL, Array, InputMaker, arrange

from .evaluation import Answer

FEW = 0.9
"""The share of the outputs that must be known for inputs of either sign to be taken."""
Inputs = list[Array]


@dataclass(frozen=True, eq=False)
class ProgramInputs(InputMaker):
    """Draws inputs of a program that may need positive ones, and compare them.

    Attributes
    ----------
    measure : what the program comes to on inputs
    is_choosing : it takes maxima or minima of what it loads, or compares that
    is_deciding : the program compares floats: no two of a tensor are equal then, if its type has
        as many
    is_positive : no number is below 0
    """

    measure: Callable[[Inputs], Answer]
    is_choosing: bool
    is_deciding: bool
    is_positive: bool = False

    def probe(self, seed: int = 1) -> Inputs:
        """Some inputs of either sign, unmeasured."""
        rng = np.random.default_rng(seed)
        return [self.draw_float(rng, tensor, SMALL) for tensor in self.tensors]

    def draw_exact(self, seed: int) -> Iterator[Inputs]:
        """Where the program compares floats, with equal ones if no others are exact."""
        drawn = list(super().draw_exact(seed))
        if self.is_deciding and not self.measure(drawn[0]).is_exact:
            others = list(replace(self, is_deciding=False).draw_exact(seed))
            drawn = others if self.measure(others[0]).is_exact else drawn
        yield from drawn

    def draw_small(self, seed: int) -> Inputs:
        return self._choose_sign(lambda maker: InputMaker.draw_small(maker, seed))

    def draw_random(self, seed: int) -> Inputs:
        return self._choose_sign(lambda maker: InputMaker.draw_random(maker, seed))

    def _choose_sign(self, draw: Callable[[ProgramInputs], Inputs]) -> Inputs:
        """Inputs of either sign, or positive ones where more is known of what these come to."""
        mixed = draw(self)
        known = self.measure(mixed).known
        if known >= FEW:
            return mixed
        positive = draw(replace(self, is_positive=True))
        return positive if self.measure(positive).known > known else mixed

    def draw_one(self, rng: np.random.Generator, tensor: Tensor, reach: int) -> Array:
        facts = dtype_facts(tensor.dtype)
        if self.is_deciding and facts.is_float:
            return _draw_distinct(rng, tensor.shape, facts, reach, self.is_positive)
        drawn = super().draw_one(rng, tensor, reach)
        return np.abs(drawn) if self.is_positive and self.is_data(tensor) else drawn

    def draw_float(self, rng: np.random.Generator, tensor: Tensor, reach: int) -> Array:
        values, facts = super().draw_float(rng, tensor, reach), dtype_facts(tensor.dtype)
        if not facts.is_float:
            return values
        if self.is_deciding and facts.bytes < 4:
            values = _draw_distinct_floats(rng, tensor.shape, facts)
        return np.abs(values) if self.is_positive else values

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
            array if not self.is_data(tensor) else _plant_ends(array, dtype_facts(tensor.dtype))
            for tensor, array in zip(self.tensors, inputs, strict=True)
        ]
        if any(now is not before for now, before in zip(ends, inputs, strict=True)):
            measured = self.measure(ends)
            if measured.known >= known and measured.overflow <= 1:
                planted.append(ends)
        free = [place for place, each in enumerate(self.tensors) if self.is_data(each)]
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
