"""What moved or was renamed in TVM between 0.25 and 0.27, under the names of 0.27.

This module alone asks which TVM there is. What is the same in all versions is imported from TVM
itself; what is not is imported from here, and no other module has a second way for an older TVM.
What 0.25 has in another form is in `_tvm_0_25`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import tvm
import tvm_ffi

TVM = tuple(int(part) for part in tvm.__version__.split(".")[:2])

if TVM >= (0, 27):
    from tvm.ir import Call, PrimType, TensorLoad, TensorRegion
    from tvm.s_tir import MatchBufferRegion, SBlock, SBlockRealize
    from tvm.script import tirx as _T
    from tvm.sym import (
        Analyzer,
        IntervalSet,
        detect_iter_map,
        detect_linear_equation,
        estimate_region_lower_bound,
        estimate_region_upper_bound,
    )
    from tvm.sym.iter_affine_map import IterMapLevel
    from tvm.tirx import (
        BitwiseAnd,
        BitwiseOr,
        BitwiseXor,
        Break,
        Continue,
        LShift,
        PrimFunc,
        Return,
        RShift,
    )
    from tvm.tirx.buffer import BufferType
    from tvm_ffi import structural_map, structural_walk

    _map_structure = tvm_ffi.get_global_func("ffi.StructuralMap")

    ptx_legacy = _T.ptx_legacy
else:
    from tvm.arith import (
        Analyzer,
        IntervalSet,
        detect_iter_map,
        detect_linear_equation,
        estimate_region_lower_bound,
        estimate_region_upper_bound,
    )
    from tvm.arith.iter_affine_map import IterMapLevel
    from tvm.ir import Node, Range
    from tvm.script import tirx as _T
    from tvm.tirx import BufferLoad as TensorLoad
    from tvm.tirx import BufferRegion as TensorRegion
    from tvm.tirx import (
        Evaluate,
        MatchBufferRegion,
        PrimFunc,
        SBlock,
        SBlockRealize,
        Stmt,
    )
    from tvm.tirx.stmt import Break, Continue
    from tvm.tirx.stmt_functor import ir_transform

    if TVM >= (0, 26):
        from tvm.ir import Call, PrimType
        from tvm.tirx import Return
        from tvm.tirx.buffer import BufferType
        from tvm_ffi import structural_walk
    else:
        from tirstep import _tvm_0_25
        from tirstep._tvm_0_25 import BufferType, PrimType, Return
        from tirstep._tvm_0_25 import TypedCall as Call

        _tvm_0_25.add_attributes()

    ptx_legacy = SimpleNamespace(ldmatrix=_T.ptx.ldmatrix_legacy, mma=_T.ptx.mma.legacy)

    # The attribute `source` of 0.27; nothing that these classes have is replaced.
    for _class in (TensorLoad, TensorRegion):
        _class.source = property(lambda self: self.buffer)

    def structural_map(root: Any, callbacks: Any) -> Any:  # type: ignore[misc]
        """The tree with each node of a kind replaced by what the callback of its kind returns.

        Parameters
        ----------
        root : PrimFunc, Stmt, Expr or Range
            Of a function the body is mapped.
        callbacks
            ``(kind, callback)``, ``((kind, ...), callback)``, or a list of these. A callback sees a
            node whose parts were mapped already.
        """
        if isinstance(root, PrimFunc):
            return root.with_body(structural_map(root.body, callbacks))
        if isinstance(root, Range):
            ends = (structural_map(end, callbacks) for end in (root.min, root.extent))
            return Range.from_min_extent(*ends)
        if isinstance(root, Stmt):
            pairs = list(_list_pairs([callbacks]))
            names = [kind.__tvm_ffi_type_info__.type_key for kinds, _ in pairs for kind in kinds]

            def replace(node: Any) -> Any:
                found = (call for kinds, call in pairs if isinstance(node, kinds))
                return next((call(node) for call in found), node)

            return ir_transform(root, None, replace, names)
        is_expression = isinstance(root, Node)
        return structural_map(Evaluate(root), callbacks).value if is_expression else root

    def _list_pairs(callbacks: Any) -> Iterator[tuple[tuple[Any, ...], Callable[[Any], Any]]]:
        for each in callbacks:
            match each:
                case (type() as kind, call) if callable(call):
                    yield (kind,), call
                case ((type(), *_) as kinds, call) if callable(call):
                    yield tuple(kinds), call
                case _:
                    yield from _list_pairs(each)


if TVM >= (0, 26):
    from tvm.tirx import DeclBuffer, PrimFunc, Var, decl_buffer

    _walk_structure = tvm_ffi.get_global_func("ffi.StructuralWalk")
    _PREORDER, _POSTORDER = map(int, (tvm_ffi.WalkOrder.PREORDER, tvm_ffi.WalkOrder.POSTORDER))

    def walk_nodes(root: Any, kind: type, visit: Callable[[Any], None]) -> None:
        """`structural_walk` in program order, of one kind of node.

        For what is asked thousands of times: TVM reads what callbacks there are anew each time,
        which takes longer than a walk over an expression does.
        """
        index = kind.__tvm_ffi_type_info__.type_index  # type: ignore[attr-defined]
        _walk_structure(root, [(index, visit)], [], _PREORDER)

    def get_parameters(function: Any) -> Any:
        """A function's parameters, buffers and variables."""
        return function.params

    def make_function(params: Any, like: Any = None, body: Any = None) -> Any:
        """A function of other parameters, and of another body, than one that there is."""
        if like is None:
            return PrimFunc(params, body)
        kept = (like.ret_type, like.attrs, like.span)
        return PrimFunc(params, like.body if body is None else body, *kept)

    def get_pointer(buffer: Any) -> Any:
        """What stands for a buffer in a pointer to it, and is the same for all of one memory."""
        return buffer

    def get_pointed(argument: Any) -> Any:
        """What `get_pointer` says of the buffer to whose elements an argument points, or None."""
        is_data = str(getattr(getattr(argument, "op", None), "name", "")) == "tirx.buffer_data"
        return argument.args[0] if is_data else None

    def find_buffer_arguments(call: Any) -> list[int]:
        """Which arguments of a call are buffers that are taken for their address."""
        place = {"tirx.buffer_data": 0, "tirx.tvm_access_ptr": 1}.get(get_op_name(call))
        return [place] if place is not None and isinstance(call.args[place], Var) else []

    def declare_twin(buffer: Any, shape: Any) -> Any:
        """A buffer of another shape in the place of one."""
        return decl_buffer(shape, buffer.dtype, str(buffer.name), scope=buffer.scope())

    def make_view(buffer: Any, data: Any) -> Any:
        """The statement that declares a buffer in the memory of another one."""
        return DeclBuffer(buffer, data=data)

    def put_in(body: Any, values: Mapping[Any, Any]) -> Any:
        """A statement with other values of variables, those of buffers among them."""
        return structural_map(body, (Var, lambda variable: values.get(variable, variable)))

    def declare_views(module: Any) -> Any:
        """The module: each buffer that it uses is declared already."""
        return module

    def point_into(buffer: Any, access: str, dtype: str, **place: Any) -> Any:
        """A pointer of a type into a buffer, for reading ``"r"``, writing ``"w"``, or both."""
        return buffer.access_ptr(access, ptr_type=dtype, **place)

    def merge_dynamic_memory(module: Any) -> Any:
        """The module after TVM's pass: dynamic shared memory is one allocation of bytes.

        Each buffer that it had is a view of that; in 0.25, which declares none, all stay apart.
        """
        return tvm.s_tir.transform.MergeSharedMemoryAllocations()(module)

