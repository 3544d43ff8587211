"""Passes that are planted into TVM's pipeline, with what they do to a module."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import s_tir
from tvm.ir import Call
from tvm.tirx import (
    Add,
    AttrStmt,
    BufferStore,
    Evaluate,
    FloatImm,
    For,
    IfThenElse,
    Max,
    Mul,
    SeqStmt,
    Sub,
    Var,
)
from tvm_ffi import structural_map

Change = Callable[[tvm.IRModule], tvm.IRModule]
NAME = "planted"
NOTHING = Evaluate(tvm.tirx.const(0, "int32"))


def plant(monkeypatch: pytest.MonkeyPatch, behind: str, change: Change, *, which: int = 0) -> None:
    """Plant a pass called ``planted`` behind the place number `which` of one of TVM's passes."""
    home = s_tir.transform if hasattr(s_tir.transform, behind) else tvm.tirx.transform
    right, made = getattr(home, behind), [0]

    @tvm.transform.module_pass(opt_level=0, name=NAME)
    def planted(module: tvm.IRModule, _: Any) -> tvm.IRModule:
        return change(module)

    def both(*arguments: Any) -> Any:
        # A pipeline is made anew for each compilation.
        place, made[0] = made[0], (made[0] + 1) % PLACES.get(behind, 1)
        one = right(*arguments)
        return tvm.transform.Sequential([one, planted]) if place == which else one

    monkeypatch.setattr(home, behind, both)


PLACES = {"ThreadSync": 3}
"""How often a pipeline has a pass that it has several times."""


def replace_pass(monkeypatch: pytest.MonkeyPatch, name: str, change: Change) -> None:
    """One of TVM's passes does something else, under its own name."""
    home = s_tir.transform if hasattr(s_tir.transform, name) else tvm.tirx.transform
    family = "s_tir" if home is s_tir.transform else "tirx"

    @tvm.transform.module_pass(opt_level=0, name=f"{family}.{name}")
    def broken(module: tvm.IRModule, _: Any) -> tvm.IRModule:
        return change(module)

    monkeypatch.setattr(home, name, lambda *_: broken)


def edit(module: tvm.IRModule, kind: Any, change: Callable[[Any], Any]) -> tvm.IRModule:
    """All nodes of a kind changed."""
    functions = {
        name.name_hint: structural_map(function, (kind, change))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions)


def _is_float(node: Any) -> bool:
    return str(node.ty.dtype).startswith("float")


def keep(module: tvm.IRModule) -> tvm.IRModule:
    """Right: nothing changes."""
    return module


def sleep(module: tvm.IRModule) -> tvm.IRModule:
    """Right: it takes its time."""
    time.sleep(0.2)
    return module


def rename(module: tvm.IRModule) -> tvm.IRModule:
    """Right: loops get other variables."""

    def change(loop: For) -> For:
        fresh = Var(f"{loop.loop_var.name}_renamed", loop.loop_var.ty)
        body = structural_map(
            loop.body, (Var, lambda var: fresh if var.same_as(loop.loop_var) else var)
        )
        return For(
            fresh, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations
        )

    return edit(module, For, change)


def commute(module: tvm.IRModule) -> tvm.IRModule:
    """Right: the operands of sums change places, which rounds as before."""
    return edit(module, Add, lambda node: Add(node.b, node.a) if _is_float(node) else node)


def round_otherwise(module: tvm.IRModule) -> tvm.IRModule:
    """Right within the bounds of floats: each product is off by a unit in the last place."""
    near = FloatImm("float32", 1 + 2.0**-23)
    return edit(module, Mul, lambda node: Mul(node, near) if _is_float(node) else node)


def subtract(module: tvm.IRModule) -> tvm.IRModule:
    return edit(module, Add, lambda node: Sub(node.a, node.b) if _is_float(node) else node)


def swap_operands(module: tvm.IRModule) -> tvm.IRModule:
    return edit(module, Sub, lambda node: Sub(node.b, node.a) if _is_float(node) else node)


def drop_guard(module: tvm.IRModule) -> tvm.IRModule:
    return edit(module, IfThenElse, lambda node: node.then_case)


def drop_barriers(module: tvm.IRModule) -> tvm.IRModule:
    return edit(module, Evaluate, lambda node: NOTHING if "tvm_storage_sync" in str(node) else node)


def drop_store(module: tvm.IRModule) -> tvm.IRModule:
    """The first store of each function is gone."""
    seen: list[Any] = []

    def change(node: Any) -> Any:
        seen.append(node)
        return NOTHING if len(seen) == 1 else node

    return edit(module, BufferStore, change)


def change_constant(module: tvm.IRModule) -> tvm.IRModule:
    """Sums begin at 1."""
    return edit(
        module,
        BufferStore,
        lambda node: (
            BufferStore(node.buffer, FloatImm(str(node.value.ty.dtype), 1), node.indices)
            if isinstance(node.value, FloatImm)
            else node
        ),
    )


def shift_loads(module: tvm.IRModule) -> tvm.IRModule:
    """Every loop begins one later and takes as many turns."""
    return edit(
        module,
        For,
        lambda loop: (
            loop
            if loop.thread_binding is not None
            else For(loop.loop_var, loop.min + 1, loop.extent, loop.kind, loop.body)
        ),
    )


