"""The loop nest of a module, as the report draws it: loops, blocks, guards and buffers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import For, IfThenElse, IterVar, SeqStmt
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms.tir import constant, find_all, get_axis, get_kind


@dataclass(frozen=True)
class Buffer:
    """A tensor of a module.

    Attributes
    ----------
    shape : as text, since it may be symbolic
    scope : ``"global"``, ``"shared"``, ``"local"``, …
    size : in bytes, as the TIR allocates it; None for a symbolic shape
    kept : in bytes, what TVM keeps of it for one GPU block (shared) or thread (local); None where
        that is not known
    is_argument : whether the caller hands it over
    """

    name: str
    shape: tuple[str, ...]
    dtype: str
    scope: str
    size: int | None
    kept: int | None
    is_argument: bool


@dataclass(frozen=True)
class Nest:
    """A node of the loop nest.

    Attributes
    ----------
    kind : ``"function"``, ``"loop"``, ``"block"`` or ``"guard"``
    name : the loop variable, the block's name, or the guard's condition
    extent : how often a loop runs, as text
    binding : of a loop: its thread axis, or serial, parallel, vectorized, unrolled
    reduces : whether a loop feeds a reduction
    reads, writes : of a block: names of buffers
    allocates : of a block: names of buffers that it allocates
    """

    kind: str
    name: str
    extent: str = ""
    binding: str = ""
    reduces: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    allocates: tuple[str, ...] = ()
    children: tuple[Nest, ...] = field(default=())


def find_nests(module: tvm.IRModule) -> tuple[Nest, ...]:
    """The loop nest of each function of a module."""
    nests = []
    for variable, function in module.functions_items():
        reducing = _find_reduction_loops(function.body)
        children = _visit(function.body, reducing)
        nests.append(Nest("function", str(variable.name_hint), children=children))
    return tuple(nests)


def find_buffers(module: tvm.IRModule, compacted: tvm.IRModule | None = None) -> tuple[Buffer, ...]:
    """The tensors of a module: its arguments, and what its blocks allocate.

    `compacted` is the module behind TVM's pass that shrinks buffers to what is used of them.
    """
    kept = {
        str(buffer.name): _count_bytes(buffer)
        for _, function in ([] if compacted is None else compacted.functions_items())
        for buffer in _find_allocations(function)
    }
    buffers: dict[str, Buffer] = {}
    for _, function in module.functions_items():
        arguments = [parameter for parameter in function.params if hasattr(parameter.ty, "shape")]
        for buffer in arguments:
            buffers[str(buffer.name)] = _describe(buffer, None, is_argument=True)
        for buffer in _find_allocations(function):
            size = None if str(buffer.scope()) == "global" else kept.get(str(buffer.name))
            buffers[str(buffer.name)] = _describe(buffer, size, is_argument=False)
    return tuple(buffers.values())


def _describe(buffer: Any, kept: int | None, *, is_argument: bool) -> Buffer:
    shape = tuple(str(size) for size in buffer.shape)
    scope = str(buffer.scope())
    size = _count_bytes(buffer)
    return Buffer(str(buffer.name), shape, str(buffer.dtype), scope, size, kept, is_argument)


def _find_allocations(function: Any) -> list[Any]:
    blocks = find_all(function.body, SBlock)
    return [buffer for block in blocks for buffer in block.alloc_buffers]


def _count_bytes(buffer: Any) -> int | None:
    sizes = [constant(size) for size in buffer.shape]
    if any(size is None for size in sizes):
        return None
    elements = math.prod(size for size in sizes if size is not None)
    return math.ceil(elements * buffer.dtype.bits * buffer.dtype.lanes / 8)


def _find_reduction_loops(body: Any) -> set[Any]:
    """The loop variables that a reduction of some block uses."""
    found: set[Any] = set()
    for realize in find_all(body, SBlockRealize):
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if iterator.iter_type == IterVar.CommReduce:
                found.update(undefined_vars(value))
    return found


def _visit(statement: Any, reducing: set[Any]) -> tuple[Nest, ...]:
    if isinstance(statement, SeqStmt):
        return tuple(nest for part in statement for nest in _visit(part, reducing))
    if isinstance(statement, For):
        return (_visit_loop(statement, reducing),)
    if isinstance(statement, SBlockRealize):
        return _visit_block(statement, reducing)
    if isinstance(statement, IfThenElse):
        branches = [(f"if {statement.condition}", statement.then_case)]
        if statement.else_case is not None:
            branches.append(("else", statement.else_case))
        return tuple(
            Nest("guard", name, children=_visit(branch, reducing)) for name, branch in branches
        )
    inner = getattr(statement, "body", None)
    return () if inner is None else _visit(inner, reducing)


def _visit_loop(loop: Any, reducing: set[Any]) -> Nest:
    return Nest(
        "loop",
        str(loop.loop_var.name),
        extent=str(loop.extent),
        binding=get_axis(loop) or get_kind(loop),
        reduces=loop.loop_var in reducing,
        children=_visit(loop.body, reducing),
    )


def _visit_block(realize: Any, reducing: set[Any]) -> tuple[Nest, ...]:
    """The root block, which every function has, is left out where it allocates nothing."""
    block = realize.block
    init = () if block.init is None else _visit(block.init, reducing)
    children = (*init, *_visit(block.body, reducing))
    allocates = _names(block.alloc_buffers)
    if block.name_hint == "root" and not allocates:
        return children
    reads, writes = (
        _names(region.source for region in part) for part in (block.reads, block.writes)
    )
    nest = Nest(
        "block",
        str(block.name_hint),
        reads=reads,
        writes=writes,
        allocates=allocates,
        children=children,
    )
    if constant(realize.predicate) == 1:
        return (nest,)
    return (Nest("guard", f"where {realize.predicate}", children=(nest,)),)


def _names(buffers: Any) -> tuple[str, ...]:
    named: Sequence[str] = [str(getattr(buffer, "name", buffer)) for buffer in buffers]
    return tuple(dict.fromkeys(named))
