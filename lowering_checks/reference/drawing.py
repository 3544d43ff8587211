"""Inputs of a module's problem: whole numbers that show most, random floats, and special values.

What they come to is measured, by running the program with its errors (evaluation.py): whole numbers
are made as large as every sum stays exact with, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tirstep.modules import Tensor
from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.inputs import SMALL, Array, InputMaker, arrange

from .evaluation import Answer
from .index_ranges import IndexUse

FEW = 0.9
"""The share of the outputs that must be known for inputs of either sign to be taken."""
SOME = 0.1
"""The same for inputs that are for what goes wrong with a part of the elements only."""
COUNTS = 8
"""What an integer that a loop counts up to is at most, where no index bounds it."""
NARROW = 1e6
"""Types whose largest number is below it overflow of squares that others hold."""
SCALAR = 2.0**12
"""A scalar float that decides."""
ROUNDS = 6
"""Draws of index arrays."""
EVEN, CHAINED, ALIKE = 1, 3, 5
"""What some of them are, see `draw_index`."""
Inputs = list[Array]
Indices = Mapping[str, Array]


def draw_index(use: IndexUse, rng: np.random.Generator, tensor: Tensor, number: int = 0) -> Array:
    """Integers for an argument by its use: random ones, but for some numbers of a draw, ranges of
    one length, and the ends alone (`EVEN`); each the one before its place (`CHAINED`); and all a
    value that is asked for, out of range if any is (`ALIKE`).
    """
    is_even = number % 3 == EVEN
    low, high = use.low, use.low + 1 if use.high is None else use.high
    size, shape = int(np.prod(tensor.shape)), tensor.shape
    if use.is_rising:
        values = np.sort(rng.integers(low, high, shape, endpoint=True), axis=-1)
        if is_even:
            values = np.broadcast_to(np.linspace(low, high, shape[-1]).astype(int), shape).copy()
        values[..., 0], values[..., -1] = low, high
    elif use.is_distinct and 1 < size <= high - low + 1:
        first = [it for it in {low, high, *use.asked} if low <= it <= high][: size // 2]
        others = np.arange(low, high + 1)
        values = np.append(first, rng.permutation(others[~np.isin(others, first)]))[:size]
        values = rng.permutation(values).reshape(shape)
    elif is_even:
        values = np.full(shape, high)
    elif number == CHAINED:
        values = np.clip(np.arange(size).reshape(shape) - 1, low, high)
    else:
        values = rng.integers(low, high, shape, endpoint=True)
    # What is asked for comes often; no place comes twice where each is to be stored to once.
    often = [it for it in use.asked if not (use.is_distinct and low <= it <= high)]
    if number == ALIKE and often:
        values = np.full(shape, min(often, key=lambda it: low <= it <= high))
        often = []
    kinds = rng.integers(0, 3 * len(often) or 1, shape)
    for kind, value in enumerate(often):
        values = np.where(kinds == kind, value, values)
    return np.asarray(values, dtype_facts(tensor.dtype).numpy)


def fit_uses(
    uses: Mapping[str, IndexUse],
    tensors: Sequence[Tensor],
    run: Callable[[Indices], Answer],
) -> dict[str, IndexUse]:
    """The uses with the largest ranges for which every index stays within its buffer, and with
    those of the values that conditions ask for for which it does as well. `run` is the program on
    index arrays, with other arguments drawn.
    """
    named = {each.name: each for each in tensors if each.name in uses}
    end = max((int(np.prod(each.shape)) for each in tensors), default=0) + 1
    found = {
        name: replace(use, high=use.high if use.is_bounded else use.low, asked=())
        for name, use in uses.items()
        if name in named
    }

    def fits(trial: Mapping[str, IndexUse], *numbers: int) -> bool:
        rng = np.random.default_rng(len(trial))
        drawn = (
            {name: draw_index(use, rng, named[name], number) for name, use in trial.items()}
            for number in numbers or (EVEN, 0)
        )
        # An index that leaves its buffer and depends on no data is the program's own fault.
        return not any(it.is_outside and not it.outside for it in map(run, drawn))

    def with_high(name: str, high: int) -> dict[str, IndexUse]:
        return {**found, name: replace(found[name], high=high)}

    while not fits(found) and any(use.high for use in found.values()):
        found = {name: replace(use, high=(use.high or 0) // 2) for name, use in found.items()}
    # What an index bounds goes first, and of the others as much as fits to that; last, ends of
    # ranges rise further where a condition guards the index.
    order = sorted(found, key=lambda name: not uses[name].is_bounded)
    rising = [name for name in order if uses[name].is_rising]
    for place, name in enumerate([*order, *rising] if fits(found) else ()):
        use, low = uses[name], found[name].high or 0
        is_open = use.high is None or place >= len(order)
        high = end if is_open else use.high or 0
        while low < high:
            middle = (low + high + 1) // 2
            is_fit = fits(with_high(name, middle))
            low, high = (middle, high) if is_fit else (low, middle - 1)
        if low == end and (use.is_count or use.high is not None):  # it is bounded by nothing
            low = min(COUNTS, low) if use.high is None else use.high
        found = with_high(name, low)
    for name in order:
        for value in uses[name].asked:
            kept = replace(found[name], asked=(*found[name].asked, value))
            alone = {**found, name: replace(kept, asked=(value,))}
            if kept.low <= value <= (kept.high or 0) or (
                fits(alone, ALIKE) and fits({**found, name: kept})
            ):
                found[name] = kept
    return found


def draw_rounds(
    uses: Mapping[str, IndexUse],
    tensors: Sequence[Tensor],
    run: Callable[[Indices], Answer],
    count: int,
    seed: int,
    *,
    first: Indices = MappingProxyType({}),
) -> list[Indices]:
    """So many draws of the index arrays, or more if twice as many tries reach more statements of
    the program: those first that reach most, of those of which something is known. `first` are
    recorded ones that come before all; then draws that fit nothing are none.
    """
    if not uses:
        return [first]
    drawn: list[tuple[Indices, Answer]] = []
    for number in range(2 * count):
        rng = np.random.default_rng([seed, number])
        indices = {
            each.name: draw_index(uses[each.name], rng, each, number)
            for each in tensors
            if each.name in uses
        }
        drawn.append((indices, run(indices)))
        if number + 1 >= count and np.all(np.any([it.ran for _, it in drawn], axis=0)):
            break
    fit = [each for each in drawn if each[1].outside or not each[1].is_outside]
    reached = np.zeros_like(drawn[0][1].ran)
    drawn = [each for each in fit if each[1].known] or fit or ([] if first else drawn[1:2])
    rounds = [first] if first else []
    while drawn:
        gains = [int((answer.ran & ~reached).sum()) for _, answer in drawn]
        if len(rounds) >= count and not any(gains):
            break
        best = drawn.pop(gains.index(max(gains)))
        rounds.append(best[0])
        reached |= best[1].ran
    return rounds


@dataclass(frozen=True, eq=False)
class ProgramInputs(InputMaker):
    """Draws inputs of a program that may need positive ones, and compare them.

    Attributes
    ----------
    measure : what the program comes to on inputs
    draw_indices : the index arrays for a seed, several times, by name (`draw_rounds`)
    is_choosing : it takes maxima or minima of what it loads, or compares that
    is_deciding : the program compares floats: no two of a tensor are equal then, if its type has
        as many
    has_ties : a program that is judged compares floats, so that equal ones are worth a round
    compared : the constants that a tensor's elements are compared with, by its name
    functions : the functions of floats that are called, "/" for quotients
    factors : the inputs that others are multiplied by, of which none is -inf
    has_reference : a program is judged by another one, which need not do what it does
    is_positive : no number is below 0
    indices : the draw of index arrays
    """

    measure: Callable[[Inputs], Answer]
    draw_indices: Callable[[int], list[Indices]] = lambda _: [{}]
    is_choosing: bool = False
    is_deciding: bool = False
    has_ties: bool = False
    compared: Mapping[str, Collection[float]] = field(default_factory=dict)
    functions: Collection[str] = ()
    factors: Collection[str] = ()
    has_reference: bool = False
    is_positive: bool = False
    indices: Indices = field(default_factory=dict)

    def probe(self, seed: int = 1) -> Inputs:
        """Some inputs of either sign, unmeasured."""
        rng = np.random.default_rng(seed)
        return [self.draw_float(rng, tensor, SMALL) for tensor in self.tensors]

    def draw_exact(self, seed: int) -> Iterator[Inputs]:
        """Where the program compares floats, with equal ones if no others are exact."""
        maker = self._take(0, seed)
        drawn = list(InputMaker.draw_exact(maker, seed))
        if self.is_deciding and not self.measure(drawn[0]).is_exact:
            others = list(replace(maker, is_deciding=False).draw_exact(seed))
            drawn = others if self.measure(others[0]).is_exact else drawn
        yield from drawn

    def draw_small(self, seed: int) -> Inputs:
        return self._choose_sign(lambda maker: InputMaker.draw_small(maker, seed))

    def draw_random(self, seed: int) -> Inputs:
        maker = self._take(1, seed)
        drawn = maker._choose_sign(lambda maker: InputMaker.draw_random(maker, seed))
        # Of large integers, such as positions that a cosine is taken of, nothing may be known.
        small = maker.probe(seed)
        return small if self.measure(small).known > self.measure(drawn).known else drawn

    def _take(self, number: int, seed: int) -> ProgramInputs:
        drawn = self.draw_indices(seed)
        return replace(self, indices=drawn[number % len(drawn)])

    def _choose_sign(self, draw: Callable[[ProgramInputs], Inputs]) -> Inputs:
        """Inputs of either sign, or positive ones where more is known of what these come to."""
        mixed = draw(self)
        known = self.measure(mixed).known
        if known >= FEW:
            return mixed
        positive = draw(replace(self, is_positive=True))
        return positive if self.measure(positive).known > known else mixed

    def draw_one(self, rng: np.random.Generator, tensor: Tensor, reach: int) -> Array:
        if tensor.name in self.indices:
            return self.indices[tensor.name]
        facts = dtype_facts(tensor.dtype)
        if self.is_deciding and facts.is_float:
            return _draw_distinct(rng, tensor.shape, facts, reach, self.is_positive)
        if tensor.dtype == "bool":  # of some rows all, of some none
            share = rng.choice((0.0, 0.5, 0.5, 1.0), (*tensor.shape[:-1], 1))
            return rng.random(tensor.shape) < (share if len(tensor.shape) > 1 else 0.5)
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

        Where the program may treat them in another way, also equal elements, rows that are almost
        the same, the constants that it compares with and their neighbours, infinities, and numbers
        that exponentials or squares overflow of, as long as something is known of what they come
        to. Each has another draw of the index arrays, and all of these come up.
        """
        rng = np.random.default_rng([seed, 7])
        answer = self.measure(inputs)
        known, reached = min(answer.known, FEW), answer.ran
        rounds, planted = self.draw_indices(seed), list[Inputs]()

        def turn(changed: Inputs) -> Inputs:
            indices = rounds[(2 + len(planted)) % len(rounds)]
            pairs = zip(self.tensors, changed, strict=True)
            return [indices.get(tensor.name, array) for tensor, array in pairs]

        def add(changed: Inputs, least: float, overflow: float = np.inf) -> None:
            """Take the inputs, with other index arrays, if enough is known of what they come to, or
            statements run that did not before.
            """
            nonlocal reached
            if all(now is before for now, before in zip(changed, inputs, strict=True)):
                return
            turned = turn(changed)
            answer = self.measure(turned)
            is_new = bool((answer.ran & ~reached).any()) and answer.known > 0
            if answer.overflow <= overflow and (is_new or answer.known >= least):
                planted.append(turned)
                reached = reached | answer.ran

        def change(plant: Callable[..., Array], *given: Any, floats: bool = True) -> Inputs:
            """The inputs with other data, of floats alone or of all types, and scalar floats."""
            changed = list(inputs)
            for place, (tensor, array) in enumerate(zip(self.tensors, inputs, strict=True)):
                facts = dtype_facts(tensor.dtype)
                if (all if floats else any)((self.is_data(tensor), facts.is_float)):
                    values = plant(tensor, array.astype(np.float64), *given)
                    limited = np.clip(values, facts.smallest, facts.largest)
                    limited = np.where(np.isinf(values) & facts.is_float, values, limited)
                    with np.errstate(over="ignore"):
                        changed[place] = np.asarray(limited.astype(facts.numpy))
            return changed

        add(change(_plant_sizes, rng), known)
        add(change(_plant_signs), known)
        ends = []  # of four in turn one the least and one the largest of the type, of all tensors
        for tensor, array in zip(self.tensors, inputs, strict=True):
            facts, kinds = dtype_facts(tensor.dtype), np.arange(array.size).reshape(array.shape) % 4
            if self.is_data(tensor) and not facts.is_float:
                array = np.where(kinds == 1, facts.largest, array)
                array = np.where(kinds == 0, facts.smallest, array).astype(facts.numpy)
            ends.append(array)
        add(ends, known, overflow=1)
        free = [place for place, each in enumerate(self.tensors) if self.is_data(each)]
        for arranged in arrange(inputs, free) if self.is_choosing else ():
            add(arranged, known)
        for count in (1, 3) if self.has_ties else ():
            add(change(_plant_equal, rng, count, floats=False), 0.0)
        for apart in (4, 6) if self.has_ties else ():
            add(change(_plant_alike, rng, apart, floats=False), SOME)
        met = {each.name: sorted(self.compared.get(each.name, ()))[:4] for each in self.tensors}
        for number in range(3 if any(map(any, met.values())) else any(met.values())):
            add(change(_plant_constants, met, number, floats=False), SOME)
        has_scalars = any(not it.shape and "float" in it.dtype for it in self.tensors)
        for most in (SCALAR, -SCALAR) if has_scalars and self.is_choosing else ():
            add(
                change(lambda it, a, most: a if it.shape else a * 0 + most, most, floats=False),
                SOME,
            )
        has_exponentials = any("exp" in name or name == "sigmoid" for name in self.functions)
        if has_exponentials:
            add(change(_plant_large, rng), SOME)
        if has_exponentials or self.is_choosing:
            masked = change(_plant_infinities, rng)
            masks = [it.name not in self.factors for it in self.tensors]
            pairs = zip(masks, masked, inputs, strict=True)
            add([now if is_mask else before for is_mask, now, before in pairs], SOME)
        if self.has_reference:  # squares of a large mean have few of their digits left, or none

            def raise_mean(tensor: Tensor, values: Array) -> Array:
                return values + 2.0 ** (np.log2(dtype_facts(tensor.dtype).exact_integers) // 2 - 2)

            def clear_rows(_: Tensor, values: Array, share: float) -> Array:
                is_zero = rng.random(values.size)[_get_rows(values)] < share
                return np.where(is_zero, 0.0, values / 2**10)  # whose squares are like epsilons

            add(change(raise_mean), SOME)
            for share in (1.0, 0.5) if self.functions else ():
                add(change(clear_rows, share), SOME)
        if any(dtype_facts(it.dtype).largest < NARROW for it in self.tensors if self.is_data(it)):
            add(change(_plant_narrow, rng), SOME)
        while 2 + len(planted) < len(rounds):
            planted.append(turn(inputs))
        return planted


def _plant_sizes(_: Tensor, values: Array, rng: np.random.Generator) -> Array:
    kinds = rng.integers(0, 16, values.shape)
    sizes = np.where(kinds == 1, 2.0**6, np.where(kinds == 2, 2.0**-6, 1.0))
    return np.asarray(values * np.where(kinds == 0, 0.0, sizes))


def _get_rows(values: Array) -> Array:
    """The number of the row that each element stands in, or its own in a vector."""
    width = values.shape[-1] if values.ndim > 1 else 1
    return np.arange(values.size).reshape(values.shape) // width


def _plant_signs(_: Tensor, values: Array) -> Array:
    """Rows of negative numbers, of positive ones, and of both, in turns."""
    kinds = np.arange(len(values) if values.ndim > 1 else 1) % 3
    signs = np.array([-1.0, 1.0, 0.0])[kinds].reshape(-1, *[1] * max(values.ndim - 1, 0))
    return np.where(signs == 0, values, np.abs(values) * signs).reshape(values.shape)


def _plant_equal(_: Tensor, values: Array, rng: np.random.Generator, count: int) -> Array:
    """Numbers of which so many are distinct."""
    return np.resize(rng.integers(1, count, 1 << 10, endpoint=True), values.shape)


def _plant_alike(_: Tensor, values: Array, rng: np.random.Generator, apart: int) -> Array:
    """Rows near one that rises: boxes that overlap, say, or points that are close."""
    rising = np.arange((values.shape or (1,))[-1]) % 16 * 4
    return np.reshape(rising + rng.integers(0, apart, values.shape), values.shape)


def _plant_constants(
    tensor: Tensor, values: Array, constants: Mapping[str, Sequence[float]], number: int
) -> Array:
    """Constants and their neighbours in turns, in the second round by rows; each element gets
    others from round to round.
    """
    if not (own := constants[tensor.name]):
        return values
    choices = np.array([each + apart for each in own for apart in (-1, 0, 1)])
    places = _get_rows(values) if number == 1 else np.arange(values.size).reshape(values.shape)
    return np.asarray(choices[(places + number * len(own)) % len(choices)])


def _plant_large(_: Tensor, values: Array, rng: np.random.Generator) -> Array:
    """Make one of four numbers so large that exp overflows in single precision, and one for half;
    and one of four rows so small that all of its exponentials are 0.
    """
    kinds, sizes = rng.integers(0, 4, values.shape), rng.uniform(89, 120, values.shape)
    large = np.where(kinds == 0, sizes, sizes / 8)
    planted = np.where(kinds < 2, np.copysign(large, values), values)
    is_far = (_get_rows(values) % 4 == 3) & (values.ndim > 1)
    return np.where(is_far, values - 150, planted)


def _plant_infinities(_: Tensor, values: Array, rng: np.random.Generator) -> Array:
    """Numbers that are masked by -inf: some, and whole rows, and all of a row but its last."""
    kinds = _get_rows(values) % 4 if values.ndim > 1 else np.zeros(values.shape)
    is_masked = (rng.random(values.shape) < 1 / 8) & (kinds < 2) | (kinds >= 2)
    if values.ndim > 1:
        is_masked[..., -1] &= kinds[..., -1] != 3
    return np.where(is_masked, -np.inf, values)


def _plant_narrow(tensor: Tensor, values: Array, rng: np.random.Generator) -> Array:
    """For half precision: rows as large as squares and products of them overflow, and subnormal
    numbers, which GPUs keep in that type.
    """
    if (facts := dtype_facts(tensor.dtype)).largest >= NARROW:
        return values
    sizes = 2.0 ** (_get_rows(values) * 5 % 14)
    is_small = rng.random(values.shape) < 1 / 8
    return values * np.where(is_small, facts.smallest_normal, sizes)


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