else:

    def structural_walk(root: Any, callbacks: Any, order: str = "pre") -> None:  # type: ignore[misc]
        """Call on each node what the callback of its kind does, in program order.

        Parameters
        ----------
        root : PrimFunc, Stmt, Expr, or a list of these
        callbacks
            ``(kind, callback)``, ``((kind, ...), callback)``, or a list of these.
        order : "pre"
            A node comes before its parts.
        """
        pairs = list(_list_pairs([callbacks]))
        every = tuple(kind for kinds, _ in pairs for kind in kinds)

        def visit(node: Any) -> None:
            next(call(node) for kinds, call in pairs if isinstance(node, kinds))

        _tvm_0_25.walk_in_order(root, every, visit)

    walk_nodes = _tvm_0_25.walk_in_order
    get_parameters = _tvm_0_25.get_parameters
    make_function = _tvm_0_25.make_function
    get_pointer = _tvm_0_25.get_pointer
    get_pointed = _tvm_0_25.get_pointed
    find_buffer_arguments = _tvm_0_25.find_buffer_arguments
    declare_twin = _tvm_0_25.declare_twin
    make_view = _tvm_0_25.make_view
    put_in = _tvm_0_25.put_in
    declare_views = _tvm_0_25.declare_views
    point_into = _tvm_0_25.point_into

    def merge_dynamic_memory(module: Any) -> Any:
        """The module: that of 0.25 has no views of merged memory, so that all stay apart."""
        return module


