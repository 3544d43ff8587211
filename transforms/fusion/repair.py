"""The repair of a partial result: derived, given a value to begin with, and tried on drawn numbers.

The algebra holds for every real value that the running value is replaced by, which makes room where
it is not real yet: of a maximum that has met nothing but -inf, the terms are taken relative to the
least finite number, so that no ``-inf - -inf`` makes a NaN (`Repair.refer`).
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
from tvm.tirx import LT, BufferStore, Div, Mul, Sub, Var, const
from tvm_ffi import structural_equal, structural_map

from ..layout import is_zero
from ..schedule import TransformError
from ..tir import constant, find_all, is_among, is_choice, substitute
from .blocks import Consumer, Producer, Reduction, match_iterators, simplify_indices, uses_any
from .factors import (
    NoRepairError,
    Running,
    UnknownOperationError,
    evaluate,
    find_factor,
    multiply_out,
)

_STEPS = 6
"""Terms of a drawn reduction."""
_RANGE = 2
"""Terms of a range, where it is split."""
_SEEDS = 3
_ENOUGH = 6
"""Drawn reductions that must have a finite result for a repair to count as tried."""
_CLOSE = {"float64": 1e-9, "float32": 1e-5}
"""Relative differences of results that are the same: constants are rounded to a program's types.
Of narrower types it is 1e-2."""
_Draw: TypeAlias = Callable[[random.Random, int, bool], float]


@dataclass(frozen=True)
class Repair:
    """Rescales a partial result when the running value goes from `old` to `new`.

    Attributes
    ----------
    change : the factor, an expression of `old` and `new`
    running : the running value, and the variables `old` and `new`
    reference : what stands for a running value: ``"itself"``, ``"finite"`` for the least finite
        number in the place of -inf, ``"finite below"`` for the largest in the place of inf, ``"not
        0"`` for 1 in the place of a 0
    begins : whether the first iteration may repair what nothing was added to yet
    """

    change: Any
    running: Running
    reference: str = "itself"
    begins: bool = False

    def apply(self, result: Any, old: Any, new: Any) -> Any:
        """The repaired result, of the running values of before and of now."""
        values = {self.running.old: self.refer(old), self.running.new: self.refer(new)}
        return result * substitute(self.change, values).astype(result.ty.dtype)

    def refer(self, value: Any) -> Any:
        """The value that terms use for the running value."""
        dtype = value.ty.dtype
        if self.reference == "finite":
            return tirx.max(value, tirx.min_value(str(dtype)))
        if self.reference == "finite below":
            return tirx.min(value, tirx.max_value(str(dtype)))
        if self.reference == "not 0":
            return tirx.Select(value == const(0, dtype), const(1, dtype), value)
        return value


@dataclass(frozen=True)
class MeanRepair(Repair):
    """What a sum of squared differences from the mean of a range becomes for that of all elements.

    Each element is further off by the difference of the means, whose products with the others add
    up to 0 (T. Chan, G. Golub and R. LeVeque, Updating formulae and a pairwise algorithm for
    computing sample variances, 1979).

    Attributes
    ----------
    length, size : elements that count, all together and of a range; the last ones may have fewer
    """

    length: int = 0
    size: int = 0

    def count(self, value: Any) -> Any:
        """The elements of the range whose sum a load is."""
        left = tirx.max(tirx.min(self.length - value.indices[-1] * self.size, self.size), 0)
        return left.astype(value.ty.dtype)

    def apply(self, result: Any, old: Any, new: Any) -> Any:
        """The repaired result, of the sums of a range and of all."""
        away = (self.refer(old) - new) / const(self.length, new.ty.dtype)
        return result + (self.count(old) * away * away).astype(result.ty.dtype)

    def refer(self, value: Any) -> Any:
        """The sum of all, were they as the range is."""
        one, length = (const(number, value.ty.dtype) for number in (1, self.length))
        return value * (length / tirx.max(self.count(value), one))


def plan_repair(
    producer: Producer, consumer: Consumer, advice: str, *, ranges: Sequence[int] = ()
) -> tuple[Repair, dict[Any, Any]]:
    """The repair of a consumer, and its iterators in those of the producer's block.

    It is derived, and tried by rolling updates, or by `ranges` of terms that each have a value of
    their own, of so many elements, or runs and elements of a run. Squared differences from a mean
    are known as they are written, for ranges of elements in a row. Raises `TransformError` where
    there is none, which names the part that has none.
    """
    matched = match_iterators(producer, consumer)
    buffer, reduction = producer.buffer, consumer.reduction
    rows = {theirs: mine for mine, theirs in matched.items() if is_among(theirs, producer.rows)}
    terms = {mine: theirs for mine, theirs in matched.items() if not is_among(mine, rows.values())}
    value, old, new = (Var(name, buffer.dtype) for name in (str(buffer.name), "old", "new"))
    others = [item.var for item in producer.reduction.block.iter_vars if item.var not in rows]
    domains = {var: producer.get_domain(var) for var in producer.rows}
    single = {var: domain.min for var, domain in domains.items() if constant(domain.extent) == 1}
    varying = [*others, *(item.var for item in reduction.iterators(reduced=True))]
    running = Running(value, lambda expression: uses_any(expression, varying), old, new)
    found = simplify_indices(substitute(producer.reduction.term, single | rows), Analyzer())
    term = structural_map(
        consumer.term, (TensorLoad, lambda it: value if it.source.same_as(buffer) else it)
    )
    iterators = (*others, *(item.var for item in reduction.block.iter_vars))
    trial = _Trial(producer.reduction._replace(term=found), reduction, term, running, terms)
    if len(ranges) == 1 and (length := trial.find_mean(producer.before)):
        return MeanRepair(None, running, length=length, size=ranges[0]), matched
    try:
        repair = Repair(derive_change(term, running, reduction), running)
        return trial.choose(repair, iterators, bool(ranges)), matched
    except UnknownOperationError as error:
        part = term
        reason = f"has the operation '{error}', which is not evaluated on random numbers"
    except NoRepairError as error:
        part, reason = error.part, error.reason
    raise TransformError(
        f"what block '{reduction.name}' has accumulated cannot be corrected for a new value of "
        f"'{buffer.name}' of block '{producer.reduction.name}': its term's part {part} {reason}",
        f"{advice}, or write the term so that the rest is done to the result",
    )


def derive_change(term: Any, running: Running, consumer: Reduction) -> Any:
    """The factor by which a sum of floats changes with the running value, as the algebra has it."""
    if consumer.kind == "product":
        raise NoRepairError(term, "would change a product by as many factors as it has terms")
    if consumer.kind != "sum":
        raise NoRepairError(term, f"would change a {consumer.kind}, and only sums are rescaled")
    if "float" not in consumer.dtype:
        raise NoRepairError(term, f"changes by a factor, which {consumer.dtype} sums do not hold")
    if getattr(consumer.identity, "value", None) != 0:
        raise NoRepairError(consumer.identity, "is its initial value, which would be rescaled, too")
    factor = find_factor(term, running)
    if factor is None:
        raise NoRepairError(term, "is 0 throughout")
    return multiply_out(factor, running.value.ty.dtype)


@dataclass
class _Trial:
    """Two dependent reductions on drawn numbers.

    Attributes
    ----------
    producer : what the running value is found by, in the iterators of both
    consumer : what uses it
    term : what the consumer takes up, with `running.value` for the running value
    running : the running value, and what varies
    terms : what iterators of the consumer are in those of the producer, where they go over terms
    """

    producer: Reduction
    consumer: Reduction
    term: Any
    running: Running
    terms: dict[Any, Any]

    def choose(self, repair: Repair, iterators: Sequence[Any], by_ranges: bool) -> Repair:
        """The repair with the reference and the beginning that drawn numbers show to be right.

        Raises `NoRepairError` where none gives the results of the two reductions one after the
        other. Where these are not finite, as of a row of nothing but -inf, there is nothing to
        compare.
        """
        places = [(item.__chandle__(), self.running.varying(item)) for item in iterators]
        self.places = [
            {address: float(step if varies else 2) for address, varies in places}
            for step in range(_STEPS)
        ]
        self.read_first = {str(load) for load in find_all(self.producer.term, TensorLoad)}
        is_float, draws = "float" in self.producer.dtype, dict(_INTEGERS)
        if is_float:
            draws |= _FLOATS
        if is_float and self.producer.kind in ("maximum", "minimum"):
            infinity = -math.inf if self.producer.kind == "maximum" else math.inf
            for name, steps in _MASKS.items():
                draws[name.format(infinity)] = functools.partial(_mask, steps, infinity)
        pairs = itertools.product(range(_SEEDS), draws.items())
        self.draws: list[tuple[str, _Draw, random.Random, dict[Any, float]]] = [
            (name, draw, random.Random(seed), {}) for seed, (name, draw) in pairs
        ]
        identity = getattr(self.producer.identity, "value", None)
        references = ["itself", "not 0"] if identity == 0 else ["itself"]
        if isinstance(identity, float) and math.isinf(identity):
            references = ["finite" if identity < 0 else "finite below"]
        close, wanted = _CLOSE.get(self.consumer.dtype, 1e-2), self.by_ranges(None)
        compared = np.isfinite(wanted)
        for reference, begins in itertools.product(references, (True, False)):
            tried = replace(repair, reference=reference, begins=begins)
            got = self.by_ranges(tried) if by_ranges else self.by_updates(tried)
            allowed = close * np.maximum(1, np.maximum(np.abs(got), np.abs(wanted)))
            with np.errstate(invalid="ignore"):
                near = np.isfinite(got) & (np.abs(got - wanted) <= allowed)
            if np.any(compared & ~near):
                at = int(np.argmax(compared & ~near))
                name, *_ = self.draws[at]
                wrong = f"{name} it would give {got[at]:.6g}, and in two passes {wanted[at]:.6g}"
            elif np.count_nonzero(compared) >= _ENOUGH:
                return tried
            else:
                wrong = "the result is finite for too few random numbers"
        raise NoRepairError(self.term, f"changes by the factor {repair.change}, with which {wrong}")

    def find_mean(self, before: Sequence[SBlock]) -> int | None:
        """How many elements the producer's mean is taken over, if the term is the squared
        difference from that mean; None for other terms. Elements that a mask excludes are zeros,
        which blocks `before` the producer write.
        """
        term, found, (item,) = self.term, self.producer.term, self.producer.iterators(reduced=True)
        length = constant(item.dom.extent)
        if is_choice(term):
            inside, term, beyond = term.args
            is_end = isinstance(inside, LT) and item.var.same_as(self.terms.get(inside.a))
            if not is_end or not is_zero(beyond, []):
                return None
            length = constant(inside.b)
            loads = {load.source: load.indices for load in find_all(found, TensorLoad)}
            zeros = [
                store.buffer
                for store in (block.body for block in before)
                if isinstance(store, BufferStore) and store.buffer in loads
                if is_choice(store.value) and is_zero(store.value.args[2], [])
                for at, index in zip(store.indices, loads[store.buffer], strict=True)
                if index.same_as(item.var)
                if structural_equal(store.value.args[0], at < inside.b)
            ]
            if not is_zero(found, [item.var], zeros):
                return None
        off = term.a if isinstance(term, Mul) and structural_equal(term.a, term.b) else None
        if not isinstance(off, Sub) or not isinstance(off.b, Div):
            return None
        is_sum = all(
            it.kind == "sum" and is_zero(it.identity, []) for it in (self.producer, self.consumer)
        )
        element = simplify_indices(substitute(off.a, self.terms), Analyzer())
        is_mean = off.b.a.same_as(self.running.value) and getattr(off.b.b, "value", None) == length
        return length if is_sum and is_mean and structural_equal(element, found) else None

    def evaluate(self, expression: Any, step: int, values: dict[Var, Any]) -> Any:
        """An expression at a step, of variables and of drawn numbers: one value for each draw."""
        known = {variable.__chandle__(): value for variable, value in values.items()}
        load = functools.partial(self.load, step)
        found = evaluate(expression, {**self.places[step], **known}, load)
        return np.broadcast_to(np.float64(found), len(self.draws))

    def load(self, step: int, node: TensorLoad, where: Any) -> Any:
        """The numbers that a load has at a step, drawn where they are asked for first."""
        name, varies, dtype = str(node), self.running.varying(node), str(node.ty.dtype)
        key, numbers = (name, step if varies else -1), np.zeros(len(self.draws))
        is_float = "float" in self.producer.dtype
        for at in np.flatnonzero(np.broadcast_to(where, len(self.draws))):
            _, draw, generator, known = self.draws[at]
            if key not in known and "int" in dtype and is_float:
                known[key] = generator.randint(0, _STEPS)  # a length or a place, as a mask has
            elif key not in known:
                value = draw(generator, step, varies and name in self.read_first)
                known[key] = abs(value) if "uint" in dtype else value
            numbers[at] = known[key]
        return numbers

    def take_up(self, before: Any, value: Any) -> Any:
        """A result with one more term, in the producer's iterators, of a running value."""
        placed = substitute(self.term, {**self.terms, self.running.value: value})
        return self.consumer.combine(before, simplify_indices(placed, Analyzer()))

    def produce(self, steps: Sequence[int]) -> list[Any]:
        """Values of the producer: what it begins with, and then after each of some steps."""
        old, found = self.running.old, [self.evaluate(self.producer.identity, 0, {})]
        update = self.producer.combine(old, self.producer.term)
        for step in steps:
            found.append(self.evaluate(update, step, {old: found[-1]}))
        return found

    def by_ranges(self, repair: Repair | None) -> Any:
        """The results by ranges with values of their own; without a repair in two passes."""
        old, new, dtype = self.running.old, self.running.new, self.consumer.dtype
        before, part = Var("before", dtype), Var("part", dtype)
        taken = self.take_up(before, old if repair is None else repair.refer(old))
        repaired = part if repair is None else repair.apply(part, old, new)
        combined, size = (
            self.consumer.combine(before, repaired),
            _STEPS if repair is None else _RANGE,
        )
        whole, zero = self.produce(range(_STEPS))[-1], self.evaluate(self.consumer.identity, 0, {})
        result = zero
        for first in range(0, _STEPS, size):
            steps = range(first, first + size)
            own, came_to = self.produce(steps)[-1], zero
            for step in steps:
                came_to = self.evaluate(taken, step, {before: came_to, old: own})
            values = {before: result, part: came_to, old: own, new: whole}
            result = self.evaluate(combined, first, values)
        return result

    def by_updates(self, repair: Repair) -> Any:
        """The results by rolling updates."""
        old, new, before = self.running.old, self.running.new, Var("before", self.consumer.dtype)
        later = self.take_up(repair.apply(before, old, new), repair.refer(new))
        first = later if repair.begins else self.take_up(before, repair.refer(new))
        found = self.produce(range(_STEPS))
        result = self.evaluate(self.consumer.identity, 0, {})
        for step in range(_STEPS):
            values = {before: result, old: found[step], new: found[step + 1]}
            result = self.evaluate(later if step else first, step, values)
        return result


