"""A pass that lets pointers into shared memory keep their types where memory changed hands.

TVM's StorageRewrite gives a buffer the memory of another one that is used no more, whatever its
type, and TVM then lowers no access pointer that has the type of the first.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import Call
from tvm.script import tirx as T
from tvm.tirx import AllocBuffer, BufferLoad, DeclBuffer, Evaluate, SeqStmt, decl_buffer
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_equal, structural_map

from tirstep.tvm_compat import get_op_name

from ..tir import constant, find_all
from .barriers import SHARED

_POINTER = "tirx.tvm_access_ptr"


@prim_func_pass(opt_level=0, name="tirstep.PointInOwnTypes")
def PointInOwnTypes(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Point into memory of another type by an element of a buffer of the pointer's own type.

    It runs behind the passes that put barriers in, which ask what a pointer is for.

    rewrite: ``call(pointer of bfloat16 to A[n])`` of A in int8 ->
        ``A_as_bfloat16 = bfloat16 buffer at A; call(address of A_as_bfloat16[n])``
    """
    allocated = [node.buffer for node in find_all(function.body, AllocBuffer)]
    shared = [buffer for buffer in allocated if str(buffer.scope()) in SHARED]

    def rewrite(statement: Any) -> Any:
        declared: list[Any] = []

        def point(call: Any) -> Any:
            if get_op_name(call) != _POINTER:
                return call
            at = call.args[1]  # a buffer, or its data
            owners = (it for it in shared if at.same_as(it) or structural_equal(at, it.data))
            owner = next(owners, None)
            dtype = str(call.args[0].ty.dtype)
            if owner is None or str(owner.dtype) == dtype:
                return call
            bits = (constant(owner.shape[0]) or 1) * owner.dtype.bits
            alias = decl_buffer(
                (bits // call.args[0].ty.dtype.bits,),
                dtype,
                f"{owner.name}_as_{dtype}",
                data=owner.data,
                scope=str(owner.scope()),
            )
            declared.append(DeclBuffer(alias, data=owner.data))
            return T.address_of(BufferLoad(alias, [call.args[2]]))

        made = structural_map(statement, (Call, point))
        return SeqStmt([*declared, made]) if declared else statement

    body = structural_map(function.body, (Evaluate, rewrite))
    return function if body.same_as(function.body) else function.with_body(body)
