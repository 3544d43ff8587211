"""The repair of a partial result: derived, given a value to begin with, and tried on drawn numbers.

The algebra holds for every real value that the running value is replaced by, which makes room where
it is not real yet: of a maximum that has met nothing but -inf, the terms are taken relative to the
least finite number, so that no ``-inf - -inf`` makes a NaN (`Repair.refer`).
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import Var, const

from ..tir import find_all, substitute
from .evaluation import UnknownOperationError, compile_expression
from .factors import ANY, NoRepairError, Running, Scale, find_scale, find_shift
from .nests import simplify_indices
from .polynomials import find_derivatives
from .reductions import Reduction

_STEPS = 6
"""Terms of a drawn reduction."""
_RANGE = 2
"""Terms of a range, where it is split."""
_SEEDS = 3
_ENOUGH = 6
"""Drawn reductions that must have a finite result for a repair to count as tried."""
_CLOSE = {"float64": 1e-9, "float32": 1e-5}
"""Relative differences of results that are the same: constants are rounded to a program's types."""
_COARSE = 1e-2
"""Of narrower types."""
_ROW = 2
"""What stands for the iterators of rows."""
_Load = Callable[[int], Callable[[Any], float]]
"""Drawn numbers: of a step, and there of a load."""
_Compute = Callable[[Sequence[float], Callable[[Any], float]], float]
"""An expression that is ready to be calculated."""


@dataclass(frozen=True)
class Repair:
    """What a partial result becomes when the running value goes from `old` to `new`.

    Attributes
    ----------
    change : the factor or summand, an expression of `old` and `new`; of moments their difference
    kind : ``"factor"``, ``"summand"``, or ``"moments"`` for sums of derivatives beside it
    old, new : variables
    derivatives : of the term, of which these sums are
    reference : what stands for a running value: ``"itself"``, ``"finite"`` for the least finite
        number in the place of -inf, ``"finite below"`` for the largest in the place of inf, ``"not
        0"`` for 1 in the place of a 0, ``"extrapolated"`` for what a sum comes to if it goes on so
    begins : whether the first iteration may repair what nothing was added to yet
    """

    change: Any
    kind: str
    old: Var
    new: Var
    derivatives: tuple[Any, ...] = ()
    reference: str = "itself"
    begins: bool = False

    def apply(self, results: Sequence[Any], old: Any, new: Any) -> Any:
        """The repaired result, of the running values of before and of now.

        `results` are what is repaired, and behind it the sums of further derivatives, of before.
        """
        result, *moments = results
        values = {self.old: self.refer(old, EARLIER), self.new: self.refer(new)}
        change = substitute(self.change, values).astype(result.ty.dtype)
        if self.kind == "factor":
            return result * change
        if self.kind == "summand":
            return result + change
        for order, moment in enumerate(moments, start=1):
            divisor = const(1 / math.factorial(order), result.ty.dtype)
            result = result + math.prod([change] * order, start=moment) * divisor
        return result

    def refer(self, value: Any, share: Var | None = None) -> Any:
        """What terms take for the running value; `share` is `SHARE` unless it is of before."""
        dtype = value.ty.dtype
        if self.reference == "finite":
            return tirx.max(value, tirx.min_value(str(dtype)))
        if self.reference == "finite below":
            return tirx.min(value, tirx.max_value(str(dtype)))
        if self.reference == "not 0":
            return tirx.Select(value == const(0, dtype), const(1, dtype), value)
        if self.reference == "extrapolated":
            return value * (SHARE if share is None else share).astype(dtype)
        return value


SHARE, EARLIER = Var("share", "float32"), Var("earlier", "float32")
"""How many times what has been added up is to come in all: after this iteration, and before it."""


@dataclass(frozen=True)
class Pair:
    """Two dependent reductions, in the same iterators.

    Attributes
    ----------
    producer : what the running value is found by
    consumer : what uses it
    term : what the consumer takes up, with `running.value` for the running value
    running : the running value, and what varies
    iterators : of both
    terms : what iterators of the consumer are in those of the producer, where they go over terms
    is_plain : whether no block stands between the two
    """

    producer: Reduction
    consumer: Reduction
    term: Any
    running: Running
    iterators: tuple[Any, ...]
    terms: dict[Any, Any]
    is_plain: bool


Reduce = Callable[["_Calculator", Repair], Callable[[], float]]
"""What finds the consumer's result on the numbers that are drawn, with a repair."""


def find_repair(pair: Pair) -> Repair:
    """The repair of a consumer, derived and tried; raises `NoRepairError` where there is none."""
    try:
        return try_repair(pair, derive_repair(pair))
    except NoRepairError as error:
        if pair.consumer.kind != "sum" or "float" not in pair.consumer.dtype:
            raise
        try:
            return try_repair(pair, _repair_by_moments(pair))
        except NoRepairError:
            raise error from None


