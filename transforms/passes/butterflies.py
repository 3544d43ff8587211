"""A pass that lets all lanes of a group reduce together, instead of one that tells the others.

TVM lowers a reduction over threads of a warp to shuffles down, after which the first lane of the
group has the result, and one more that gives it to the others.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.script import tirx as T
from tvm.tirx import Add, AttrStmt, Bind, BufferStore, Max, Min, Mul, SeqStmt, Var
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from ..gpu_limits import WARP
from ..tir import THREAD_EXTENT, constant, find_all, find_axes, number_threads, substitute

COMMUTATIVE = (Add, Mul, Max, Min)
"""What gives the same bits whichever operand comes first."""
MOST = 4
"""Lanes of a group. Of 16, exchanges by pairs made the decode form 4 % slower on an H100."""
SHUFFLE = "tirx.tvm_warp_shuffle"
DOWN = "tirx.tvm_warp_shuffle_down"


@prim_func_pass(opt_level=0, name="tirstep.ExchangeByButterflies")
def ExchangeByButterflies(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Let lanes exchange by pairs what they reduce, so that all of them have the result.

    Of the shuffles, each of which waits for the one before, there is one fewer, and the bits are
    the same: a lane's operands only change places. Groups are of two or four lanes, and begin at a
    multiple of that; what reduces is a sum, a product, a maximum or a minimum, and what a shuffle
    brings is used for that alone; the target is cuda.

    rewrite: ``t = shuffle_down(r, 2); r = r + t; t = shuffle_down(r, 1); r = r + t;
        r = shuffle(r, the group's first lane)`` -> ``t = shuffle_xor(r, 2); r = r + t;
        t = shuffle_xor(r, 1); r = r + t``
    """
    target = (function.attrs or {}).get("target")
    if target is None or target.kind.name != "cuda":  # Metal has no such shuffle in TVM
        return function
    if not any(get_op_name(call) == SHUFFLE for call in find_all(function.body, Call)):
        return function
    axes = find_axes(function.body)
    inner = {each.node.var for axis in axes for each in find_axes(axis.body)}
    kernels = {axis.node.var: _Lanes(axis) for axis in axes if axis.node.var not in inner}

    def rewrite(node: AttrStmt) -> Any:
        if node.attr_key != THREAD_EXTENT or node.node.var not in kernels:
            return node
        return structural_map(node, (SeqStmt, kernels[node.node.var].rewrite))

    body = structural_map(function.body, (AttrStmt, rewrite))
    return function if body.same_as(function.body) else function.with_body(body)


class _Lanes:
    """The numbers of a kernel's threads."""

    def __init__(self, kernel: AttrStmt) -> None:
        axes = {str(axis.node.thread_tag): axis for axis in find_axes(kernel)}
        names = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
        threads = [(axes[name].node.var, axes[name].value) for name in names if name in axes]
        self.number, self.analyzer = number_threads(threads)
        self.named = {bind.var: bind.value for bind in find_all(kernel, Bind)}
        self.loads = Counter(load.source for load in find_all(kernel, TensorLoad))
        self.combined = Counter(_find_combined(kernel))

    def rewrite(self, sequence: SeqStmt) -> Any:
        """A sequence with butterflies, where it has all shuffles of a group."""
        parts = list(sequence.seq)
        for place, part in enumerate(parts):
            if (last := _read_shuffle(part, SHUFFLE)) is None:
                continue
            made = self._exchange(parts[:place], last)
            if made is not None:
                return SeqStmt([*made, *parts[place + 1 :]])
        return sequence

    def _exchange(self, before: list[Any], last: BufferStore) -> list[Any] | None:
        """The statements before a group's last shuffle, as they are without it; None if others."""
        made, size = list(before), 1
        for at in range(len(before) - 2, -1, -2):
            down = _read_shuffle(before[at], DOWN)
            if down is None or not _combines(before[at + 1], down, last):
                break
            if self.loads[down.buffer] != self.combined[down.buffer]:
                break  # what was brought is used elsewhere, too
            mask, value, distance, *rest = down.value.args
            if constant(distance) != size or not _is_same(value, last.value.args[1]):
                break
            exchanged = T.tvm_warp_shuffle_xor(mask, value, distance, *rest)
            made[at] = BufferStore(down.buffer, exchanged, down.indices)
            size *= 2
        is_small = 1 < size <= MOST
        return made if is_small and self._is_first(last.value.args[2], size) else None

    def _is_first(self, lane: Any, size: int) -> bool:
        """Whether a shuffle reads the first lane of a thread's group of so many lanes."""
        while named := {
            each: self.named[each] for each in find_all(lane, Var) if each in self.named
        }:
            lane = substitute(lane, named)
        first = self.number - self.number % size
        return bool(self.analyzer.can_prove((lane - first) % WARP == 0))


def _find_combined(kernel: AttrStmt) -> Iterator[Any]:
    """The buffer of each value that a shuffle brings and the next statement combines."""
    for sequence in find_all(kernel, SeqStmt):
        for part, following in itertools.pairwise(sequence.seq):
            down = _read_shuffle(part, DOWN)
            if down is None or not isinstance(following, BufferStore):
                continue
            if isinstance(following.value, COMMUTATIVE) and _is_element(following.value.b, down):
                yield down.buffer


def _read_shuffle(statement: Any, name: str) -> BufferStore | None:
    """A statement that stores what a shuffle of the whole warp brings."""
    if not isinstance(statement, BufferStore) or not isinstance(statement.value, Call):
        return None
    call = statement.value
    whole = get_op_name(call) == name and all(constant(size) == WARP for size in call.args[3:])
    return statement if whole else None


def _combines(statement: Any, brought: BufferStore, last: BufferStore) -> bool:
    """Whether a statement combines a lane's own value with the one that was brought."""
    if not isinstance(statement, BufferStore) or not isinstance(statement.value, COMMUTATIVE):
        return False
    own, other = statement.value.a, statement.value.b
    return (
        _is_element(own, last)
        and _is_element(other, brought)
        and _is_at(statement.buffer, statement.indices, last)
    )


def _is_element(value: Any, store: BufferStore) -> bool:
    """Whether a value is loaded from where a statement stores."""
    return isinstance(value, TensorLoad) and _is_at(value.source, value.indices, store)


def _is_at(buffer: Any, indices: Any, store: BufferStore) -> bool:
    """Whether an element is the one that a statement stores."""
    return bool(buffer.same_as(store.buffer) and _is_same(indices, store.indices))


def _is_same(value: Any, other: Any) -> bool:
    return bool(tvm_ffi.structural_equal(value, other))
