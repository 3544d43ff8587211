"""Reductions as they stand in blocks: what they begin with, what they add, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import Add, BufferLoad, BufferStore, IterVar, Max, Min, Mul
from tvm_ffi import structural_map

from ..schedule import TransformError
from ..tir import find_all, is_used, substitute

_COMBINERS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "sum": (Add, lambda a, b: a + b),
    "maximum": (Max, tirx.max),
    "minimum": (Min, tirx.min),
    "product": (Mul, lambda a, b: a * b),
}


class Reduction(NamedTuple):
    """A block that reduces to one buffer.

    Attributes
    ----------
    block : the block
    buffer, indices : what it reduces to, and where in it, in the block's iterators
    identity : what it begins with
    kind : how it takes terms up: ``"sum"``, ``"maximum"``, ``"minimum"`` or ``"product"``
    term : what it takes up
    """

    block: SBlock
    buffer: Any
    indices: tuple[Any, ...]
    identity: Any
    kind: str
    term: Any

    @property
    def name(self) -> str:
        """The block's name."""
        return str(self.block.name_hint)

    @property
    def dtype(self) -> str:
        """The type of what it reduces to."""
        return str(self.buffer.dtype)

    def combine(self, first: Any, second: Any) -> Any:
        """Two partial results as one."""
        return _COMBINERS[self.kind][1](first, second)

    def iterators(self, *, reduced: bool) -> list[IterVar]:
        """Those that are reduced, or those that are not."""
        return [item for item in self.block.iter_vars if is_reduced(item) == reduced]


def is_reduced(iterator: IterVar) -> bool:
    """Whether a block reduces over an iterator."""
    return bool(iterator.iter_type == IterVar.CommReduce)


def read_reduction(block: SBlock) -> Reduction:
    """The reduction that a block is; raises `TransformError` for another block."""
    name = str(block.name_hint)
    begin, update = block.init, block.body
    if begin is None or not any(is_reduced(item) for item in block.iter_vars):
        raise TransformError(
            f"block '{name}' has no reduction with its initialization",
            "pass a block that reduces, before its reduction is decomposed",
        )
    if not isinstance(update, BufferStore) or not isinstance(begin, BufferStore):
        raise TransformError(
            f"block '{name}' reduces to more than one value", "split it into one block for each"
        )
    own = BufferLoad(update.buffer, update.indices)
    for kind, (node, _) in _COMBINERS.items():
        if isinstance(update.value, node):
            for kept, term in ((update.value.a, update.value.b), (update.value.b, update.value.a)):
                if tvm_ffi.structural_equal(kept, own) and not loads_of(term, update.buffer):
                    indices = tuple(update.indices)
                    return Reduction(block, update.buffer, indices, begin.value, kind, term)
    raise TransformError(
        f"block '{name}' reduces to '{update.buffer.name}' by {update.value}, which is no sum, "
        "product, maximum or minimum",
        "write the update as one of those",
    )


def loads_of(expression: Any, buffer: Any) -> list[Any]:
    """The loads of a buffer in an expression."""
    return [load for load in find_all(expression, TensorLoad) if load.source.same_as(buffer)]


def require_definition(block: SBlock) -> None:
    """Refuse a block that does not compute each element of a buffer by one expression."""
    store, name = block.body, str(block.name_hint)
    if any(is_reduced(item) for item in block.iter_vars) or block.init is not None:
        raise TransformError(
            f"block '{name}' between the two reduces, too",
            "divide by its result, or use it, after the consumer's reduction instead of before",
        )
    own = {item.var for item in block.iter_vars}
    if not isinstance(store, BufferStore) or set(store.indices) != own:
        raise TransformError(
            f"block '{name}' between the two does not compute one element at each of its points",
            "inline it first",
        )


def inline(expression: Any, store: BufferStore) -> Any:
    """An expression with each load of a buffer replaced by what defines it."""

    def replace(load: TensorLoad) -> Any:
        if not load.source.same_as(store.buffer):
            return load
        return substitute(store.value, dict(zip(store.indices, load.indices, strict=True)))

    return structural_map(expression, (TensorLoad, replace))


def uses_any(expression: Any, variables: list[Any]) -> bool:
    """Whether one of several variables stands in an expression."""
    return any(is_used(variable, expression) for variable in variables)