def find_split_repair(pair: Pair) -> Repair:
    """The repair of what a range of terms came to with its own value, derived and tried so.

    Raises `NoRepairError` where there is none: sums of derivatives are not kept by range.
    """
    return try_repair(pair, derive_repair(pair), _by_ranges)


def derive_repair(pair: Pair) -> Repair:
    """The repair by a factor or a summand, as the algebra has it; raises `NoRepairError`."""
    old, new = _name_values(pair)
    kind, value = pair.consumer.kind, pair.running.value
    if not _is_neutral(pair.consumer):
        raise NoRepairError(
            pair.consumer.identity, "is what it begins with, and would be repaired, too"
        )
    if kind == "product":
        raise NoRepairError(pair.term, "would change a product by as many factors as it has terms")
    holds_factors = "float" in pair.consumer.dtype
    if kind == "sum":
        if not holds_factors:
            raise NoRepairError(
                pair.term, f"changes by a factor, which {pair.consumer.dtype} sums do not hold"
            )
        return _repair_by_scale(pair, find_scale(pair.term, pair.running), old, new)
    try:
        shift = find_shift(pair.term, pair.running)
    except NoRepairError as error:
        if not holds_factors:
            raise
        scale = find_scale(pair.term, pair.running)
        if not scale.is_positive:
            raise NoRepairError(
                pair.term, "may change its sign, and the largest term be another then"
            ) from error
        return _repair_by_scale(pair, scale, old, new)
    if shift is None:
        raise NoRepairError(pair.term, "does not change")
    return Repair(shift.get_change(value, old, new), "summand", old, new)


def _name_values(pair: Pair) -> tuple[Var, Var]:
    dtype = pair.running.value.ty.dtype
    return Var("old", dtype), Var("new", dtype)


def _repair_by_moments(pair: Pair) -> Repair:
    if not _is_neutral(pair.consumer):
        raise NoRepairError(pair.consumer.identity, "is what it begins with")
    old, new = _name_values(pair)
    derivatives = find_derivatives(pair.term, pair.running)
    return Repair(new - old, "moments", old, new, tuple(derivatives))


def _is_neutral(reduction: Reduction) -> bool:
    """Whether what a reduction begins with adds nothing to it."""
    value = getattr(reduction.identity, "value", None)
    if reduction.kind in ("sum", "product"):
        return value == (reduction.kind == "product")
    least = reduction.kind == "maximum"
    bound = tirx.min_value(reduction.dtype) if least else tirx.max_value(reduction.dtype)
    return value in (bound.value, -math.inf if least else math.inf)


def _repair_by_scale(pair: Pair, scale: Scale, old: Var, new: Var) -> Repair:
    if scale is ANY:
        raise NoRepairError(pair.term, "is 0 throughout")
    return Repair(scale.get_ratio(pair.running.value, old, new), "factor", old, new)


def try_repair(pair: Pair, repair: Repair, reduce: Reduce | None = None) -> Repair:
    """The repair with the reference and the beginning that drawn numbers show to be right.

    `reduce` finds the consumer's result with a repair; by rolling updates, without it.
    Raises `NoRepairError` where none gives the results of the two reductions one after the other.
    """
    wrong: str | None = "blocks between it would need to know the iteration"
    at = _Calculator(pair)
    for reference in _find_references(pair, repair):
        for begins in (True, False):
            tried = replace(repair, reference=reference, begins=begins)
            wrong = _find_wrong(at, (reduce or _by_updates)(at, tried))
            if wrong is None:
                return tried
    raise NoRepairError(
        pair.term, f"changes by the {repair.kind} {repair.change}, with which {wrong}"
    )


def _find_references(pair: Pair, repair: Repair) -> list[str]:
    identity = getattr(pair.producer.identity, "value", None)
    if repair.kind == "moments" and pair.producer.kind == "sum":
        return ["extrapolated"] if pair.is_plain else []
    if isinstance(identity, float) and math.isinf(identity):
        return ["finite" if identity < 0 else "finite below"]
    return ["itself", "not 0"] if identity == 0 else ["itself"]


def _find_wrong(at: _Calculator, reduce: Callable[[], float]) -> str | None:
    """The drawn numbers on which a repair does not give the result of the two reductions.

    Where the direct result is not finite, such as that of a row of nothing but -inf, there is
    nothing to compare.
    """
    pair, compared = at.pair, 0
    for name, load in _draw_loads(pair):
        at.load = load
        try:
            wanted, got = at.reduce_in_two_passes(), reduce()
        except UnknownOperationError as error:
            raise NoRepairError(
                pair.term, f"has the operation '{error}', which is not evaluated on drawn numbers"
            ) from error
        if math.isnan(wanted) and "float" not in pair.consumer.dtype:
            raise NoRepairError(
                pair.term, f"has {name} values that {pair.consumer.dtype} does not hold"
            )
        if math.isfinite(wanted):
            compared += 1
            close = _CLOSE.get(pair.consumer.dtype, _COARSE)
            if not math.isclose(got, wanted, rel_tol=close, abs_tol=close):
                return f"{name} it would give {got:.6g}, and in two passes {wanted:.6g}"
    return None if compared >= _ENOUGH else "too few drawn numbers it has a finite result"


