"""Indices that TVM changes, not only simplifies, where it gives a buffer one dimension.

In ``S[i % 2, (i + 1) % 2]`` there are two remainders of one variable, at different places. TVM lets
the variable begin one element earlier for the second one, forgets that for the first one, and
makes ``(i + 1) % 2 * 3`` of ``i % 2 * 2 + (i + 1) % 2``. Such indices come from a tile that is
folded into rows and begins at another element for each thread or iteration.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tvm.ir import IRModule, Range
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
from tvm.tirx import EQ, Add, And, Evaluate, FloorDiv, FloorMod, For, ForKind, Sub, const
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_equal

from .enumeration import escapes
from .lowering.partly import lower_around
from .lowering.slots import Variables
from .lowering.uses import Use, find_uses
from .neighbours import find_place
from .pipeline_rules import STAGE
from .places import find_places, is_among
from .queries import constant, find_all, find_elements, is_used, substitute


@functools.lru_cache(maxsize=4)
def find_changed_indices(module: IRModule) -> list[str]:
    """The buffers, by name, of which the lowered module uses other elements than the module.

    Asked is TVM; the iterations that are tried are the first and the last ones of each loop. Empty
    where it does not lower the module.
    """
    functions = [function for _, function in module.functions_items()]
    if not any(_has_shifted_quotients(function.body) for function in functions):
        return []
    around = lower_around(module, "tirx.FlattenBuffer")
    if around is None:
        return []
    found = []
    for variable, function in around.before.functions_items():
        uses = zip(find_uses(function).uses, find_uses(around.after[variable]).uses, strict=True)
        ranges = Variables.of(function).ranges
        found += [str(old.buffer.name) for old, new in uses if _differ(old, new, ranges)]
    return list(dict.fromkeys(found))


def _has_shifted_quotients(body: Any) -> bool:
    """Whether a buffer's indices divide sums with several constants, or may do so in a pipeline."""
    if not (find_all(body, FloorMod) or find_all(body, FloorDiv)):
        return False
    shifts: dict[Any, set[int]] = defaultdict(set)
    for place in find_places(body):
        pipelined = [loop.loop_var for loop in place.loops if STAGE in loop.annotations]
        for buffer, quotient, shift in _find_shifts(place.block, tuple(place.values.items())):
            if any(is_used(variable, quotient) for variable in pipelined):
                return True
            shifts[buffer].add(shift)
    return any(len(one) > 1 for one in shifts.values())


@functools.lru_cache(maxsize=256)  # a transform leaves most blocks as they are
def _find_shifts(
    block: SBlock, values: tuple[tuple[Any, Any], ...]
) -> tuple[tuple[Any, Any, int], ...]:
    """The buffer, the quotient and its constant of each quotient in the indices of a block."""
    if find_all(block.body, SBlock):
        return ()
    named = dict(values)
    return tuple(
        (buffer, quotient, _find_shift(quotient.a))
        for buffer, indices in find_elements(block.body)
        for quotient in _find_quotients([substitute(one, named) for one in indices])
    )


def _find_quotients(indices: Iterable[Any]) -> list[Any]:
    return [
        quotient
        for index in indices
        for kind in (FloorMod, FloorDiv)
        for quotient in find_all(index, kind)
    ]


def _find_shift(expression: Any) -> int:
    """The constant in a sum."""
    if isinstance(expression, Add):
        return _find_shift(expression.a) + _find_shift(expression.b)
    if isinstance(expression, Sub):
        return _find_shift(expression.a) - _find_shift(expression.b)
    return constant(expression) or 0


def _differ(old: Use, new: Use, ranges: dict[Any, Range]) -> bool:
    """Whether an element lies elsewhere in the buffer of one dimension, in a loop's iteration."""
    dividends = [quotient.a for quotient in _find_quotients(old.indices)]
    if all(structural_equal(one, dividends[0]) for one in dividends):
        return False
    expected, analyzer = find_place(old.buffer, list(old.indices)), Analyzer()
    for variable, span in ranges.items():
        analyzer.bind(variable, span)
    if analyzer.can_prove_equal(expected, new.indices[0]):
        return False
    is_same = EQ(expected, new.indices[0])
    is_let = functools.reduce(And, old.guards) if old.guards else const(1, "bool")
    used = [*undefined_vars(is_same), *undefined_vars(is_let)]
    loops = [
        For(variable, span.min, span.extent, ForKind.SERIAL, Evaluate(0))
        for variable, span in ranges.items()
        if is_among(variable, used)
    ]
    return all(constant(loop.min) == 0 for loop in loops) and escapes(is_let, is_same, loops)