def shorten_loops(module: tvm.IRModule) -> tvm.IRModule:
    """The last turn of every serial loop is missing."""
    return edit(
        module,
        For,
        lambda loop: (
            loop
            if loop.thread_binding is not None or int(loop.extent) < 2
            else For(loop.loop_var, loop.min, loop.extent - 1, loop.kind, loop.body)
        ),
    )


def lose_threads(module: tvm.IRModule) -> tvm.IRModule:
    """The attribute of the last thread axis is lost, and its variable is 0."""
    seen: list[Any] = []

    def change(node: Any) -> Any:
        is_axis = node.attr_key == "thread_extent" and "threadIdx" in str(node.node.thread_tag)
        if not is_axis or seen:
            return node
        seen.append(node)
        zero = tvm.tirx.const(0, str(node.node.var.ty.dtype))
        return structural_map(
            node.body, (Var, lambda var: zero if var.same_as(node.node.var) else var)
        )

    return edit(module, AttrStmt, change)


def forget_threads(module: tvm.IRModule) -> tvm.IRModule:
    """The thread axes are lost, and their variables stand for nothing."""
    return edit(
        module,
        AttrStmt,
        lambda node: node.body if node.attr_key == "thread_extent" else node,
    )


def spoil_one_block(module: tvm.IRModule) -> tvm.IRModule:
    """What one thread block stores is off by one."""

    def visit(node: Any) -> Any:
        if node.attr_key != "thread_extent" or str(node.node.thread_tag) != "blockIdx.x":
            return node
        is_last = node.node.var.equal(tvm.tirx.const(int(node.value) - 1, "int32"))

        def add(store: Any) -> Any:
            if str(store.buffer.scope()) != "global":
                return store
            one = FloatImm(str(store.value.ty.dtype), 1)
            value = tvm.tirx.Select(is_last, Add(store.value, one), store.value)
            return BufferStore(store.buffer, value, store.indices)

        body = structural_map(node.body, (BufferStore, add))
        return AttrStmt(node.node, node.attr_key, node.value, body)

    return edit(module, AttrStmt, visit)


def at_odd_shapes(change: Change) -> Change:
    """The change, where a parameter has an odd extent."""

    def spoil(module: tvm.IRModule) -> tvm.IRModule:
        extents = [
            int(extent)
            for function in module.functions.values()
            for parameter in function.params
            for extent in getattr(parameter, "shape", ())
        ]
        return change(module) if any(extent % 2 for extent in extents) else module

    return spoil


def in_float16(change: Change) -> Change:
    """The change, where a parameter is a float16."""

    def spoil(module: tvm.IRModule) -> tvm.IRModule:
        names = [str(param) for function in module.functions.values() for param in function.params]
        texts = [str(module.script()), *names]
        return change(module) if any("float16" in text for text in texts) else module

    return spoil


def and_sleep(change: Change) -> Change:
    """The change, slowly."""
    return lambda module: change(sleep(module))


def hide(change: Change) -> Change:
    """The change, and a statement that nobody but TVM knows; `unhide` takes it away."""

    def spoil(module: tvm.IRModule) -> tvm.IRModule:
        strange = Evaluate(tvm.tirx.call_intrin("int32", "tirx.tvm_stack_alloca", "shape", 1))
        seen: list[Any] = []

        def add(node: Any) -> Any:
            seen.append(node)
            return SeqStmt([strange, node]) if len(seen) == 1 else node

        return edit(change(module), BufferStore, add)

    return spoil


def unhide(module: tvm.IRModule) -> tvm.IRModule:
    """Right: the strange statement is gone."""
    return edit(module, Evaluate, lambda node: NOTHING if "stack_alloca" in str(node) else node)


def fail(module: tvm.IRModule) -> tvm.IRModule:
    raise RuntimeError("planted failure")


def turn_maximum(module: tvm.IRModule) -> tvm.IRModule:
    """Maxima become minima."""
    return edit(module, Max, lambda node: tvm.tirx.Min(node.a, node.b) if _is_float(node) else node)


def drop_waits(module: tvm.IRModule) -> tvm.IRModule:
    """Nobody waits for the products of tensor cores."""
    return edit(module, Evaluate, lambda node: NOTHING if "wait_group" in str(node) else node)


def _edit_calls(module: tvm.IRModule, name: str, change: Callable[[Call], Call]) -> tvm.IRModule:
    return edit(
        module, Call, lambda node: change(node) if getattr(node.op, "name", "") == name else node
    )


def move_pointers(module: tvm.IRModule) -> tvm.IRModule:
    """Pointers into buffers are eight elements too far."""

    def move(call: Call) -> Call:
        arguments = list(call.args)
        arguments[2] = arguments[2] + 8
        return Call(call.op, arguments, call.attrs, span=call.span, ret_ty=call.ty)

    return _edit_calls(module, "tirx.tvm_access_ptr", move)


def in_exponents(module: tvm.IRModule) -> tvm.IRModule:
    """Exponentials have another base."""
    return _edit_calls(
        module,
        "tirx.exp",
        lambda call: tvm.tirx.call_intrin(str(call.ty.dtype), "tirx.exp2", call.args[0]),
    )
