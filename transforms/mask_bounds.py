"""How many iterations of a loop masks let something through: conditions of ``if_then_else``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import GE, GT, LE, LT, And, Bind, BufferStore, For, Let, Select, const
from tvm.tirx import max as larger
from tvm.tirx import min as smaller

from .tir import (
    bind_ranges,
    constant,
    find_all,
    get_axis,
    get_iterator_values,
    get_operands,
    is_among,
    is_choice,
    is_used,
    substitute,
)

ENDS_AT_MASK = "tirstep_ends_at_mask"
"""The annotation of a loop that the pass EndLoopsAtMasks ends early."""
SPLITS_AT_MASKS = "tirstep_splits_at_masks"
"""The annotation of a loop that the pass SplitLoopsAtMasks splits."""

LONGEST_FIRST = "tirstep_longest_first"
"""The annotation of such a loop: GPU blocks in which it goes on longest are launched first."""


def find_growing_axis(loop: For, around: list[For], count: Any) -> For | None:
    """The one loop of GPU blocks around along which a loop gets longer; None for none."""
    axes = [
        each
        for each in around
        if (get_axis(each) or "").startswith("blockIdx") and is_used(each.loop_var, count)
    ]
    if len(axes) != 1 or (extent := constant(axes[0].extent)) is None:
        return None
    analyzer, variable = Analyzer(), axes[0].loop_var
    first, last = (
        constant(analyzer.simplify(substitute(count, {variable: const(at)})))
        for at in (0, extent - 1)
    )
    if first is None or last is None or constant(axes[0].min) != 0:
        return None
    return axes[0] if last > first else None


def read_masks(loop: For, around: list[For]) -> Masks:
    """The masks under a loop, of which some of `around` are the threads of a block."""
    threads = [each for each in around if (get_axis(each) or "").startswith("threadIdx")]
    inner = [each for each in find_all(loop.body, For) if not is_among(each, threads)]
    return Masks(loop, [*threads, *inner], around)


@dataclass
class Masks:
    """The conditions under a loop, and those that hide all behind some iteration.

    Attributes
    ----------
    inside : the loops of which a bound must hold for all iterations
    around : those around the loop
    """

    loop: For
    inside: list[For]
    around: list[For]
    hiding: list[Any] = field(default_factory=list)

    def count_iterations(self) -> Any | None:
        """Those in which some mask lets something through, one at least; None without a bound."""
        blocks = find_all(self.loop.body, SBlockRealize)
        bounds = [bound for block in blocks for bound in self.find_bounds(block)]
        if not bounds:
            return None
        bound = const(1)
        for other in bounds:
            bound = larger(bound, other)
        return Analyzer().simplify(smaller(self.loop.extent, bound))

    def find_bounds(self, block: SBlockRealize) -> Iterator[Any]:
        """For each mask of a block, how many iterations it lets something through."""
        values = get_iterator_values(self.loop.body)
        for choice in find_choices(block.block):
            condition = get_condition(choice)
            parts = get_operands(condition, And)
            found = [self._find_bound(substitute(part, values)) for part in parts]
            bounds = [bound for bound in found if bound is not None]
            if bounds:
                self.hiding.append(condition)
                yield bounds[0]

    def _find_bound(self, condition: Any) -> Any | None:
        """The iterations in which a comparison may hold; None where that is no first so many."""
        if not isinstance(condition, LE | LT | GE | GT):
            return None
        low, high = condition.a, condition.b
        if isinstance(condition, GE | GT):
            low, high = high, low
        least = 1 if isinstance(condition, LE | GE) else 0  # of low - high, where it is hidden
        variables = [self.loop.loop_var, *(each.loop_var for each in self.inside)]
        parts = detect_linear_equation(low - high, variables)
        if not parts:
            return None
        *factors, rest = parts
        numbers = [constant(factor) for factor in factors]
        step = numbers[0]
        if None in numbers or step is None or step < 1:
            return None
        for factor, each in zip(numbers[1:], self.inside, strict=True):
            last = constant(each.extent)
            if last is None:
                return None
            rest = rest + each.min * factor + min(0, (factor or 0) * (last - 1))
        bound = (least - rest + step - 1) // step
        return bound if is_known_before(bound, self.loop, self.around) else None


def is_known_before(bound: Any, loop: For, around: list[For]) -> bool:
    """Whether a bound is known in front of its loop: what it loads is there, and nothing under the
    loop stores it; its loops are those around, and nothing under the loop defines its variables.
    """
    own = [each.loop_var for each in (loop, *find_all(loop.body, For))]
    own += [each.var for kind in (Bind, Let) for each in find_all(loop.body, kind)]
    own += [item.var for block in find_all(loop.body, SBlock) for item in block.iter_vars]
    if any(is_used(each, bound) for each in own):
        return False
    stored = [store.buffer for store in find_all(loop.body, BufferStore)]
    stored += [region.source for block in find_all(loop.body, SBlock) for region in block.writes]
    analyzer = bind_ranges(around)
    return not any(
        is_among(load.source, stored)
        or not all(
            analyzer.can_prove(And(index >= 0, index < size))
            for index, size in zip(load.indices, load.source.shape, strict=True)
        )
        for load in find_all(bound, TensorLoad)
    )


def find_choices(block: Any) -> list[Any]:
    nodes = [*find_all(block.body, Call), *find_all(block.body, Select)]
    if block.init is not None:
        nodes += [*find_all(block.init, Call), *find_all(block.init, Select)]
    return [node for node in nodes if is_choice_or_select(node)]


def is_choice_or_select(node: Any) -> bool:
    return isinstance(node, Select) or is_choice(node)


def get_condition(choice: Any) -> Any:
    return choice.condition if isinstance(choice, Select) else choice.args[0]
