"""Shared memory of threads that are made serial: kept outside of the loops over them.

TVM allocates a buffer at the lowest place around all of its uses, and makes it as large as one
iteration there needs. For shared memory it looks past thread loops. Made serial, these are loops
as any other, and each thread would have a buffer of its own: what one thread stored there, the
others would not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir import SBlockRealize
from tvm.tirx import BufferStore, Evaluate, For, ForKind, IfThenElse, SeqStmt, address_of
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms.queries import find_elements, substitute


@dataclass(frozen=True)
class _Use:
    """One statement that uses a buffer, in terms of the loops around it.

    `indices` are those of a store, None for other uses; `conditions` decide whether it is done.
    """

    loops: tuple[For, ...]
    indices: tuple[Any, ...] | None
    conditions: tuple[Any, ...]


def share_memory(function: Any) -> Any:
    """Name a buffer of shared memory in front of the thread loops whose threads share it.

    These are the thread loops around all of its uses, where they decide which elements are stored.
    Where the threads of the loop have all of a tile stored before each of them goes on, as copies
    with thread loops of their own do, nothing has to be kept. The address of an element is named,
    which computes nothing, and TVM allocates the buffer around that.

    rewrite: ``for tx in thread_binding: (S[tx] = A[tx]; B[tx] = S[0])``
        -> ``T.address_of(S[0])`` and the same loop
    """
    uses: dict[Any, list[_Use]] = {}
    _collect(function.body, uses, (), (), {})
    named: dict[Any, list[Any]] = {}
    for buffer, found in uses.items():
        place = _find_place(found)
        if place is not None:
            named.setdefault(place[0].loop_var, []).append(_name_element(buffer, *place))

    def name(loop: For) -> Any:
        first = named.get(loop.loop_var)
        return SeqStmt([*first, loop]) if first else loop

    return tvm_ffi.structural_map(function, (For, name)) if named else function


def reverse_threads(function: Any) -> Any:
    """The function with the threads of each thread loop in the opposite order, if made serial."""

    def reverse(loop: For) -> For:
        if not _is_of_threads(loop):
            return loop
        last = loop.min + loop.extent - 1
        body = substitute(loop.body, {loop.loop_var: loop.min + last - loop.loop_var})
        return For(
            loop.loop_var,
            loop.min,
            loop.extent,
            loop.kind,
            body,
            loop.thread_binding,
            loop.annotations,
            loop.step,
        )

    return tvm_ffi.structural_map(function, (For, reverse))


def _collect(
    node: Any,
    uses: dict[Any, list[_Use]],
    loops: tuple[For, ...],
    conditions: tuple[Any, ...],
    values: dict[Any, Any],
) -> None:
    """Find the uses of shared memory under a statement; `values` are those of block iterators."""
    if isinstance(node, For):
        extent = substitute(node.extent, values)
        _collect(node.body, uses, (*loops, node), (*conditions, extent), values)
    elif isinstance(node, SBlockRealize):
        pairs = zip(node.block.iter_vars, node.iter_values, strict=True)
        inner = {**values, **{one.var: substitute(value, values) for one, value in pairs}}
        conditions = (*conditions, substitute(node.predicate, values))
        for body in (node.block.init, node.block.body):
            _collect(body, uses, loops, conditions, inner)
    elif isinstance(node, SeqStmt):
        for one in node.seq:
            _collect(one, uses, loops, conditions, values)
    elif isinstance(node, IfThenElse):
        _keep(Evaluate(node.condition), uses, loops, conditions, values)
        conditions = (*conditions, substitute(node.condition, values))
        for body in (node.then_case, node.else_case):
            _collect(body, uses, loops, conditions, values)
    elif node is not None:
        _keep(node, uses, loops, conditions, values)


def _keep(
    node: Any,
    uses: dict[Any, list[_Use]],
    loops: tuple[For, ...],
    conditions: tuple[Any, ...],
    values: dict[Any, Any],
) -> None:
    """Note the elements that a statement uses."""
    for buffer, indices in find_elements(node):
        if not buffer.scope().startswith("shared"):
            continue
        is_stored = isinstance(node, BufferStore) and node.buffer.same_as(buffer)
        at = tuple(substitute(index, values) for index in indices) if is_stored else None
        uses.setdefault(buffer, []).append(_Use(loops, at, conditions))


def _find_place(uses: Sequence[_Use]) -> tuple[For, _Use] | None:
    """The outermost of the thread loops around all uses that decide what is stored, and a store."""
    around = [
        loop
        for loop in uses[0].loops
        if _is_of_threads(loop)
        and all(any(loop.same_as(other) for other in use.loops) for use in uses)
    ]
    for loop in around:
        for use in uses:
            if use.indices is None:
                continue
            used = [v for one in (*use.indices, *use.conditions) for v in undefined_vars(one)]
            if any(one.loop_var.same_as(variable) for one in around for variable in used):
                return loop, use
    return None


def _is_of_threads(loop: For) -> bool:
    """Whether a loop is bound to the threads of a block."""
    is_bound = loop.kind == ForKind.THREAD_BINDING
    return is_bound and str(loop.thread_binding.thread_tag).startswith("threadIdx")


def _name_element(buffer: Any, place: For, use: _Use) -> Evaluate:
    """The address of the element that a store uses in the first iterations from a loop on."""
    depth = next(number for number, loop in enumerate(use.loops) if loop.same_as(place))
    first = {loop.loop_var: loop.min for loop in use.loops[depth:]}
    known = {loop.loop_var for loop in use.loops[:depth]}
    at = []
    for index, extent in zip(use.indices or (), buffer.shape, strict=True):
        begin = substitute(index, first)
        if any(variable not in known for variable in undefined_vars(begin)):
            begin = 0
        at.append(tvm.tirx.max(tvm.tirx.min(begin, extent - 1), 0))
    return Evaluate(address_of(buffer[tuple(at)]))
