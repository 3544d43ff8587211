"""A function narrowed to some elements of its outputs, so that one of real size can be a reference.

Each output has a mask as one parameter more, and what is stored there is computed where the mask is
set: a guard around as much as serves one element alone, the loops of a sum too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm_ffi
from tvm.ir import TensorLoad
from tvm.tirx import (
    AllocBuffer,
    AttrStmt,
    Bind,
    BufferStore,
    For,
    IfThenElse,
    SeqStmt,
    While,
    const,
)

from tirstep.transforms.tir import find_all, is_used, substitute

Key = tuple[Any, Any]
"""An output, and the index at which a statement stores to it."""


def narrow(body: Any, masks: Mapping[Any, Any]) -> Any:
    """Flat statements that store to an element of the outputs in `masks` where its mask, a flat
    buffer of int8, is not 0.
    """
    statement, key = _narrow(body, masks)
    return _guard(statement, key, masks)


def _guard(statement: Any, key: Key | None, masks: Mapping[Any, Any]) -> Any:
    if key is None:
        return statement
    output, index = key
    return IfThenElse(masks[output][index] != const(0, "int8"), statement, None)


def _narrow(node: Any, masks: Mapping[Any, Any]) -> tuple[Any, Key | None]:
    """A statement, narrowed but for the guard of the one element that it may serve alone."""
    if isinstance(node, BufferStore):
        return node, (node.buffer, node.indices[0]) if node.buffer in masks else None
    if isinstance(node, For):
        body, key = _narrow(node.body, masks)
        if key is not None and is_used(node.loop_var, key[1]):
            body, key = _guard(body, key, masks), None
        return For(node.loop_var, node.min, node.extent, node.kind, body), key
    if isinstance(node, IfThenElse):
        then, key = _narrow(node.then_case, masks)
        if node.else_case is None:
            return IfThenElse(node.condition, then, None), key
        other = _guard(*_narrow(node.else_case, masks), masks)
        return IfThenElse(node.condition, _guard(then, key, masks), other), None
    if isinstance(node, While):
        return While(node.condition, _guard(*_narrow(node.body, masks), masks)), None
    if isinstance(node, AttrStmt):
        body = _guard(*_narrow(node.body, masks), masks)
        return AttrStmt(node.node, node.attr_key, node.value, body), None
    if not isinstance(node, SeqStmt):
        return node, None
    parts = [_narrow(each, masks) for each in node.seq]
    own = {each.buffer for each in node.seq if isinstance(each, AllocBuffer)}
    bound = {each.var: each.value for each in node.seq if isinstance(each, Bind)}
    fixed = {name: it for name, it in bound.items() if not find_all(it, TensorLoad)}
    keys = []
    for key in (key for _, key in parts if key is not None):
        index = key[1]
        for _ in fixed:  # what is bound may be bound by others
            index = substitute(index, fixed)
        keys.append((key[0], index))
    outside = [
        store.buffer
        for each, key in parts
        if key is None
        for store in find_all(each, BufferStore)
        if store.buffer not in own
    ]
    is_one = (
        bool(keys)
        and not outside
        and all(
            buffer.same_as(keys[0][0])
            and tvm_ffi.structural_equal(index, keys[0][1])
            and not any(is_used(it, index) for it in bound)
            for buffer, index in keys
        )
    )
    if is_one:
        return SeqStmt([each for each, _ in parts]), keys[0]
    return SeqStmt([_guard(each, key, masks) for each, key in parts]), None
