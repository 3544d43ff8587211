"""Loads and stores of a lowered function, with the loops, threads and guards around each.

A pipeline makes a buffer several times as large; which of these slots an access touches is read off
its indices (`find_slot`).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import tvm_ffi
from tvm.ir import Call, Range, TensorLoad
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import (
    And,
    AttrStmt,
    Bind,
    BufferStore,
    Evaluate,
    FloorMod,
    For,
    IfThenElse,
    Not,
    Ramp,
    Var,
)
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_map

from ..tir import (
    THREAD_EXTENT,
    constant,
    find_all,
    find_axes,
    get_operands,
    is_choice,
    is_used,
    substitute,
)

SHARED = ("shared", "shared.dyn")


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
            (node.node.var, Range.from_min_extent(0, node.value)) for node in find_axes(body)
        ]
        return Variables(_keep_unanimous(bound), _keep_unanimous(ranges))

    def under(self, conditions: list[Any]) -> Variables:
        """The same where conditions hold, too."""
        return replace(self, conditions=tuple(map(self.expand, conditions)))

    def expand(self, index: Any) -> Any:
        """The index with bound variables replaced by what they stand for."""
        while self.values and any(var in self.values for var in undefined_vars(index)):
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
    named = structural_map(
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


def is_barrier(statement: Any) -> bool:
    """Whether a statement lets the threads of a GPU block wait for each other."""
    if not isinstance(statement, Evaluate):
        return False
    call = statement.value
    name = str(getattr(getattr(call, "op", None), "name", ""))
    return name.endswith("tvm_storage_sync") and str(call.args[0].value) in SHARED


class Use(NamedTuple):
    """A load or a store of one element, or of a vector.

    Attributes
    ----------
    indices, guards : in variables of loops and threads alone
    value : what is stored; None for a load
    loops : those on the host, too
    place : its number in program order; a statement's loads come before its store
    launch : the number of the kernel that it is in; 0 outside
    statement : that it stands in
    """

    buffer: Any
    indices: tuple[Any, ...]
    value: Any
    loops: tuple[For, ...]
    guards: tuple[Any, ...]
    place: int
    launch: int
    statement: Any

    @property
    def is_write(self) -> bool:
        """Whether it stores."""
        return self.value is not None


@dataclass
class Uses:
    """What a function does to memory, in program order.

    Attributes
    ----------
    barriers : their places
    spans : the first place in a loop, and the first one behind it
    threads : of each kernel, the variables of its threads and how many values they have
    outer : of each kernel, how many loops on the host are around it
    """

    uses: list[Use] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    spans: dict[For, tuple[int, int]] = field(default_factory=dict)
    threads: dict[int, dict[Any, int]] = field(default_factory=dict)
    outer: dict[int, int] = field(default_factory=dict)

    def has_barrier(self, begin: int, end: int) -> bool:
        """Whether there is a barrier from one place on, before another one."""
        return any(begin <= place < end for place in self.barriers)


def find_uses(function: Any) -> Uses:
    """The loads and stores of a function without blocks."""
    walk = _Walk(Variables.of(function))
    walk.visit(function.body, (), ())
    return walk.found


class _Walk:
    def __init__(self, variables: Variables) -> None:
        self.found = Uses()
        self._variables = variables
        self._place = 0
        self._launch = 0
        self._is_inside = False

    def visit(self, node: Any, loops: tuple[For, ...], guards: tuple[Any, ...]) -> None:
        """Note what a statement does."""
        if isinstance(node, For):
            begin = self._place
            self.visit(node.body, (*loops, node), guards)
            self.found.spans[node] = (begin, self._place)
        elif isinstance(node, IfThenElse):
            self._note_loads(node.condition, node, loops, guards)
            condition = self._variables.expand(node.condition)
            self.visit(node.then_case, loops, (*guards, *get_operands(condition, And)))
            if node.else_case is not None:
                self.visit(node.else_case, loops, (*guards, Not(condition)))
        elif isinstance(node, AttrStmt):
            self._visit_attribute(node, loops, guards)
        elif getattr(node, "seq", None) is not None:
            for part in node.seq:
                self.visit(part, loops, guards)
        else:
            self._visit_leaf(node, loops, guards)

    def _visit_attribute(
        self, node: AttrStmt, loops: tuple[For, ...], guards: tuple[Any, ...]
    ) -> None:
        is_thread = node.attr_key == THREAD_EXTENT
        is_launch = is_thread and not self._is_inside
        if is_launch:
            self._is_inside = True
            self._launch += 1
            self.found.threads[self._launch] = {}
            self.found.outer[self._launch] = len(loops)
        if is_thread and str(node.node.thread_tag).startswith("threadIdx"):
            self.found.threads[self._launch][node.node.var] = constant(node.value) or 1
        self.visit(node.body, loops, guards)
        if is_launch:
            self._is_inside = False

    def _visit_leaf(self, node: Any, loops: tuple[For, ...], guards: tuple[Any, ...]) -> None:
        if is_barrier(node):
            self.found.barriers.append(self._place)
            self._place += 1
            return
        self._note_loads(node, node, loops, guards)
        if isinstance(node, BufferStore):
            self._note(node, node, loops, guards)
        self._place += 1

    def _note_loads(
        self, node: Any, statement: Any, loops: tuple[For, ...], guards: tuple[Any, ...]
    ) -> None:
        loads = find_all(node, TensorLoad)
        choices = [call for call in find_all(node, Call) if is_choice(call)] if loads else []
        for load in loads:
            conditions = []
            for call in choices:
                for case, holds in ((call.args[1], True), (call.args[2], False)):
                    if any(load.same_as(item) for item in find_all(case, TensorLoad)):
                        condition = self._variables.expand(call.args[0])
                        conditions.append(condition if holds else Not(condition))
            self._note(load, statement, loops, (*guards, *conditions))
        self._place += 1

    def _note(
        self, node: Any, statement: Any, loops: tuple[For, ...], guards: tuple[Any, ...]
    ) -> None:
        is_write = isinstance(node, BufferStore)
        expanded = tuple(self._variables.expand(index) for index in node.indices)
        self.found.uses.append(
            Use(
                node.buffer if is_write else node.source,
                expanded,
                self._variables.expand(node.value) if is_write else None,
                loops,
                guards,
                self._place,
                self._launch if self._is_inside else 0,
                statement,
            )
        )
