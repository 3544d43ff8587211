"""What `tirstep.tvm_compat` promises of TVM's nodes."""

from typing import Any

from tvm.ir import Call, PointerType, TensorLoad
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import BufferStore, const

from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import (
    find_buffer_arguments,
    get_op_name,
    get_pointed,
    map_nodes,
    walk_nodes,
    with_parameters,
)


@I.ir_module
class Scaled:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "float16"), factor: T.int32, B: T.Buffer((8,), "float16")):
        for i in range(8):
            with T.sblock("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.Cast("float16", factor)


FUNCTION = Scaled["main"]


def test_a_function_of_other_parameters_keeps_the_rest() -> None:
    first, factor, last = FUNCTION.params
    turned = with_parameters(FUNCTION, [last, first, factor])
    assert [str(each.name) for each in turned.params] == ["B", "A", "factor"]
    assert turned.body.same_as(FUNCTION.body)
    assert turned.attrs.same_as(FUNCTION.attrs)


def test_a_walk_sees_nodes_in_program_order() -> None:
    found: list[Any] = []
    walk_nodes(FUNCTION, TensorLoad, found.append)
    walk_nodes(FUNCTION, BufferStore, found.append)
    assert [type(node).__name__ for node in found] == ["TensorLoad", "BufferStore"]


def test_a_map_replaces_loads() -> None:
    changed = map_nodes(FUNCTION.body, TensorLoad, lambda load: const(0, load.ty.dtype))
    assert find_all(changed, TensorLoad) == []


def test_pointers_name_their_buffer() -> None:
    pointer = FUNCTION.params[2].access_ptr("r", ptr_type="float16")
    assert isinstance(pointer.ty, PointerType)
    assert get_op_name(pointer) == "tirx.tvm_access_ptr"
    calls = find_all(pointer, Call)
    assert [at for call in calls for at in find_buffer_arguments(call)]
    assert [get_pointed(call) for call in calls if get_pointed(call) is not None] in (
        [],
        [FUNCTION.params[2]],
    )
