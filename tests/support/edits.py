"""Edits of lowered modules, where their text does not parse again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm.tirx import BufferStore, Evaluate
from tvm_ffi import structural_map

NOTHING = Evaluate(tvm.tirx.const(0, "int32"))


def edit(
    module: tvm.IRModule,
    kind: type,
    wanted: Callable[[Any], bool],
    change: Callable[[Any], Any],
    which: int = 0,
) -> tvm.IRModule:
    """The module with the node number `which` of those that are wanted changed."""
    seen = -1

    def visit(node: Any) -> Any:
        nonlocal seen
        if not wanted(node):
            return node
        seen += 1
        return change(node) if seen == which else node

    functions = {
        name: structural_map(function, (kind, visit)) for name, function in module.functions_items()
    }
    assert seen >= which, f"there are {seen + 1}"
    return tvm.IRModule(functions)


def drop_barrier(module: tvm.IRModule, which: int) -> tvm.IRModule:
    """The module without one of its barriers."""
    return edit(
        module, Evaluate, lambda node: "tvm_storage_sync" in str(node), lambda _: NOTHING, which
    )


def drop_store(module: tvm.IRModule, buffer: str) -> tvm.IRModule:
    """The module without the first store to a buffer."""
    return edit(module, BufferStore, lambda node: node.buffer.name == buffer, lambda _: NOTHING)