def map_nodes(root: Any, kind: type, replace: Callable[[Any], Any]) -> Any:
    """`structural_map` of one kind of node, for what is asked thousands of times, too."""
    if TVM < (0, 27):
        return structural_map(root, (kind, replace))
    index = kind.__tvm_ffi_type_info__.type_index  # type: ignore[attr-defined]
    return _map_structure(root, [(index, replace)], [], _POSTORDER)


BITS: dict[Any, str] = (
    {BitwiseAnd: "and_", BitwiseOr: "or_", BitwiseXor: "xor", LShift: "lshift", RShift: "rshift"}
    if TVM >= (0, 27)
    else {
        "tirx.bitwise_and": "and_",
        "tirx.bitwise_or": "or_",
        "tirx.bitwise_xor": "xor",
        "tirx.shift_left": "lshift",
        "tirx.shift_right": "rshift",
    }
)
"""Operators of bits, with their names in Python's `operator`: classes, and calls before 0.27."""


def split_operator(node: Any) -> tuple[Any, Any, Any]:
    """What an operator of two operands is, as in `BITS` or its class, and its operands.

    The operands of what is none are None.
    """
    if TVM < (0, 27) and isinstance(node, Call) and len(node.args) == 2:
        return get_op_name(node), *node.args
    return type(node), getattr(node, "a", None), getattr(node, "b", None)


_LAUNCH_PARAMS = "tirx.kernel_launch_params"

# Operators by the names of an older version, under those of 0.27.
_RENAMED = {
    f"tirx.{name}": f"prim.{name}"
    for name in ("ceil", "clz", "if_then_else", "likely", "log2", "vscale")
} | {
    "tirx.ptx.cp_async_raw": "tirx.s_tir.cp_async_raw",
    "tirx.ptx.ldg32": "tirx.s_tir.ldg32",
    "tirx.ptx.ldmatrix_legacy": "tirx.ptx_legacy.ldmatrix",
    "tirx.ptx.mma_legacy": "tirx.ptx_legacy.mma",
}
_OLD_NAMES = {new: old for old, new in _RENAMED.items()}


_SPELLINGS = {
    "T.ptx.ldmatrix_legacy": "T.ptx_legacy.ldmatrix",
    "T.ptx.mma.legacy": "T.ptx_legacy.mma",
}
"""What 0.26 prints, and how 0.27 spells it."""


