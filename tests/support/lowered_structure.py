"""Whether two lowered kernels are one program: as TVM prints them with flat buffers and launched
threads, whatever the names, the order of launches, the views, and how an index is written.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.ir import Call, Range, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import (
    AllocBuffer,
    And,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    FloatImm,
    For,
    IfThenElse,
    IntImm,
    PrimFunc,
    SeqStmt,
    Var,
)

from tirstep.transforms.tir import get_kind, get_operands, substitute
from tirstep.tvm_compat import get_op_name


@dataclass(frozen=True)
class Line:
    """A loop, a guard or a store: its words, how deep it stands, and its indices in order.

    `extents` are those of the variables there: of threads and loops, as guards leave them.
    """

    words: str
    depth: int
    indices: tuple[Any, ...]
    extents: dict[str, int]

    def __str__(self) -> str:
        return self.words.replace("#", "{}").format(*self.indices)


def find_difference(first: PrimFunc, second: PrimFunc) -> str | None:
    """The first thing that two lowered functions do not share; None where they are the same."""
    (own, left), (other, right) = read_kernel(first), read_kernel(second)
    if own != other:
        return f"launches {own} and {other}"
    for one, two in zip(left, right, strict=False):
        analyzer = Analyzer()
        for name, extent in one.extents.items():
            analyzer.bind(get_variable(name), Range(0, extent))
        is_same = (one.words, one.depth, one.extents) == (two.words, two.depth, two.extents)
        if not is_same or not all(map(analyzer.can_prove_equal, one.indices, two.indices)):
            return f"{one} and {two}"
    return None if len(left) == len(right) else f"{len(left)} and {len(right)} statements"


@functools.cache
def get_variable(name: str) -> Var:
    """What stands for a thread's index or a loop's in all kernels."""
    return Var(name, "int32")


def read_kernel(function: PrimFunc) -> tuple[dict[str, int], list[Line]]:
    """The extents of the launch, and the lines."""
    reader = _Reader({it.name: f"parameter{place}" for place, it in enumerate(function.params)})
    lines = [*reader.read(function.body, 0, {})]
    launched = {name: extent for line in lines for name, extent in line.extents.items()}
    assert {*reader.launch} <= {*launched}
    return reader.launch, lines


class _Reader:
    def __init__(self, buffers: dict[str, str]) -> None:
        self.buffers, self.scopes = buffers, dict[str, int]()
        self.launch, self.values = dict[str, int](), dict[Any, Any]()

    def read(self, node: Any, depth: int, extents: dict[str, int]) -> Iterator[Line]:
        match node:
            case SeqStmt():
                for each in node.seq:
                    # A launch holds for what stands beside it, too.
                    yield from self.read(each, depth, extents)
            case AttrStmt(attr_key="thread_extent"):
                tag, extent = str(node.node.thread_tag), int(node.value)
                assert self.launch.setdefault(tag, extent) == extent
                self.values[node.node.var] = get_variable(tag)
                yield from self.read(node.body, depth, {**extents, tag: extent})
            case AllocBuffer():
                scope = str(node.buffer.scope())
                self.scopes[scope] = self.scopes.get(scope, 0) + 1
                size = "x".join(map(str, node.buffer.shape))
                self.buffers[node.buffer.name] = f"{scope}{self.scopes[scope]}_{size}"
            case DeclBuffer():
                self.buffers[node.buffer.name] = self.buffers[node.data.args[0].name]
            case For() if int(node.extent) == 1:
                self.values[node.loop_var] = node.min
                yield from self.read(node.body, depth, extents)
            case For():
                name = f"loop{depth}"
                self.values[node.loop_var] = get_variable(name)
                inside = {**extents, name: int(node.extent)}
                yield Line(f"for {get_kind(node)} {node.extent}:", depth, (node.min,), inside)
                yield from self.read(node.body, depth + 1, inside)
            case IfThenElse(else_case=None):
                yield from self._read_guard(node, depth, extents)
            case BufferStore():
                indices = [*node.indices]
                value = self._spell(node.value, indices)
                name = self.buffers[node.buffer.name]
                made = tuple(substitute(it, self.values) for it in indices)
                yield Line(f"{name}[#] = {value}", depth, made, extents)
            case _:
                raise TypeError(f"{type(node).__name__} is no statement of these kernels: {node}")

    def _read_guard(self, node: Any, depth: int, extents: dict[str, int]) -> Iterator[Line]:
        """Nested guards are one, without what the rest of it implies."""
        conditions = []
        while isinstance(node, IfThenElse) and node.else_case is None:
            told = node.condition
            if isinstance(told, Call) and get_op_name(told).endswith("likely"):
                told = told.args[0]
            conditions += [substitute(it, self.values) for it in get_operands(told, And)]
            node = node.then_case
        inside = dict(extents)
        for condition in conditions:  # of the form: a variable below a number
            if isinstance(condition.a, Var) and isinstance(condition.b, IntImm):
                inside[condition.a.name] = min(inside[condition.a.name], int(condition.b))
        analyzer = Analyzer()
        for name, extent in inside.items():
            analyzer.bind(get_variable(name), Range(0, extent))
        assert all(map(analyzer.can_prove, conditions)), "a guard of another form"
        told = ", ".join(f"{it} < {inside[it]}" for it in inside if inside[it] != extents[it])
        yield Line(f"if {told}:", depth, (), inside)
        yield from self.read(node, depth + 1, inside)

    def _spell(self, value: Any, indices: list[Any]) -> str:
        """A value in words, with a sign for each index of a load, which `indices` takes up."""
        match value:
            case TensorLoad():
                indices.extend(value.indices)
                return f"{self.buffers[value.source.name]}[#]"
            case FloatImm() | IntImm():
                return str(float(value.value))
        left, right = (self._spell(it, indices) for it in (value.a, value.b))
        return f"({left} {type(value).__name__} {right})"