class _Calculator:
    """Values of expressions of two reductions, at drawn numbers.

    What it calculates is made ready once, for all drawn numbers.

    Attributes
    ----------
    term : the consumer's term in the producer's iterators, of the running value
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.load: _Load = _unknown
        varying = [pair.running.varying(item) for item in pair.iterators]
        self.places = [[step if it else _ROW for it in varying] for step in range(_STEPS)]
        producer, consumer = pair.producer, pair.consumer
        old, found = (Var(name, producer.dtype) for name in ("old", "found"))
        before, taken = (Var(name, consumer.dtype) for name in ("before", "taken"))
        self.own_identity = self.prepare(producer.identity)
        self.own_term = self.prepare(producer.term)
        self.own_join = self.prepare(producer.combine(old, found), old, found)
        self.identity = self.prepare(consumer.identity)
        self.joined = self.prepare(consumer.combine(before, taken), before, taken)
        self.term = self.prepare_term(pair.term)

    def prepare(self, expression: Any, *variables: Var) -> _Compute:
        """An expression for `calculate`, of iterators and of `variables`."""
        return compile_expression(expression, [*self.pair.iterators, *variables])

    def prepare_term(self, term: Any, *variables: Var) -> _Compute:
        """A term for `calculate`, of the running value and of `variables`."""
        return self.prepare(_place(term, self.pair), self.pair.running.value, *variables)

    def calculate(self, compute: _Compute, step: int, *values: float) -> float:
        """The value at a step of what was prepared; `values` are those of its variables."""
        return compute([*self.places[step], *values], self.load(step))

    def reduce(self, steps: Sequence[int]) -> list[float]:
        """Values of the producer: what it begins with, and then after each step."""
        values = [self.calculate(self.own_identity, 0)]
        for step in steps:
            item = self.calculate(self.own_term, step)
            values.append(self.calculate(self.own_join, step, values[-1], item))
        return values

    def begin(self) -> float:
        """What the consumer begins with."""
        return self.calculate(self.identity, 0)

    def join(self, result: float, item: float, step: int) -> float:
        """The consumer's result with one more term."""
        return self.calculate(self.joined, step, result, item)

    def reduce_in_two_passes(self) -> float:
        """The consumer's result with the producer's final value."""
        final = self.reduce(range(_STEPS))[-1]
        result = self.begin()
        for step in range(_STEPS):
            result = self.join(result, self.calculate(self.term, step, final), step)
        return result


def _unknown(step: int) -> Callable[[Any], float]:
    raise AssertionError(f"no numbers are drawn for step {step}")


def _place(term: Any, pair: Pair) -> Any:
    """A consumer's term in the producer's iterators, its loads written as the producer's are."""
    return simplify_indices(substitute(term, pair.terms), Analyzer())


def _by_ranges(at: _Calculator, repair: Repair) -> Callable[[], float]:
    """The consumer's result by ranges of terms, each with the producer's value of its own."""
    running = at.pair.running.value
    old, new = (Var(name, at.pair.producer.dtype) for name in ("old", "new"))
    part = Var("part", at.pair.consumer.dtype)
    repaired = at.prepare(repair.apply([part], old, new), old, new, part)
    referred = at.prepare(repair.refer(running), running)

    def reduce() -> float:
        whole = at.reduce(range(_STEPS))[-1]
        result = at.begin()
        for first in range(0, _STEPS, _RANGE):
            steps = range(first, first + _RANGE)
            own = at.reduce(steps)[-1]
            came_to = at.begin()
            for step in steps:
                used = at.calculate(referred, step, own)
                came_to = at.join(came_to, at.calculate(at.term, step, used), step)
            result = at.join(result, at.calculate(repaired, first, own, whole, came_to), first)
        return result

    return reduce


