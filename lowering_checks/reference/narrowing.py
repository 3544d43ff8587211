"""A function narrowed to some elements of its outputs, so that one of real size can be a reference.

Each output has a mask as one parameter more, and what is stored there is computed where the mask is
set: a guard around as much as serves one element alone, the loops of a sum too. Buffers between the
stages of a program get masks, too, which the stages that load them set.
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
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Max,
    Min,
    SeqStmt,
    Var,
    While,
    const,
    decl_buffer,
)
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms.tir import constant, find_all, is_used, substitute

from ..compile.compiling import count_iterations
from ..devices.simulator.merged_memory import find_private

Key = tuple[Any, Any]
"""An output, and the index at which a statement stores to it."""


def narrow(body: Any, masks: Mapping[Any, Any], shares: Mapping[Any, float]) -> tuple[Any, float]:
    """Flat statements that store to an element of the outputs in `masks` where its mask, a flat
    buffer of int8, is not 0, and to buffers of their own where a later stage needs it; and about
    how many statements that runs, where such `shares` of the masks are set.

    Which elements these are, loops find out that come first: those of each stage, the last one
    first, without what it computes.
    """
    while masks and isinstance(body, IfThenElse) and constant(body.condition):  # of the root block
        body = body.then_case
    if not masks or not isinstance(body, SeqStmt):
        body = _guard(*_narrow(body, masks), masks)
        return body, count_iterations(body, open_extent=1, shares=shares)
    stages, asked, own, known = [*body.seq], dict(masks), dict[Any, Any](), dict(shares)
    begin: list[Any] = []
    for buffer in (each.buffer for each in stages if isinstance(each, AllocBuffer)):
        if _is_made_before_it_is_used(buffer, stages):
            asked[buffer] = own[buffer] = mask = decl_buffer(buffer.shape, "int8", buffer.name)
            place = Var("i", "int32")
            clear = BufferStore(mask, const(0, "int8"), [place])
            loop = For(place, 0, buffer.shape[0], ForKind.SERIAL, clear)
            begin += [AllocBuffer(mask), loop]
            known[mask] = 0.0
    narrowed = [_guard(*_narrow(each, asked), asked) for each in stages]
    none = dict.fromkeys(known, 0.0)
    for stage in reversed(narrowed) if own else ():
        if (mark := _mark(stage, own)) is None:
            continue
        begin.append(mark)
        run, overhead = (count_iterations(mark, open_extent=1, shares=it) for it in (known, none))
        for mask in {store.buffer for store in find_all(mark, BufferStore)}:
            known[mask] = min(known[mask] + max(run - overhead, 1) / int(mask.shape[0]), 1.0)
    whole = SeqStmt([*begin, *narrowed])
    return whole, count_iterations(whole, open_extent=1, shares=known)


def _is_made_before_it_is_used(buffer: Any, stages: list[Any]) -> bool:
    """Whether some stages store to a buffer, an element from that element alone, and later ones
    load it, at places and on conditions that depend on no data.
    """
    made = [
        at
        for at, stage in enumerate(stages)
        if any(it.buffer.same_as(buffer) for it in find_all(stage, BufferStore))
    ]
    if not made or any(not find_private(stages[at], [buffer]) for at in made):
        return False
    for at, stage in enumerate(stages):
        loads = [it for it in find_all(stage, TensorLoad) if it.source.same_as(buffer)]
        if loads and at < max(made) and at not in made:
            return False
        if loads and at > max(made):
            conditions = [it.condition for it in find_all(stage, IfThenElse)]
            places = [index for it in loads for index in it.indices]
            bound = [it.value for it in find_all(stage, Bind)]
            if any(find_all(it, TensorLoad) for it in (*conditions, *places, *bound)):
                return False
            if find_all(stage, While):
                return False
    return True


def _mark(node: Any, own: Mapping[Any, Any]) -> Any:
    """A narrowed statement that asks for what it loads of the buffers in `own`, and computes
    nothing; None for one that loads none.
    """
    if isinstance(node, BufferStore):
        marks = []
        for load in find_all(node.value, TensorLoad):
            if load.source in own and not load.source.same_as(node.buffer):
                index, end = load.indices[0], int(load.source.shape[0])
                # It may be computed in vain, and stays within its buffer.
                place = Max(Min(index, const(end - 1, index.ty)), const(0, index.ty))
                marks.append(BufferStore(own[load.source], const(1, "int8"), [place]))
        return SeqStmt(marks) if len(marks) > 1 else (marks or [None])[0]
    if isinstance(node, For):
        body = _mark(node.body, own)
        if body is None or not any(it.same_as(node.loop_var) for it in undefined_vars(body)):
            return body  # each iteration asks for the same
        return For(node.loop_var, node.min, node.extent, node.kind, body)
    if isinstance(node, IfThenElse):
        then, other = (it and _mark(it, own) for it in (node.then_case, node.else_case))
        if then is None and other is None:
            return None
        return IfThenElse(node.condition, Evaluate(0) if then is None else then, other)
    if isinstance(node, SeqStmt):
        marks = [it for it in (_mark(it, own) for it in node.seq) if it is not None]
        bound = {it.var: it.value for it in node.seq if isinstance(it, Bind)}
        for _ in bound:  # by others, maybe
            marks = [substitute(it, bound) for it in marks]
        return SeqStmt(marks) if len(marks) > 1 else (marks or [None])[0]
    return _mark(node.body, own) if hasattr(node, "body") else None


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
