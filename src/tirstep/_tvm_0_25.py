"""What TVM 0.25 has in another form than 0.26: types, buffers, calls and walks of its trees.

`tirstep.tvm_compat` imports this module under 0.25 alone, and gives its names to the others.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tvm_ffi
from tvm import ir
from tvm.ir import PointerType, PrimExpr
from tvm.tirx import (
    AllocBuffer,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    PrimFunc,
    SeqStmt,
    Var,
    call_intrin,
    decl_buffer,
)
from tvm.tirx import Call as _Call
from tvm.tirx.stmt_functor import ir_transform, substitute
from tvm_ffi import Object

_HANDLE, _POINTER = "handle", "tirx.tvm_access_ptr"


class PrimType(tvm_ffi.dtype):
    """The type of a number: its name, which TVM 0.25 takes wherever it takes a type."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The type as `tvm_ffi.dtype`, which it is."""
        return self


class BufferType:
    """The type of a buffer: its elements' type, its shape, and where it is."""

    __slots__ = ("_buffer",)

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer

    @property
    def dtype(self) -> PrimType:
        """The elements' type."""
        return get_number_type(self._buffer.dtype)

    @property
    def shape(self) -> Any:
        """The extents."""
        return self._buffer.shape


@functools.cache
def get_number_type(dtype: str) -> PrimType:
    """The type of a name, once."""
    return PrimType(dtype)


class _CallKind(type):
    """Has instances of TVM's own class, whose constructor takes its arguments in another order."""

    def __instancecheck__(cls, node: Any) -> bool:
        return isinstance(node, _Call)

    def __call__(
        cls,
        op: Any,
        args: Any,
        attrs: Any = None,
        ty_args: Any = None,
        span: Any = None,
        ret_ty: Any = None,
    ) -> Any:
        dtype = _HANDLE if isinstance(ret_ty, PointerType) else str(ret_ty or "void")
        return _Call(dtype, op, args, attrs, span)


class TypedCall(metaclass=_CallKind):
    """A call as 0.26 makes it: ``Call(op, args, attrs, ty_args, span, ret_ty)``."""

    __tvm_ffi_type_info__ = _Call.__tvm_ffi_type_info__


class _ReturnKind(type):
    """Has the statements that return as instances, which are calls of ``tirx.ret``."""

    def __instancecheck__(cls, node: Any) -> bool:
        call = node.value if isinstance(node, Evaluate) else None
        return str(getattr(getattr(call, "op", None), "name", "")) == "tirx.ret"

    def __call__(cls, value: Any) -> Any:
        return Evaluate(call_intrin("int32", "tirx.ret", value))


class Return(metaclass=_ReturnKind):
    """The statement of 0.26."""

    __tvm_ffi_type_info__ = Evaluate.__tvm_ffi_type_info__


def _get_type(node: Any) -> Any:
    dtype = node.dtype
    return get_number_type(dtype) if dtype != _HANDLE else _get_pointer_type(node)


def _get_pointer_type(node: Any) -> Any:
    element = "void"
    if isinstance(node, Var):
        return node.type_annotation
    if isinstance(node, _Call) and str(getattr(node.op, "name", "")) == _POINTER:
        element = str(node.args[0].dtype)
    return PointerType(ir.PrimType(element))


def add_attributes() -> None:
    """Give 0.25's classes the attributes of 0.26 that they lack; nothing is replaced."""
    PrimExpr.ty = property(_get_type)
    Buffer.ty = property(BufferType)
    DeclBuffer.data = property(lambda self: self.buffer.data)


def get_parameters(function: PrimFunc) -> list[Any]:
    """A function's parameters: buffers, where 0.25 has their handles, and variables."""
    buffers = function.buffer_map
    return [buffers.get(each, each) for each in function.params]


def make_function(params: Iterable[Any], like: Any = None, body: Any = None) -> PrimFunc:
    """A function of other parameters, and of another body, than one that there is."""
    if like is None:
        return PrimFunc([*params], body)
    body = like.body if body is None else body
    return PrimFunc([*params], body, like.ret_type, None, like.attrs, like.span)


def get_pointer(buffer: Any) -> Any:
    """The variable of a buffer's data, which its views share; of a variable, itself."""
    return buffer.data if isinstance(buffer, Buffer) else buffer


def get_pointed(argument: Any) -> Any:
    """An argument that is the variable of a buffer's data, or None."""
    return argument if isinstance(argument, Var) and argument.dtype == _HANDLE else None


def find_buffer_arguments(call: Any) -> list[int]:
    """Which arguments of a call are variables of buffers' data."""
    return [at for at, argument in enumerate(call.args) if get_pointed(argument) is not None]


def declare_twin(buffer: Any, shape: Any) -> Any:
    """A buffer of another shape with the same data."""
    name, scope = str(buffer.name), buffer.scope()
    return decl_buffer(shape, buffer.dtype, name, data=buffer.data, scope=scope)


def make_view(buffer: Any, data: Any) -> Any:
    """The statement that declares a buffer, whose data is another one's already."""
    if not buffer.data.same_as(data):
        raise ValueError(f"{buffer.name} was declared with other data than it is a view of")
    return DeclBuffer(buffer)


def point_into(buffer: Any, access: str, dtype: str, **place: Any) -> Any:
    """A pointer into a buffer: in 0.25 it has the type that its elements have."""
    return buffer.access_ptr(access, **place)