def spell_as_newer(text: str) -> tuple[str, list[str]]:
    """TVMScript of an older version in the words of the newer one, and what was spelt otherwise."""
    changed = []
    for old, new in _SPELLINGS.items():
        if f"{old}(" in text and TVM >= (0, 27):
            text = text.replace(f"{old}(", f"{new}(")
            changed.append(f"{old} is now {new}")
    return text, changed


_OLD_SPELLINGS = {new: old for old, new in _SPELLINGS.items()} | {
    "T.s_tir.cp_async_raw": "T.ptx.cp_async",
}


def spell_for_this_tvm(text: str) -> str:
    """TVMScript in the words of 0.27, as this TVM reads it."""
    if TVM < (0, 27):
        for new, old in _OLD_SPELLINGS.items():
            text = text.replace(f"{new}(", f"{old}(")
    return text


def get_op_name(call: Any) -> str:
    """The name that 0.27 gives the operator of a call, as ``tirx.tvm_access_ptr``; of a function
    of the module, or of none, the empty string."""
    name = str(getattr(call.op, "name", ""))
    if TVM >= (0, 27):
        return name
    name = name if TVM >= (0, 26) else _tvm_0_25.rename_op(name)
    return _RENAMED.get(name, name)


def get_launch_tags(call: Any, kernels: Mapping[str, Any]) -> list[str] | None:
    """The thread axes whose extents are the last arguments of a launch; None of any other call.

    Before 0.27 a launch is a call of a packed function with the kernel's name.
    """
    name = get_op_name(call)
    if name == "tirx.call_ffi_kernel":
        return [str(tag) for tag in call.attrs.launch_params]
    if TVM >= (0, 27) or name != "tirx.tvm_call_packed":
        return None
    kernel = kernels.get(str(getattr(call.args[0], "value", "")))
    return None if kernel is None else [str(tag) for tag in kernel.attrs[_LAUNCH_PARAMS]]


def include_without_gpu(source: str) -> str:
    """Generated CUDA C++ that includes CUDA's types without a GPU's architecture, too.

    Before 0.27 they are included for one alone: a compiler of C++ finds no ``half`` there.
    """
    if TVM >= (0, 27):
        return source
    return _TYPES.sub(r"#if !defined(__CUDA_ARCH__) || \1", source)


_TYPES = re.compile(r"#if defined\(__CUDA_ARCH__\) && (.*\n#include <cuda_)")


def explain_lack(reason: str) -> str:
    """What this TVM lacks, where that is why it lowers no module; else its own reason."""
    if TVM >= (0, 26) or "Cannot find var remap for" not in reason:
        return reason
    what = "intermediate results of bfloat16 and float8 in global memory"
    return f"TVM 0.25 has no {what}; install apache-tvm>=0.26"


def get_old_op_name(name: str) -> str:
    """What this TVM calls an operator of 0.27, for what is registered by name."""
    return name if TVM >= (0, 27) else _OLD_NAMES.get(name, name)


__all__ = [
    "BITS",
    "TVM",
    "Analyzer",
    "Break",
    "BufferType",
    "Call",
    "Continue",
    "IntervalSet",
    "IterMapLevel",
    "MatchBufferRegion",
    "PrimType",
    "Return",
    "SBlock",
    "SBlockRealize",
    "TensorLoad",
    "TensorRegion",
    "declare_twin",
    "declare_views",
    "detect_iter_map",
    "detect_linear_equation",
    "estimate_region_lower_bound",
    "estimate_region_upper_bound",
    "explain_lack",
    "find_buffer_arguments",
    "get_launch_tags",
    "get_old_op_name",
    "get_op_name",
    "get_parameters",
    "get_pointed",
    "get_pointer",
    "include_without_gpu",
    "make_function",
    "make_view",
    "map_nodes",
    "merge_dynamic_memory",
    "point_into",
    "ptx_legacy",
    "put_in",
    "spell_as_newer",
    "spell_for_this_tvm",
    "split_operator",
    "structural_map",
    "structural_walk",
    "walk_nodes",
]