def _mask(steps: tuple[int, ...], infinity: float, generator: Any, step: int, first: bool) -> float:
    """A number, or an infinite one at some steps, where the producer reads it."""
    value = generator.uniform(-2, 2)
    return infinity if first and step in steps else float(value)


_INTEGERS: dict[str, _Draw] = {
    "on small integers": lambda generator, step, first: generator.randint(-2, 2),
    "on numbers that grow": lambda generator, step, first: 3 * step + generator.randint(0, 2),
    "on numbers that fall": lambda generator, step, first: generator.randint(0, 2) - 3 * step,
    "on numbers that change sign": lambda generator, step, first: (
        4 * step - 8 + generator.randint(0, 2)
    ),
    "on zeros": lambda generator, step, first: 0 if first else generator.randint(1, 3),
}
_FLOATS: dict[str, _Draw] = {
    "on positive numbers": lambda generator, step, first: generator.uniform(0.5, 2),
    "on numbers far apart": lambda generator, step, first: generator.gauss(0, 50),
    "on zeros first": lambda generator, step, first: 0 if step < 2 else generator.uniform(1, 2),
}
"""Numbers by generator, step, and whether the producer reads them."""
_MASKS = {"with {} first": (0, 1), "with {} between": (2, 3)}
"""Steps whose numbers are infinite, so that they do not count."""