def put_in(body: Any, values: Mapping[Any, Any]) -> Any:
    """A statement with other values of variables, also where they are buffers' data."""
    return substitute(body, dict(values))


@functools.cache
def rename_op(name: str) -> str:
    """The name that 0.26 gives an operator of PTX or CUDA."""
    if name == "tirx.ptx_cp_async":
        return "tirx.ptx.cp_async_raw"
    return re.sub(r"^tirx\.(ptx|cuda)_", r"tirx.\1.", name)


def declare_views(module: Any) -> Any:
    """The module with a declaration of each buffer that is another name of one that is allocated.

    TVM's passes of 0.25 leave these out; from 0.26 on there is no buffer without one.
    """
    functions = {
        variable: _declare_in(function) if isinstance(function, PrimFunc) else function
        for variable, function in module.functions_items()
    }
    changed = any(not new.same_as(module[var]) for var, new in functions.items())
    return ir.IRModule(functions, attrs=module.attrs) if changed else module


_ACCESSES = (BufferLoad, BufferStore)
_DECLARATIONS = (AllocBuffer, DeclBuffer)


def _declare_in(function: PrimFunc) -> PrimFunc:
    used: dict[Any, Any] = {}
    known = {each for each in get_parameters(function) if isinstance(each, Buffer)}
    owners = {get_pointer(each) for each in get_parameters(function)}

    def look(node: Any) -> None:
        used.setdefault(node.buffer)
        if isinstance(node, _DECLARATIONS):
            known.add(node.buffer)
        if isinstance(node, AllocBuffer):
            owners.add(node.buffer.data)

    walk_in_order(function.body, (*_ACCESSES, *_DECLARATIONS), look)
    renamed = {buffer: new for buffer in used if (new := _rename(buffer)) is not None}
    views: dict[Any, list[Any]] = {}
    for buffer in used:
        if buffer not in known and buffer.data in owners:
            view = DeclBuffer(renamed.get(buffer, buffer))
            views.setdefault(buffer.data, []).append(view)
    if not views and not renamed:
        return function
    body = _put_in(function.body, views, renamed)
    return function.with_body(_flatten([*itertools.chain(*views.values()), body]))


def _put_in(body: Any, views: dict[Any, list[Any]], renamed: dict[Any, Any]) -> Any:
    """A statement with other buffers, and with declarations, which are taken out of `views`."""

    def change(node: Any) -> Any:
        if isinstance(node, SeqStmt):
            return _flatten(node.seq)
        buffer = renamed.get(node.buffer, node.buffer)
        if isinstance(node, BufferLoad):
            return BufferLoad(buffer, node.indices, node.predicate, node.span)
        if isinstance(node, BufferStore):
            return BufferStore(buffer, node.value, node.indices, node.predicate, node.span)
        if isinstance(node, DeclBuffer):
            return DeclBuffer(buffer, node.span)
        made = AllocBuffer(buffer, node.annotations, node.span)
        return _flatten([made, *views.pop(buffer.data, ())])

    names = [f"tirx.{kind.__name__}" for kind in (*_ACCESSES, *_DECLARATIONS, SeqStmt)]
    return ir_transform(body, None, change, names)


def _rename(buffer: Any) -> Any:
    """The buffer by its own name, where a pass has named it like the variable of its data."""
    name = str(buffer.name)
    if "_ptr" not in name or name != str(buffer.data.name):
        return None
    return decl_buffer(
        buffer.shape,
        buffer.dtype,
        name.replace("_ptr", "", 1),
        buffer.data,
        buffer.strides,
        buffer.elem_offset,
        buffer.scope(),
        buffer.data_alignment,
        buffer.offset_factor,
    )


def _flatten(statements: Iterable[Any]) -> Any:
    """A sequence without sequences in it, or its only statement."""
    parts: list[Any] = []
    for each in statements:
        parts += each.seq if isinstance(each, SeqStmt) else [each]
    return SeqStmt(parts) if len(parts) > 1 else parts[0]


_SKIPPED = {"span", "struct_info_", "ret_type", "op", "iter_type", "type_annotation"}


def _list_children(node: Any) -> Iterator[Any]:
    if isinstance(node, tvm_ffi.Array):
        yield from node
    elif isinstance(node, tvm_ffi.Map):
        yield from node.values()
    elif isinstance(node, PrimFunc):
        yield from get_parameters(node)
        yield node.body
    elif not isinstance(node, Buffer):
        for name in _list_fields(type(node)):  # type: ignore[arg-type]
            yield getattr(node, name)


@functools.cache
def _list_fields(kind: type) -> tuple[str, ...]:
    """The names of a class's fields that may hold nodes, those of its bases first."""
    names: list[str] = []
    info = getattr(kind, "__tvm_ffi_type_info__", None)
    while info is not None:
        names = [field.name for field in info.fields or ()] + names
        info = info.parent_type_info
    return tuple(name for name in names if name not in _SKIPPED)


def walk_in_order(root: Any, kind: Any, visit: Callable[[Any], Any]) -> None:
    """Call `visit` on every node of a kind, or of one of some kinds, before its parts."""
    if isinstance(root, kind):
        visit(root)
    if isinstance(root, (Object, tuple, list)):
        for child in root if isinstance(root, (tuple, list)) else _list_children(root):
            if isinstance(child, Object):
                walk_in_order(child, kind, visit)
