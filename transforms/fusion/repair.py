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
from typing import Any, TypeAlias

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import Var, const
from tvm_ffi import structural_map

from ..errors import TransformError
from ..tir import constant, find_all, is_among, substitute
from .blocks import simplify_indices
from .evaluation import UnknownOperationError, compile_expression
from .factors import NoRepairError, Running, find_derivatives, find_factor, find_summand
from .reductions import Reduction, uses_any
from .sides import Consumer, Producer, match_iterators

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
_Load: TypeAlias = Callable[[int, Any], float]
"""Drawn numbers, by step and load."""
_Draw: TypeAlias = Callable[[random.Random, int, bool], float]
SHARE, EARLIER = Var("share", "float32"), Var("earlier", "float32")
"""How many times what has been added up is to come in all: after this iteration, and before it."""


@dataclass(frozen=True)
class Repair:
    """What a partial result becomes when the running value goes from `old` to `new`.

    Attributes
    ----------
    change : the factor or summand, an expression of `old` and `new`; of moments their difference
    kind : ``"factor"``, ``"summand"``, or ``"moments"`` for sums of derivatives beside it
    running : the running value, and the variables `old` and `new`
    derivatives : of the term, of which these sums are
    reference : what stands for a running value: ``"itself"``, ``"finite"`` for the least finite
        number in the place of -inf, ``"finite below"`` for the largest in the place of inf, ``"not
        0"`` for 1 in the place of a 0, ``"extrapolated"`` for what a sum comes to if it goes on so
    begins : whether the first iteration may repair what nothing was added to yet
    """

    change: Any
    kind: str
    running: Running
    derivatives: tuple[Any, ...] = ()
    reference: str = "itself"
    begins: bool = False

    def apply(self, results: Sequence[Any], old: Any, new: Any) -> Any:
        """The repaired result, of the running values of before and of now.

        `results` are what is repaired, and behind it the sums of further derivatives, of before.
        """
        result, *moments = results
        values = {self.running.old: self.refer(old, EARLIER), self.running.new: self.refer(new)}
        change = substitute(self.change, values).astype(result.ty.dtype)
        if self.kind == "factor":
            return result * change
        if self.kind == "summand":
            return result + change
        for order, moment in enumerate(moments, start=1):
            divisor = const(1 / math.factorial(order), result.ty.dtype)
            result = result + math.prod([change] * order, start=moment) * divisor
        return result

    def refer(self, value: Any, share: Var = SHARE) -> Any:
        """What terms take for the running value; `share` is `EARLIER` for one of before."""
        dtype = value.ty.dtype
        if self.reference == "finite":
            return tirx.max(value, tirx.min_value(str(dtype)))
        if self.reference == "finite below":
            return tirx.min(value, tirx.max_value(str(dtype)))
        if self.reference == "not 0":
            return tirx.Select(value == const(0, dtype), const(1, dtype), value)
        if self.reference == "extrapolated":
            return value * share.astype(dtype)
        return value


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
    is_plain : whether no block stands between the two, and the number of terms is known
    """

    producer: Reduction
    consumer: Reduction
    term: Any
    running: Running
    iterators: tuple[Any, ...]
    terms: dict[Any, Any]
    is_plain: bool


def plan_repair(
    producer: Producer, consumer: Consumer, advice: str, *, by_ranges: bool = False
) -> tuple[Repair, dict[Any, Any]]:
    """The repair of a consumer, and its iterators in those of the producer's block.

    Raises `TransformError` where there is none, which names the part that has none.
    """
    matched = match_iterators(producer, consumer)
    buffer, own = producer.buffer, consumer.reduction.block.iter_vars
    rows = {theirs: mine for mine, theirs in matched.items() if is_among(theirs, producer.rows)}
    terms = {mine: theirs for mine, theirs in matched.items() if not is_among(mine, rows.values())}
    value, old, new = (Var(name, buffer.dtype) for name in (str(buffer.name), "old", "new"))
    others = [item.var for item in producer.reduction.block.iter_vars if item.var not in rows]
    reduced = consumer.reduction.iterators(reduced=True)
    varying = [*others, *(item.var for item in reduced)]
    found = substitute(producer.reduction.term, rows)
    extents = [it.extent for it in (*(item.dom for item in reduced), *producer.inner)]
    pair = Pair(
        producer.reduction._replace(term=simplify_indices(found, Analyzer())),
        consumer.reduction,
        structural_map(
            consumer.term, (TensorLoad, lambda it: value if it.source.same_as(buffer) else it)
        ),
        Running(value, lambda expression: uses_any(expression, varying), old, new),
        (*others, *(item.var for item in own)),
        terms,
        not consumer.definitions and all(constant(extent) is not None for extent in extents),
    )
    try:
        return find_repair(pair, by_ranges=by_ranges), matched
    except NoRepairError as error:
        raise TransformError(
            f"what block '{consumer.reduction.name}' has taken up cannot follow '{buffer.name}' of "
            f"block '{producer.reduction.name}': its term's part {error.part} {error.reason}",
            f"{advice}, or write the term so that the rest is done to the result",
        ) from error


def find_repair(pair: Pair, *, by_ranges: bool = False) -> Repair:
    """The repair of a consumer, derived and tried by rolling updates, or by ranges of terms.

    By ranges it is that of what each came to with its own value, for which sums of derivatives are
    not kept. Raises `NoRepairError` where there is none.
    """
    consumer, running = pair.consumer, pair.running
    holds_factors = "float" in consumer.dtype
    if not _is_neutral(consumer):
        raise NoRepairError(consumer.identity, "is what it begins with, and would be repaired, too")
    try:
        change, kind = derive_change(pair)
        return _try(pair, Repair(change, kind, running), by_ranges)
    except NoRepairError as error:
        if consumer.kind != "sum" or not holds_factors or by_ranges:
            raise
        try:
            derivatives = tuple(find_derivatives(pair.term, running))
            moments = Repair(running.new - running.old, "moments", running, derivatives)
            return _try(pair, moments, by_ranges)
        except NoRepairError:
            raise error from None


def _is_neutral(reduction: Reduction) -> bool:
    """Whether what a reduction begins with adds nothing to it."""
    value = getattr(reduction.identity, "value", None)
    if reduction.kind in ("sum", "product"):
        return value == (reduction.kind == "product")
    least = reduction.kind == "maximum"
    bound = tirx.min_value(reduction.dtype) if least else tirx.max_value(reduction.dtype)
    return value in (bound.value, -math.inf if least else math.inf)


def derive_change(pair: Pair) -> tuple[Any, str]:
    """The change as the algebra has it, and whether it is a factor or a summand."""
    term, running, kind = pair.term, pair.running, pair.consumer.kind
    holds_factors = "float" in pair.consumer.dtype
    if kind == "product":
        raise NoRepairError(term, "would change a product by as many factors as it has terms")
    if kind == "sum" and not holds_factors:
        raise NoRepairError(
            term, f"changes by a factor, which {pair.consumer.dtype} sums do not hold"
        )
    if kind != "sum":
        try:
            change = find_summand(term, running)
            if change is None:
                raise NoRepairError(term, "does not change")
            return change, "summand"
        except NoRepairError:
            if not holds_factors:
                raise
    factor = find_factor(term, running)
    if factor is None:
        raise NoRepairError(term, "is 0 throughout")
    if kind != "sum" and not factor.is_positive:
        raise NoRepairError(term, "may change its sign, and the largest term be another then")
    return factor.as_expression(running.value.ty.dtype), "factor"


def _try(pair: Pair, repair: Repair, by_ranges: bool) -> Repair:
    """The repair with the reference and the beginning that drawn numbers show to be right.

    Raises `NoRepairError` where none gives the results of the two reductions one after the other.
    """
    identity, trial = getattr(pair.producer.identity, "value", None), _Trial(pair)
    if repair.kind == "moments" and pair.producer.kind == "sum":
        references = ["extrapolated"] if pair.is_plain else []
    elif isinstance(identity, float) and math.isinf(identity):
        references = ["finite" if identity < 0 else "finite below"]
    else:
        references = ["itself", "not 0"] if identity == 0 else ["itself"]
    wrong: str | None = "blocks between it would need to know the iteration"
    for reference in references:
        for begins in (True, False):
            tried = replace(repair, reference=reference, begins=begins)
            try:
                wrong = trial.find_wrong(tried, by_ranges)
            except UnknownOperationError as error:
                raise NoRepairError(
                    pair.term,
                    f"has the operation '{error}', which is not evaluated on drawn numbers",
                ) from error
            if wrong is None:
                return tried
    raise NoRepairError(
        pair.term, f"changes by the {repair.kind} {repair.change}, with which {wrong}"
    )


class _Trial:
    """Two reductions on drawn numbers: one after the other, by rolling updates, and by ranges."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.load: _Load
        places = [(item.__chandle__(), pair.running.varying(item)) for item in pair.iterators]
        self.places = [
            {address: float(step if varies else _ROW) for address, varies in places}
            for step in range(_STEPS)
        ]
        producer, self.old, self.new = pair.producer, pair.running.old, pair.running.new
        self.produced = producer.combine(self.old, producer.term)
        self.before = Var("before", pair.consumer.dtype)

    def take_up(self, before: Any, value: Any, term: Any) -> Any:
        """A result with one more term, in the producer's iterators, of a running value."""
        values = {**self.pair.terms, self.pair.running.value: value}
        placed = simplify_indices(substitute(term, values), Analyzer())
        return self.pair.consumer.combine(before, placed)

    def value(self, expression: Any, step: int, values: dict[Var, float]) -> float:
        """The value of an expression at a step."""
        known = {variable.__chandle__(): value for variable, value in values.items()}
        load = functools.partial(self.load, step)
        return float(compile_expression(expression)({**self.places[step], **known}, load))

    def produce(self, steps: Sequence[int]) -> list[float]:
        """Values of the producer: what it begins with, and then after each step."""
        values = [self.value(self.pair.producer.identity, 0, {})]
        for step in steps:
            values.append(self.value(self.produced, step, {self.old: values[-1]}))
        return values

    def begin(self) -> float:
        """What the consumer begins with."""
        return self.value(self.pair.consumer.identity, 0, {})

    def find_wrong(self, repair: Repair, by_ranges: bool) -> str | None:
        """The drawn numbers on which a repair does not give the result of the two reductions.

        Where the direct result is not finite, such as that of a row of nothing but -inf, there is
        nothing to compare.
        """
        dtype, compared = self.pair.consumer.dtype, 0
        close, whole = _CLOSE.get(dtype, _COARSE), self.by_ranges(None)
        reduce = self.by_ranges(repair) if by_ranges else self.by_updates(repair)
        for name, load in _draw_loads(self.pair):
            self.load = load
            wanted, got = whole(), reduce()
            if math.isnan(wanted) and "float" not in dtype:
                raise NoRepairError(self.pair.term, f"has {name} values that {dtype} does not hold")
            if math.isfinite(wanted):
                compared += 1
                if not math.isclose(got, wanted, rel_tol=close, abs_tol=close):
                    return f"{name} it would give {got:.6g}, and in two passes {wanted:.6g}"
        return None if compared >= _ENOUGH else "too few drawn numbers it has a finite result"

    def by_ranges(self, repair: Repair | None) -> Callable[[], float]:
        """The result by ranges with values of their own; without a repair in two passes."""
        used = self.old if repair is None else repair.refer(self.old)
        taken = self.take_up(self.before, used, self.pair.term)
        part, size = Var("part", self.pair.consumer.dtype), _STEPS if repair is None else _RANGE
        repaired = part if repair is None else repair.apply([part], self.old, self.new)
        combined = self.pair.consumer.combine(self.before, repaired)

        def reduce() -> float:
            whole, result = self.produce(range(_STEPS))[-1], self.begin()
            for first in range(0, _STEPS, size):
                steps = range(first, first + size)
                own, came_to = self.produce(steps)[-1], self.begin()
                for step in steps:
                    came_to = self.value(taken, step, {self.before: came_to, self.old: own})
                known = {self.before: result, part: came_to, self.old: own, self.new: whole}
                result = self.value(combined, first, known)
            return result

        return reduce

    def by_updates(self, repair: Repair) -> Callable[[], float]:
        """The result by rolling updates."""
        terms = [self.pair.term, *repair.derivatives]
        sums = [Var(f"sum{order}", self.pair.consumer.dtype) for order in range(len(terms))]
        used = repair.refer(self.new)
        repaired = [repair.apply(sums[at:], self.old, self.new) for at in range(len(terms))]
        later = [self.take_up(it, used, term) for it, term in zip(repaired, terms, strict=True)]
        first = [self.take_up(it, used, term) for it, term in zip(sums, terms, strict=True)]

        def reduce() -> float:
            values, results = self.produce(range(_STEPS)), [self.begin()] * len(terms)
            for step in range(_STEPS):
                shares = {SHARE: _STEPS / (step + 1), EARLIER: _STEPS / step if step else math.nan}
                known = {self.old: values[step], self.new: values[step + 1], **shares}
                known.update(zip(sums, results, strict=True))
                updates = later if step or repair.begins else first
                results = [self.value(update, step, known) for update in updates]
            return results[0]

        return reduce


