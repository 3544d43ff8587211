"""Puts a program together again that TVM has split into a host's part and kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import Call
from tvm.tirx import AttrStmt, Evaluate, Var

ENTRY = "main"
KERNEL_LAUNCH = 2  # TVM's calling convention of what the host launches


def find_kernels(module: tvm.IRModule) -> dict[str, Any]:
    """The functions that run on a GPU, by name; none before TVM splits them off."""
    return {
        str(variable.name_hint): function
        for variable, function in module.functions_items()
        if _find_convention(function) == KERNEL_LAUNCH or str(variable.name_hint) != ENTRY
    }


def find_host(module: tvm.IRModule) -> Any:
    """The function that launches the kernels, while it still takes buffers; otherwise None.

    Later on it takes packed arguments, and asks the driver to launch.
    """
    functions = {str(variable.name_hint): one for variable, one in module.functions_items()}
    entry = functions.get(ENTRY)
    return None if entry is None or _find_convention(entry) is not None else entry


def join(host: Any, kernels: Mapping[str, Any]) -> tvm.IRModule:
    """One function ``main``, in which each launch is the kernel's body with its arguments.

    The extents of the threads are those that the host launches with.
    """

    def place(statement: Any) -> Any:
        launch = _read_launch(statement.value, kernels)
        if launch is None:
            return statement
        name, arguments, extents = launch
        known = dict(zip(kernels[name].params, arguments, strict=True))

        def extend(node: Any) -> Any:
            tag = str(node.node.thread_tag) if node.attr_key == "thread_extent" else ""
            if tag not in extents:
                return node
            return AttrStmt(node.node, node.attr_key, extents[tag], node.body)

        body = tvm_ffi.structural_map(kernels[name].body, (AttrStmt, extend))
        return tvm_ffi.structural_map(body, (Var, lambda one: known.get(one, one)))

    return tvm.IRModule({ENTRY: tvm_ffi.structural_map(host, (Evaluate, place))})


def _read_launch(
    call: Any, kernels: Mapping[str, Any]
) -> tuple[str, list[Any], dict[str, Any]] | None:
    """The kernel, its arguments, and the extents by axis, which a plain call does not have yet."""
    if not isinstance(call, Call):
        return None
    if str(getattr(call.op, "name", "")) == "tirx.call_ffi_kernel":
        tags = [str(tag) for tag in call.attrs.launch_params]
        name, *passed = call.args
        count = len(passed) - len(tags)
        return str(name.value), passed[:count], dict(zip(tags, passed[count:], strict=True))
    callee = str(getattr(call.op, "name_hint", ""))
    return (callee, list(call.args), {}) if callee in kernels else None


def _find_convention(function: Any) -> int | None:
    convention = function.attrs.get("calling_conv") if function.attrs is not None else None
    return None if convention is None else int(getattr(convention, "value", convention))
