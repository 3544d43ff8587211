"""What a loop begins with: stored before it, instead of in its first iteration."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import (
    EQ,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    IterVar,
    Select,
    SeqStmt,
    Var,
)
from tvm_ffi import structural_map

from .decorators import composite
from .errors import TransformError
from .fusion.evaluation import UnknownOperationError, evaluate
from .legality.masks import find_stores
from .loops import require_serial
from .mask_bounds import get_condition, is_choice_or_select
from .placement import require_around
from .queries import get_enclosing_loops, get_loop_name, get_realize, get_sblock_name
from .rewriting import edit_block, edit_scope, get_function, get_scope, replace_scope, with_body
from .tir import constant, find_all, get_regions, is_among, is_choice, is_used, substitute

DRAWS = 8
"""Drawn numbers on which the first iteration is tried."""


@composite
def begin_before_loop(sch: Schedule, block: SBlockRV, loop: LoopRV) -> SBlockRV:
    """Store what a block begins with in front of a loop, so that all its iterations are alike.

    The repair of `fuse_reductions` is such a block: its first iteration stores zeros, and all
    others what they find times a factor. Zeros times a factor are zeros, which is tried on drawn
    numbers. Inputs are taken to be finite: 0 times a factor that is not would be no number.

    rewrite: ``for k: (for i: C[i] = 0 if k == 0 else C[i] * r[i])`` ->
        ``for i: C[i] = 0`` and ``for k: (for i: C[i] = C[i] * r[i])``
    consumes: nothing
    returns: the block in front of the loop
    requires: a serial loop that begins at 0, and a block under it of one store, whose value is
        ``T.if_then_else(k == 0, ...)`` of an iterator that is the loop; elements and a predicate
        that the loop does not change; what it begins with depends on nothing that is computed, and
        stays what it is in the first iteration; no other block that uses the buffer comes in front
        of it under the loop, nor stands in a loop around it there
    """
    require_around(sch, loop, block)
    require_serial(sch, loop)
    node, name = sch.get(block), get_sblock_name(sch, block)
    first, later = _read_choice(sch, block, loop)
    _require_same_elements(sch, block, loop)
    _require_alone(sch, block, loop)
    if not _keeps(first, later, sch.get(loop), node):
        raise TransformError(
            f"block '{name}' begins with {first}, of which its first iteration would make "
            "something else",
            "leave the loop as it is",
        )
    begun = edit_block(node, BufferStore(node.body.buffer, later, node.body.indices))
    before = _make_nest(sch, block, loop, first)
    target = sch.get(loop)

    def rebuild(each: Any) -> Any:
        if isinstance(each, For):
            made = with_body(each, rebuild(each.body))
            return SeqStmt([before, made]) if each.same_as(target) else made
        if isinstance(each, SeqStmt):
            return SeqStmt([rebuild(part) for part in each.seq])
        if isinstance(each, SBlockRealize) and each.block.same_as(node):
            return SBlockRealize(each.iter_values, each.predicate, begun)
        return each

    scope = get_scope(sch, block).stmt
    function = get_function(sch, block)
    new = edit_scope(scope, rebuild(scope.body), [])
    replace_scope(sch, block, new, {node: begun}, who="begin_before_loop")
    return sch.get_sblock(f"{name}_first", function)


def _read_choice(sch: Schedule, block: SBlockRV, loop: LoopRV) -> tuple[Any, Any]:
    """What a block stores in the first iteration of a loop, and in all others."""
    node, step = sch.get(block), sch.get(loop).loop_var
    value = node.body.value if isinstance(node.body, BufferStore) else None
    condition = value.args[0] if value is not None and is_choice(value) else None
    if value is not None and isinstance(condition, EQ) and constant(condition.b) == 0:
        values = zip(node.iter_vars, get_realize(sch, block).iter_values, strict=True)
        of_loop = [item.var for item, own in values if own.same_as(step)]
        is_step = any(condition.a.same_as(variable) for variable in of_loop)
        if is_step and node.init is None and constant(sch.get(loop).min) == 0:
            return value.args[1], value.args[2]
    raise TransformError(
        f"block '{get_sblock_name(sch, block)}' does not begin anew in the first iteration of loop "
        f"'{get_loop_name(sch, loop)}'",
        "pass the repair that decompose_reduction_at took out, and the loop of its fusion",
    )


def _require_same_elements(sch: Schedule, block: SBlockRV, loop: LoopRV) -> None:
    """Refuse a block that stores other elements in other iterations of a loop, or none."""
    node, realize, step = sch.get(block), get_realize(sch, block), sch.get(loop).loop_var
    values = dict(zip((item.var for item in node.iter_vars), realize.iter_values, strict=True))
    inner = [
        each for each in find_all(sch.get(loop).body, For) if is_among(node, _find_sblocks(each))
    ]
    places = [substitute(index, values) for index in node.body.indices]
    places += [value for value in realize.iter_values if not value.same_as(step)]
    places += [realize.predicate, *(bound for each in inner for bound in (each.min, each.extent))]
    if any(is_used(step, place) for place in places):
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' does not store the same elements in each "
            f"iteration of loop '{get_loop_name(sch, loop)}'",
            "leave the loop as it is",
        )


def _require_alone(sch: Schedule, block: SBlockRV, loop: LoopRV) -> None:
    """Refuse other blocks that find what a block begins with, where they found something else."""
    node, body = sch.get(block), sch.get(loop).body
    buffer, blocks = node.body.buffer, _find_sblocks(body)
    front = blocks[: next(at for at, each in enumerate(blocks) if each.same_as(node))]
    together = [
        other
        for each in find_all(body, For)
        if is_among(node, _find_sblocks(each))
        for other in _find_sblocks(each)
    ]
    for other in (*front, *together):
        is_around = is_among(node, _find_sblocks(other.body)) or other.same_as(node)
        if not is_around and is_among(buffer, [it.source for it in get_regions(other)]):
            raise TransformError(
                f"block '{other.name_hint}' uses '{buffer.name}', too, in front of block "
                f"'{node.name_hint}' or in a loop around both",
                "place it behind, in loops of its own, or leave the loop as it is",
            )


def _find_sblocks(statement: Any) -> list[SBlock]:
    return find_all(statement, SBlock)


def _keeps(first: Any, later: Any, loop: For, block: SBlock) -> bool:
    """Whether what a block begins with stays what it is in the first iteration of a loop."""
    if find_all(first, TensorLoad):
        return False
    buffer = block.body.buffer
    try:
        identity = evaluate(first, {}, lambda _: 0.0)
        for seed in range(DRAWS):
            trial = _FirstIteration(loop, random.Random(seed))
            own = trial.run_until(block)
            for load in find_all(later, TensorLoad):
                if load.source.same_as(buffer):
                    trial.numbers[_get_key(buffer, load.indices)] = identity
            if trial.evaluate(later, own) != identity:
                return False
    except UnknownOperationError:
        return False
    return True


@dataclass
class _FirstIteration:
    """The first iteration of a loop, on one number for each buffer or each constant place in it.

    What is not known is drawn: what comes from elsewhere, and whether a mask hides it. A product
    with 0 and a maximum of nothing so far come with it.
    """

    loop: For
    chance: random.Random
    numbers: dict[Any, float] = field(default_factory=dict)

    def run_until(self, last: SBlock) -> dict[Any, float]:
        """Run what comes in front of a block, whose iterators of the loop are returned."""
        for realize in find_all(self.loop.body, SBlockRealize):
            items = zip(realize.block.iter_vars, realize.iter_values, strict=True)
            values = {item.var: 0.0 for item, value in items if value.same_as(self.loop.loop_var)}
            if realize.block.same_as(last):
                return values
            if not _find_sblocks(realize.block.body):
                self._run(realize.block, values)
        return {}

    def _run(self, block: SBlock, values: dict[Any, float]) -> None:
        stores = [] if block.init is None else find_all(block.init, BufferStore)
        for store in [*stores, *find_stores(block)]:
            try:
                known = not find_all(block.body, IfThenElse)
                value = self.evaluate(store.value, values) if known else self._draw()
            except UnknownOperationError:
                value = self._draw()
            self.numbers[_get_key(store.buffer, store.indices)] = value

    def evaluate(self, expression: Any, values: dict[Any, float]) -> float:
        """The value of an expression, of the choices in it one arm, by chance or as is known."""

        def choose(choice: Any) -> Any:
            if not is_choice_or_select(choice):
                return choice
            arms = (
                (choice.true_value, choice.false_value)
                if isinstance(choice, Select)
                else choice.args[1:3]
            )
            try:
                is_first = bool(evaluate(get_condition(choice), values, self._load))
            except UnknownOperationError:
                is_first = self.chance.random() < 0.5
            return arms[0] if is_first else arms[1]

        chosen = structural_map(expression, [(Call, choose), (Select, choose)])
        return evaluate(chosen, values, self._load)

    def _load(self, load: TensorLoad) -> float:
        return self.numbers.setdefault(_get_key(load.source, load.indices), self._draw())

    def _draw(self) -> float:
        return self.chance.choice((0.0, *(self.chance.uniform(-most, most) for most in (2, 2, 50))))


def _get_key(buffer: Any, indices: Any) -> tuple[Any, ...]:
    return (buffer, *map(constant, indices))


def _make_nest(sch: Schedule, block: SBlockRV, loop: LoopRV, first: Any) -> Any:
    """The loops of a block under another one once more, around what it begins with."""
    node, realize, step = sch.get(block), get_realize(sch, block), sch.get(loop)
    around = get_enclosing_loops(sch, block)
    place = next(at for at, each in enumerate(around) if each.same_as(step))
    fresh = {
        each.loop_var: Var(each.loop_var.name, each.loop_var.ty) for each in around[place + 1 :]
    }
    pairs = [
        (item, value)
        for item, value in zip(node.iter_vars, realize.iter_values, strict=True)
        if not value.same_as(step.loop_var)
    ]
    own = {item.var: Var(item.var.name, item.var.ty) for item, _ in pairs}
    items = [IterVar(item.dom, own[item.var], item.iter_type) for item, _ in pairs]
    store = substitute(BufferStore(node.body.buffer, first, node.body.indices), own)
    writes = [
        BufferRegion(region.source, [substitute(part, own) for part in region.region])
        for region in node.writes
    ]
    made = SBlock(items, [], writes, f"{node.name_hint}_first", store)
    values = [substitute(value, fresh) for _, value in pairs]
    nest: Any = SBlockRealize(values, substitute(realize.predicate, fresh), made)
    for each in reversed(around[place + 1 :]):
        nest = For(
            fresh[each.loop_var],
            substitute(each.min, fresh),
            substitute(each.extent, fresh),
            each.kind,
            nest,
            each.thread_binding,
            each.annotations,
            each.step,
        )
    return nest