def _draw_loads(pair: Pair) -> Iterator[tuple[str, _Load]]:
    """Drawn values of all that the two reductions load, each as a function of step and load."""
    read_first = {str(load) for load in find_all(pair.producer.term, TensorLoad)}
    is_float = "float" in pair.producer.dtype
    draws = {**_INTEGERS, **_FLOATS} if is_float else _INTEGERS
    if is_float and pair.producer.kind in ("maximum", "minimum"):
        infinity = -math.inf if pair.producer.kind == "maximum" else math.inf
        for name, steps in _MASKS.items():
            draws[name.format(infinity)] = functools.partial(_mask, steps, infinity)

    @functools.lru_cache(maxsize=64)
    def read(node: Any) -> tuple[str, bool, str]:
        return str(node), pair.running.varying(node), str(node.ty.dtype)

    def make_load(draw: _Draw, generator: random.Random) -> _Load:
        known: dict[tuple[str, int], float] = {}

        def load(step: int, node: Any) -> float:
            name, varies, dtype = read(node)
            key = (name, step if varies else -1)
            if key not in known and "int" in dtype and is_float:
                known[key] = generator.randint(0, _STEPS)  # a length or a place, as a mask has
            elif key not in known:
                value = draw(generator, step, varies and name in read_first)
                known[key] = abs(value) if "uint" in dtype else value
            return known[key]

        return load

    for seed in range(_SEEDS):
        for name, draw in draws.items():
            yield name, make_load(draw, random.Random(seed))


def _mask(steps: tuple[int, ...], infinity: float, generator: Any, step: int, first: bool) -> float:
    """A number, or an infinite one at some steps, where the producer reads it."""
    value = generator.uniform(-2, 2)
    return infinity if first and step in steps else float(value)


_INTEGERS: dict[str, _Draw] = {
    "on small integers": lambda generator, step, first: generator.randint(-2, 2),
    "on numbers that grow": lambda generator, step, first: 3 * step + generator.randint(0, 2),
    "on numbers that fall": lambda generator, step, first: generator.randint(0, 2) - 3 * step,
    "on numbers that change their sign": lambda generator, step, first: (
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
