"""Slots: which part of a buffer, made several times as large by a pipeline, an access touches."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm.ir import Range
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import AttrStmt, Bind, FloorMod, For, Ramp, Var
from tvm.tirx.analysis import undefined_vars

from ..queries import constant, find_all, is_used, substitute


@dataclass(frozen=True)
class Slot:
    """Cells ``((k + shift) % count) * size`` up to the next slot, with k the loop's variable."""

    shift: int
    count: int
    size: int

    def never_meets(self, other: Slot) -> bool:
        """Whether two accesses of one buffer are in different slots at every iteration."""
        if (self.count, self.size) != (other.count, other.size):
            return False
        return (self.shift - other.shift) % self.count != 0


@dataclass(frozen=True)
class Variables:
    """What is known of a function's variables: values that are bound, ranges of loops and threads.

    TVM's passes may leave one variable with two values or two ranges: then neither is known.
    `conditions` hold where an access stands.
    """

    values: dict[Any, Any]
    ranges: dict[Any, Range]
    conditions: tuple[Any, ...] = ()

    @staticmethod
    def of(function: Any) -> Variables:
        """The variables of a lowered function."""
        body = function.body
        bound = [(node.var, node.value) for node in find_all(body, Bind)]
        ranges = [
            (node.loop_var, Range.from_min_extent(node.min, node.extent))
            for node in find_all(body, For)
        ]
        ranges += [
            (node.node.var, Range.from_min_extent(0, node.value))
            for node in find_all(body, AttrStmt)
            if node.attr_key == "thread_extent"
        ]
        return Variables(_keep_unanimous(bound), _keep_unanimous(ranges))

    def under(self, conditions: list[Any]) -> Variables:
        """The same where conditions hold, too."""
        return replace(self, conditions=tuple(map(self.expand, conditions)))

    def expand(self, index: Any) -> Any:
        """The index with bound variables replaced by what they stand for."""
        while any(var in self.values for var in undefined_vars(index)):
            index = substitute(index, self.values)
        return index

    def is_within(self, rest: Any, size: int) -> bool:
        """Whether an expression is at least 0 and below a size, always."""
        analyzer = Analyzer()
        for variable in undefined_vars(rest):
            if variable in self.ranges:
                analyzer.bind(variable, self.ranges[variable])
        with ExitStack() as stack:
            for condition in self.conditions:
                stack.enter_context(analyzer.constraint_scope(condition))
            return bool(analyzer.can_prove(rest >= 0) and analyzer.can_prove(rest < size))


def find_slot(indices: Any, loop: For, variables: Variables, *, ahead: int = 0) -> Slot | None:
    """The slot of an access in a loop, read off the one term in which the loop's variable stands.

    None where the access may be anywhere. `ahead` is the number of iterations by which it is later.
    """
    ends = _find_ends(variables.expand(indices[0])) if len(indices) == 1 else []
    if not ends:
        return None
    terms = [node for node in find_all(ends[0], FloorMod) if is_used(loop.loop_var, node)]
    if not terms or not all(tvm_ffi.structural_equal(node, terms[0]) for node in terms):
        return None
    count = constant(terms[0].b)
    steps = detect_linear_equation(terms[0].a, [loop.loop_var])
    shift = constant(steps[1]) if len(steps) == 2 and constant(steps[0]) == 1 else None
    if count is None or count < 1 or shift is None:
        return None
    sizes = {_find_size(end, terms[0], loop, variables) for end in ends}
    size = sizes.pop()
    return Slot(shift + ahead, count, size) if size is not None and not sizes else None


def _find_ends(index: Any) -> list[Any]:
    """The first and the last index of an access; nothing for vectors of another form."""
    if isinstance(index, Ramp):
        lanes = constant(index.lanes)
        return [] if lanes is None else [index.base, index.base + index.stride * (lanes - 1)]
    return [index] if index.ty.dtype.lanes == 1 else []


def _find_size(index: Any, term: FloorMod, loop: For, variables: Variables) -> int | None:
    """The size of a slot, where an index is ``term * size`` and a rest that is less than that."""
    place = Var("slot", str(term.ty.dtype))
    named = tvm_ffi.structural_map(
        index, (FloorMod, lambda node: place if tvm_ffi.structural_equal(node, term) else node)
    )
    linear = detect_linear_equation(named, [place])
    size = constant(linear[0]) if len(linear) == 2 else None
    if size is None or size < 1 or is_used(loop.loop_var, linear[1]):
        return None
    return size if variables.is_within(linear[1], size) else None


def _keep_unanimous(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    kept: dict[Any, Any] = {}
    doubtful = set()
    for variable, value in pairs:
        if not tvm_ffi.structural_equal(kept.setdefault(variable, value), value):
            doubtful.add(variable)
    return {variable: value for variable, value in kept.items() if variable not in doubtful}
