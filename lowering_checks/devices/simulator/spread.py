"""Runs the iterations of a data-parallel block at once, where a module has few threads or none."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, For, ForKind, IterVar, Var
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms.queries import constant, find_all, find_elements

AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


def spread(loop: For) -> For:
    """A nest of loops around one block, with data-parallel ones bound to the free block axes.

    Loops that feed spatial iterators and nothing else may run in any order: that is what these
    iterators say. A loop that feeds none says nothing about its order: it may repeat the block, and
    stays. Blocks whose iterators TVM's ConvertBlocksToOpaque has replaced by their values have
    none; there a loop is data-parallel where each iteration has elements of its own of all that the
    block writes. Any other loop is returned as it is; so is one with threads around a block that
    uses more than global memory, since that is what a GPU's block or thread has for itself.
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
    bound = [one for one in nest if one.kind == ForKind.THREAD_BINDING]
    if bound and any(buffer.scope() != "global" for buffer, _ in find_elements(node)):
        return loop
    taken = {str(one.thread_binding.thread_tag) for one in bound}
    axes = [axis for axis in AXES if axis not in taken]
    parallel = _find_parallel(node) if node.block.iter_vars else _find_apart(node, nest)
    free = [one for one in nest if one not in bound and one.loop_var in parallel]
    free = sorted(free, key=lambda one: -(constant(one.extent) or 0))[: len(axes)]
    for one in reversed(nest):
        if not any(one.same_as(chosen) for chosen in free):
            kind = one.kind if one in bound else ForKind.SERIAL
            node = For(one.loop_var, one.min, one.extent, kind, node, one.thread_binding)
    for one, axis in zip(free, axes, strict=False):
        place = IterVar(None, Var(axis, "int32"), IterVar.ThreadIndex, axis)
        node = For(one.loop_var, one.min, one.extent, ForKind.THREAD_BINDING, node, place)
    return node if free else loop


def _find_parallel(realize: Any) -> set[Var]:
    """The variables that feed spatial iterators, no other ones, and the block in no other way."""
    feeding: dict[bool, set[Var]] = {True: set(), False: set(undefined_vars(realize.block.body))}
    if realize.block.init is not None:
        feeding[False].update(undefined_vars(realize.block.init))
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        feeding[iterator.iter_type == IterVar.DataPar].update(undefined_vars(value))
    return feeding[True] - feeding[False]


def _find_apart(realize: Any, nest: list[For]) -> set[Var]:
    """The variables of loops around an opaque block whose iterations share no element."""
    everything = {one.loop_var for one in nest}
    apart = set(everything)
    for buffer in {node.buffer for node in find_all(realize, BufferStore)}:
        places = [indices for one, indices in find_elements(realize) if one.same_as(buffer)]
        first = list(places[0])
        if any(not tvm_ffi.structural_equal(list(other), first) for other in places):
            return set()
        used = everything & {variable for index in first for variable in undefined_vars(index)}
        ranges = {one.loop_var: tvm.ir.Range(0, one.extent) for one in nest if one.loop_var in used}
        if not used or not tvm.sym.detect_iter_map(first, ranges, check_level="bijective").indices:
            return set()
        apart &= used
    return apart


def has_threads(body: Any) -> bool:
    """Whether anything in a function is bound to threads."""
    loops = any(loop.kind == ForKind.THREAD_BINDING for loop in find_all(body, For))
    return loops or any(
        node.attr_key == "thread_extent" for node in find_all(body, tvm.tirx.AttrStmt)
    )


def find_thread_axes(body: Any) -> set[str]:
    """The axes of a block's threads that anything in a function is bound to."""
    loops = (one.thread_binding for one in find_all(body, For))
    tags = [str(one.thread_tag) for one in loops if one is not None]
    nodes = find_all(body, tvm.tirx.AttrStmt)
    tags += [str(one.node.thread_tag) for one in nodes if one.attr_key == "thread_extent"]
    return {tag for tag in tags if tag.startswith("threadIdx")}
