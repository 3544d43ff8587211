"""APIs that the next TVM is likely to move: shapes of nodes and of its FFI that several modules
rely on.

What is stable is imported from TVM itself.
"""

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm.tirx import PrimFunc, Var

_walk_structure = tvm_ffi.get_global_func("ffi.StructuralWalk")
_map_structure = tvm_ffi.get_global_func("ffi.StructuralMap")
_PREORDER, _POSTORDER = map(int, (tvm_ffi.WalkOrder.PREORDER, tvm_ffi.WalkOrder.POSTORDER))


def walk_nodes(root: Any, kind: type, visit: Callable[[Any], None]) -> None:
    """`tvm_ffi.structural_walk` in program order, of one kind of node.

    For what is asked thousands of times: TVM reads what callbacks there are anew each time, which
    takes longer than a walk over an expression does.
    """
    index = kind.__tvm_ffi_type_info__.type_index  # type: ignore[attr-defined]
    _walk_structure(root, [(index, visit)], [], _PREORDER)


def map_nodes(root: Any, kind: type, replace: Callable[[Any], Any]) -> Any:
    """`tvm_ffi.structural_map` of one kind of node, for what is asked thousands of times, too."""
    index = kind.__tvm_ffi_type_info__.type_index  # type: ignore[attr-defined]
    return _map_structure(root, [(index, replace)], [], _POSTORDER)


def with_parameters(function: Any, params: Any) -> Any:
    """The function with other parameters; its body, type and attributes stay."""
    return PrimFunc(params, function.body, function.ret_type, function.attrs, function.span)


def get_op_name(call: Any) -> str:
    """The name of a call's operator, as ``tirx.tvm_access_ptr``; "" of a function of the module."""
    return str(getattr(call.op, "name", ""))


def get_pointed(argument: Any) -> Any:
    """The buffer to whose elements an argument of a call points, or None."""
    is_data = str(getattr(getattr(argument, "op", None), "name", "")) == "tirx.buffer_data"
    return argument.args[0] if is_data else None


def find_buffer_arguments(call: Any) -> list[int]:
    """Which arguments of a call are buffers that are taken for their address."""
    place = {"tirx.buffer_data": 0, "tirx.tvm_access_ptr": 1}.get(get_op_name(call))
    return [place] if place is not None and isinstance(call.args[place], Var) else []
