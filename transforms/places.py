"""Places: every block with the loops around it, and what its iterators and guards are in those."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from tvm.ir import Range
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import And, For, IfThenElse, Not

from .queries import constant, find_axis, find_operands, find_regions, is_used, substitute


class Place(NamedTuple):
    """A block, and what stands around it.

    Attributes
    ----------
    block : the block; its outer blocks have places of their own
    loops : around it, outermost first, those around its outer blocks too
    values : of its iterators and its outer blocks', in loop variables
    guards : the conditions that all hold where it runs, its outer blocks' too, in loop variables
    """

    block: SBlock
    loops: tuple[For, ...]
    values: dict[Any, Any]
    guards: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The block's name."""
        return str(self.block.name_hint)

    @property
    def kernel(self) -> For | None:
        """The outermost bound loop, which becomes a GPU kernel; None where no loop is bound."""
        return next((loop for loop in self.loops if find_axis(loop) is not None), None)

    def find_bound(self, level: str) -> list[For]:
        """The loops on axes of a level, such as ``"threadIdx"``, outermost first."""
        return [loop for loop in self.loops if (find_axis(loop) or "").startswith(level)]

    @property
    def key(self) -> tuple[Any, ...]:
        """What it shares with the place of the same block in another module, if that is alike."""
        return self.block, tuple(self.values.items()), self.guards

    def find_real_guards(self) -> list[Any]:
        """The guards that the extents of the loops do not imply."""
        analyzer = Analyzer()
        for loop in self.loops:
            analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        return [guard for guard in self.guards if not analyzer.can_prove(guard)]

    def is_fed(self, loop: For) -> bool:
        """Whether a loop decides what the block works on: its iterators or, nested, its data."""
        own = (self.values[iterator.var] for iterator in self.block.iter_vars)
        if any(is_used(loop.loop_var, value) for value in own):
            return True
        parts = (part.min for region in find_regions(self.block) for part in region.region)
        return any(is_used(loop.loop_var, substitute(part, self.values)) for part in parts)


def find_places(statement: Any) -> list[Place]:
    """The places of all blocks in a statement, in program order."""
    return list(_find_places(statement))


@functools.lru_cache(maxsize=4)  # a transform has several questions about what it made
def _find_places(statement: Any) -> list[Place]:
    found: list[Place] = []
    _visit(statement, (), {}, (), found)
    return found


def _visit(
    node: Any,
    loops: tuple[For, ...],
    values: dict[Any, Any],
    guards: tuple[Any, ...],
    found: list[Place],
) -> None:
    if isinstance(node, For):
        loops = (*loops, node)
    elif isinstance(node, SBlockRealize):
        own = zip(node.block.iter_vars, node.iter_values, strict=True)
        guards = (*guards, *_split(substitute(node.predicate, values)))
        values = {**values, **{one.var: substitute(value, values) for one, value in own}}
    elif isinstance(node, SBlock):
        found.append(Place(node, loops, values, guards))
    if isinstance(node, IfThenElse):
        condition = substitute(node.condition, values)
        _visit(node.then_case, loops, values, (*guards, *_split(condition)), found)
        if node.else_case is not None:
            _visit(node.else_case, loops, values, (*guards, Not(condition)), found)
        return
    for child in _find_children(node):
        _visit(child, loops, values, guards, found)


def _split(condition: Any) -> list[Any]:
    return [one for one in find_operands(condition, And) if constant(one) != 1]


def _find_children(node: Any) -> list[Any]:
    """The statements inside of a statement that may hold blocks."""
    found = list(getattr(node, "seq", None) or ())
    for name in ("block", "init", "body"):
        child = getattr(node, name, None)
        if child is not None:
            found.append(child)
    return found


def is_among(node: Any, nodes: Any) -> bool:
    """Whether a node is one of several, itself."""
    return any(node.same_as(other) for other in nodes)
