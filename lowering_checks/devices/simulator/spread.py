"""Runs the iterations of a data-parallel block at once, where a module has no threads yet."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.s_tir import SBlock
from tvm.tirx import For, ForKind, IterVar, Var
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms.queries import constant, find_all

AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


def spread(loop: For) -> For:
    """A nest of loops around one block, with up to three data-parallel ones bound to blocks.

    Loops that feed nothing but spatial iterators may run in any order: that is what these
    iterators say, and the machine reports a race where it is not so. Any other loop is returned as
    it is.
    """
    nest: list[For] = []
    node: Any = loop
    while isinstance(node, For):
        nest.append(node)
        node = node.body
    if type(node).__name__ != "SBlockRealize" or len(find_all(node, SBlock)) != 1:
        return loop
    if any(constant(one.min) != 0 or constant(one.extent) is None for one in nest):
        return loop
    fixed = _find_reducing(node)
    free = [one for one in nest if one.loop_var not in fixed]
    free = sorted(free, key=lambda one: -(constant(one.extent) or 0))[: len(AXES)]
    for one in reversed(nest):
        if not any(one.same_as(chosen) for chosen in free):
            node = For(one.loop_var, one.min, one.extent, ForKind.SERIAL, node)
    for one, axis in zip(free, AXES, strict=False):
        place = IterVar(None, Var(axis, "int32"), IterVar.ThreadIndex, axis)
        node = For(one.loop_var, one.min, one.extent, ForKind.THREAD_BINDING, node, place)
    return node if free else loop


def _find_reducing(realize: Any) -> set[Var]:
    """The variables that feed an iterator which is not spatial."""
    return {
        variable
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if iterator.iter_type != IterVar.DataPar
        for variable in undefined_vars(value)
    }


def has_threads(body: Any) -> bool:
    """Whether anything in a function is bound to threads."""
    loops = any(loop.kind == ForKind.THREAD_BINDING for loop in find_all(body, For))
    return loops or any(
        node.attr_key == "thread_extent" for node in find_all(body, tvm.tirx.AttrStmt)
    )
