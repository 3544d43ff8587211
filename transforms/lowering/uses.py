"""Uses: each load and store of a lowered function, with the loops, threads and guards around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm.ir import Call, TensorLoad
from tvm.tirx import And, AttrStmt, BufferStore, For, IfThenElse, Not

from ..queries import constant, find_all, find_operands, is_choice
from .barriers import is_barrier
from .slots import Variables


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
            self.visit(node.then_case, loops, (*guards, *find_operands(condition, And)))
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
        is_thread = node.attr_key == "thread_extent"
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
        choices = [call for call in find_all(node, Call) if is_choice(call)]
        for load in find_all(node, TensorLoad):
            conditions = []
            for call in choices:
                for case, holds in ((call.args[1], True), (call.args[2], False)):
                    if any(load.same_as(one) for one in find_all(case, TensorLoad)):
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
