"""What adds up under the fused loop: the consumer, and sums of derivatives beside it."""

from __future__ import annotations

from typing import Any, NamedTuple

import tvm_ffi
from tvm.s_tir import SBlock
from tvm.tirx import BufferLoad, BufferStore, IterVar, if_then_else
from tvm.tirx import all as all_of

from ..tir import substitute
from .build import Fusion, Point, add_part, find_inner, know_shares, make_point
from .nests import join_statements, make_block
from .reductions import Reduction


class Accumulator(NamedTuple):
    """What adds up: the consumer, or the sum of a derivative beside it.

    Attributes
    ----------
    reduction : the consumer's, or one like it to a buffer of its own
    term : what it takes up, in the consumer's iterators
    previous : the buffer with the sum of before; None of the consumer itself
    """

    reduction: Reduction
    term: Any
    previous: Any | None = None


def add_consumer(fusion: Fusion, term: Any, *, is_apart: bool) -> None:
    """Have the consumer repair its result, and take up the terms of an iteration."""
    reduction = fusion.consumer.reduction
    now = BufferLoad(fusion.producer.buffer, list(fusion.consumer.indices))
    value = {fusion.running: fusion.repair.refer(now)}
    higher: list[Accumulator] = []
    for order, derivative in reversed(list(enumerate(fusion.repair.derivatives, start=1))):
        buffer = fusion.add_buffer(reduction.buffer, f"{reduction.buffer.name}_derivative_{order}")
        previous = fusion.add_buffer(reduction.buffer, f"{buffer.name}_previous")
        beside = reduction._replace(buffer=buffer)
        accumulator = Accumulator(beside, substitute(derivative, value), previous)
        name = fusion.name(f"{reduction.name}_derivative_{order}")
        _add_accumulator(fusion, accumulator, higher, name, is_apart=True)
        higher.insert(0, accumulator)
    own = Accumulator(reduction, term)
    block = _add_accumulator(fusion, own, higher, reduction.name, is_apart=is_apart)
    fusion.reuse[reduction.block] = block
    fusion.moved.append(reduction.block)


def _add_accumulator(
    fusion: Fusion, own: Accumulator, higher: list[Accumulator], name: str, *, is_apart: bool
) -> SBlock:
    """Add the block of an accumulator; `higher` are those of further derivatives.

    Where each iteration has several terms, those whose result nobody reads behind the loop are
    summed apart: only a block that reduces over the loop itself has TVM keep its buffer from one
    iteration to the next.
    """
    producer, reduction = fusion.producer, own.reduction
    values, items, identity = fusion.values, reduction.block.iter_vars, reduction.identity
    reduced = reduction.iterators(reduced=True)
    spanned = [item for item in reduced if item.var not in values]
    has_several = bool(spanned or find_inner(producer, reduced, values))
    kind = IterVar.CommReduce
    if is_apart and has_several:
        part = add_part(fusion, reduction, values, own.term, f"{name}_tile")
        point = make_point(items, values, producer, kind=kind, has_terms=False)
        indices = [point.of(index) for index in reduction.indices]
        steps = [point.steps[loop.loop_var] for loop in producer.outs]
        step = _Step(fusion, own, higher, point)
        body, init = step.make_one(BufferLoad(part, [*indices, *steps]))
    elif has_several:
        point = make_point(items, values, producer, kind=IterVar.DataPar, has_terms=True)
        know_shares(fusion, point)
        step = _Step(fusion, own, higher, point)
        body, init = step.make_several(point.mask(point.of(own.term), identity))
    else:
        point = make_point(items, values, producer, kind=kind, has_terms=True)
        know_shares(fusion, point)
        step = _Step(fusion, own, higher, point)
        body, init = step.make_one(point.mask(point.of(own.term), identity))
    block = make_block(name, point.iterators, body, init, like=reduction.block)
    fusion.place(block, point)
    return block


class _Step:
    """One iteration of an accumulator at a point: its repair, and what it takes up."""

    def __init__(
        self, fusion: Fusion, own: Accumulator, higher: list[Accumulator], point: Point
    ) -> None:
        self.fusion, self.own, self.point = fusion, own, point
        self.indices = [point.of(index) for index in own.reduction.indices]
        self.result = BufferLoad(own.reduction.buffer, self.indices)
        before = [BufferLoad(other.previous, self.indices) for other in higher]
        row = [point.of(index) for index in fusion.consumer.indices]
        old, new = (BufferLoad(it, row) for it in (fusion.previous, fusion.producer.buffer))
        know_shares(fusion, point)
        self.repaired = point.of(fusion.repair.apply([self.result, *before], old, new))
        loops = fusion.producer.outs
        self.is_first = all_of(*(point.steps[loop.loop_var] == loop.min for loop in loops))

    def make_one(self, term: Any) -> tuple[Any, Any]:
        """Body and initialization of a block that takes up one term in each iteration."""
        reduction, repaired = self.own.reduction, self.repaired
        is_moved = not tvm_ffi.structural_equal(repaired, self.result)
        if is_moved and not self.fusion.repair.begins:
            repaired = if_then_else(self.is_first, self.result, repaired)
        kept = self._keep(self.result)
        return join_statements([*kept, self._store(reduction.combine(repaired, term))]), (
            self._store(reduction.identity)
        )

    def make_several(self, term: Any) -> tuple[Any, Any]:
        """Body and initialization of a block that takes up several: it begins with the repair."""
        reduction = self.own.reduction
        identity = reduction.identity
        kept = self._keep(if_then_else(self.is_first, identity, self.result))
        first = self._store(if_then_else(self.is_first, identity, self.repaired))
        body = self._store(reduction.combine(self.result, term))
        return body, join_statements([*kept, first])

    def _keep(self, value: Any) -> list[Any]:
        """Keep a sum of before for those that are repaired with it."""
        if self.own.previous is None:
            return []
        return [BufferStore(self.own.previous, value, self.indices)]

    def _store(self, value: Any) -> Any:
        return BufferStore(self.own.reduction.buffer, value, self.indices)