def _by_updates(at: _Calculator, repair: Repair) -> Callable[[], float]:
    """The consumer's result by rolling updates."""
    consumer, running = at.pair.consumer, at.pair.running.value
    old, new = (Var(name, at.pair.producer.dtype) for name in ("old", "new"))
    terms = [at.term, *map(at.prepare_term, repair.derivatives)]
    names = [Var(f"sum{order}", consumer.dtype) for order in range(len(terms))]
    known = (old, new, SHARE, EARLIER, *names)
    repaired = [
        at.prepare(repair.apply(names[order:], old, new), *known) for order in range(len(terms))
    ]
    referred = at.prepare(repair.refer(running), running, SHARE, EARLIER)

    def reduce() -> float:
        values = at.reduce(range(_STEPS))
        results = [at.begin()] * len(terms)
        for step in range(_STEPS):
            shares = (_STEPS / (step + 1), _STEPS / step if step else math.nan)
            if step or repair.begins:
                now = (*values[step : step + 2], *shares, *results)
                results = [at.calculate(expression, step, *now) for expression in repaired]
            used = at.calculate(referred, step, values[step + 1], *shares)
            items = [at.calculate(term, step, used) for term in terms]
            results = [
                at.join(result, item, step) for result, item in zip(results, items, strict=True)
            ]
        return results[0]

    return reduce


_Draw = Callable[[random.Random, int, bool], float]


def _draw_loads(pair: Pair) -> Iterator[tuple[str, _Load]]:
    """Drawn values of all that the two reductions load, each as a function of step and load."""
    read_first = {str(load) for load in find_all(pair.producer.term, TensorLoad)}
    is_extreme = pair.producer.kind in ("maximum", "minimum")
    draws = _DRAWS if "float" in pair.producer.dtype else _INTEGERS
    infinity = -math.inf if pair.producer.kind == "maximum" else math.inf
    masks = _MASKS if is_extreme and draws is _DRAWS else {}
    for name, steps in masks.items():
        draws = {**draws, name.format(infinity): _masked(steps, infinity)}
    for seed in range(_SEEDS):
        for name, draw in draws.items():
            yield name, _Drawn(pair, read_first, draw, random.Random(seed)).at


_spell = functools.lru_cache(maxsize=256)(str)
"""A node as text, which TVM takes some time to write."""


class _Drawn:
    """Numbers for all loads of two reductions, the same for the same load at the same step."""

    def __init__(self, pair: Pair, first: set[str], draw: _Draw, generator: random.Random) -> None:
        self.pair, self.first, self.draw, self.generator = pair, first, draw, generator
        self.known: dict[tuple[str, int], float] = {}
        self.read = functools.cache(self._read)

    def at(self, step: int) -> Callable[[Any], float]:
        """The numbers at a step, by load."""
        return partial(self._load, step)

    def _load(self, step: int, node: Any) -> float:
        name, varies = self.read(node)
        key = (name, step if varies else -1)
        if key not in self.known and self._counts(node):
            self.known[key] = self.generator.randint(0, _STEPS)
        elif key not in self.known:
            is_first = varies and name in self.first
            value = self.draw(self.generator, step, is_first)
            self.known[key] = abs(value) if "uint" in str(node.ty.dtype) else value
        return self.known[key]

    def _read(self, node: Any) -> tuple[str, bool]:
        return _spell(node), self.pair.running.varying(node)

    def _counts(self, node: Any) -> bool:
        """Whether a load is of an integer beside floats: a length or a place, as a mask has."""
        return "int" in str(node.ty.dtype) and "float" in self.pair.producer.dtype


def _masked(steps: tuple[int, ...], infinity: float) -> _Draw:
    """Numbers of which those at some steps are infinite, where the producer reads them."""

    def draw(generator: random.Random, step: int, is_first: bool) -> float:
        value = generator.uniform(-2, 2)
        return infinity if is_first and step in steps else value

    return draw


_INTEGERS: dict[str, _Draw] = {
    "on small integers": lambda generator, step, is_first: generator.randint(-2, 2),
    "on numbers that grow": lambda generator, step, is_first: 3 * step + generator.randint(0, 2),
    "on numbers that change their sign": lambda generator, step, is_first: (
        4 * step - 8 + generator.randint(0, 2)
    ),
    "on numbers that fall": lambda generator, step, is_first: generator.randint(0, 2) - 3 * step,
    "on numbers that cancel": lambda generator, step, is_first: (
        (-1) ** step if is_first else generator.randint(1, 3)
    ),
    "on zeros": lambda generator, step, is_first: 0 if is_first else generator.randint(1, 3),
}
_DRAWS: dict[str, _Draw] = {
    **_INTEGERS,
    "on numbers of both signs": lambda generator, step, is_first: generator.gauss(0, 2),
    "on positive numbers": lambda generator, step, is_first: generator.uniform(0.5, 2),
    "on negative numbers": lambda generator, step, is_first: generator.uniform(-2, -0.5),
    "on numbers far apart": lambda generator, step, is_first: generator.gauss(0, 50),
    "on zeros first": lambda generator, step, is_first: 0 if step < 2 else generator.uniform(1, 2),
}
"""Numbers by generator, step, and whether the producer reads them."""
_MASKS = {
    "with {} first": (0, 1),
    "with {} between": (2, 3),
    "with {} last": (4, 5),
    "with {} at both ends": (0, 5),
}
"""Steps whose numbers are infinite, so that they do not count."""
