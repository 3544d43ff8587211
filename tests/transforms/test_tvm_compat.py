"""What `tirstep.tvm_compat` promises is the same under each TVM: `make test-versions` runs it."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm.ir import PointerType
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import AllocBuffer, BufferStore, DeclBuffer, Evaluate, SeqStmt, Var, const

from tirstep.modules import matmul
from tirstep.transforms.passes.pipeline import lower_around
from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import (
    BufferType,
    Call,
    PrimType,
    Return,
    TensorLoad,
    declare_twin,
    declare_views,
    explain_lack,
    find_buffer_arguments,
    get_op_name,
    get_parameters,
    get_pointer,
    make_function,
    point_into,
    put_in,
    structural_map,
    structural_walk,
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


def test_parameters_are_buffers_and_numbers() -> None:
    first, factor, last = get_parameters(FUNCTION)
    assert [str(each.name) for each in (first, factor, last)] == ["A", "factor", "B"]
    assert [isinstance(each.ty, BufferType) for each in (first, factor, last)] == [
        True,
        False,
        True,
    ]
    assert isinstance(factor.ty, PrimType)
    assert (str(factor.ty), factor.ty.dtype.bits) == ("int32", 32)
    assert (str(first.dtype), [int(size) for size in first.ty.shape]) == ("float16", [8])
    (load,) = find_all(FUNCTION.body, TensorLoad)
    assert load.source.same_as(first)
    assert str(load.ty) == "float16"


def test_a_type_makes_another_variable_and_a_pointer_is_none_of_a_number() -> None:
    _, factor, last = get_parameters(FUNCTION)
    assert str(Var("other", factor.ty).ty) == "int32"
    pointer = point_into(last, "r", "float16")
    assert isinstance(pointer.ty, PointerType)
    again = Call(pointer.op, list(pointer.args), ret_ty=pointer.ty)
    assert isinstance(again, Call)
    assert isinstance(again.ty, PointerType)
    assert get_op_name(again) == "tirx.tvm_access_ptr"


def test_a_function_of_other_parameters_keeps_the_rest() -> None:
    first, factor, last = get_parameters(FUNCTION)
    turned = make_function([last, first, factor], FUNCTION)
    assert [str(each.name) for each in get_parameters(turned)] == ["B", "A", "factor"]
    assert turned.body.same_as(FUNCTION.body)
    plain = make_function([first], body=Evaluate(const(0, "int32")))
    assert [str(each.name) for each in get_parameters(plain)] == ["A"]


def test_a_walk_sees_a_node_before_its_parts() -> None:
    kinds: list[str] = []
    note = [((BufferStore, TensorLoad), lambda node: kinds.append(type(node).__name__))]
    structural_walk(FUNCTION, note, order="pre")
    assert kinds[0] == "BufferStore"
    assert len(kinds) == 2


def test_a_returning_statement_is_one() -> None:
    statement = SeqStmt([Return(const(0, "int32")), Evaluate(const(1, "int32"))])
    assert len(find_all(statement, Return)) == 1
    assert find_all(Evaluate(const(0, "int32")), Return) == []


def test_a_twin_and_a_buffer_in_the_place_of_a_variable_are_pointed_to() -> None:
    first, _, last = get_parameters(FUNCTION)
    twin = declare_twin(first, (2, 4))
    assert [int(size) for size in twin.shape] == [2, 4]
    pointer = point_into(last, "r", "float16")
    places = [at for call in find_all(pointer, Call) for at in find_buffer_arguments(call)]
    assert places  # of 0.26 and later of the call that gives the buffer's data, or of the pointer
    moved = put_in(Evaluate(pointer), {get_pointer(last): get_pointer(first)})
    assert str(first.name) in str(moved)


def test_every_buffer_of_a_lowered_function_is_declared() -> None:
    module = declare_views(_bind(matmul(4, 6, 5)))
    lowered = lower_around(module, ["tirx.FlattenBuffer", "tirx.StorageRewrite"])
    function = lowered["tirx.StorageRewrite"].after["main"]
    nodes = [*find_all(function.body, AllocBuffer), *find_all(function.body, DeclBuffer)]
    declared = {node.buffer for node in nodes} | set(get_parameters(function))
    used = {store.buffer for store in find_all(function.body, BufferStore)}
    used |= {load.source for load in find_all(function.body, TensorLoad)}
    assert used
    assert used <= declared
    assert not any("_ptr" in str(buffer.name) for buffer in used)


def _bind(module: tvm.IRModule) -> tvm.IRModule:
    sch = tvm.s_tir.Schedule(module)
    block = sch.get_sblock("C")
    loops = sch.get_loops(block)
    sch.bind(loops[0], "blockIdx.x")
    sch.bind(loops[1], "threadIdx.x")
    sch.reverse_compute_at(sch.cache_write(block, 0, "local"), loops[1])
    return sch.mod


def test_a_map_replaces_loads() -> None:
    def zero(load: Any) -> Any:
        return const(0, load.ty.dtype)

    changed = structural_map(FUNCTION, (TensorLoad, zero))
    assert find_all(changed.body, TensorLoad) == []


@pytest.mark.parametrize("reason", ["Check failed: x is false", "Cannot find var remap for A_pad"])
def test_a_reason_is_tvm_s_own_or_what_it_lacks(reason: str) -> None:
    told = explain_lack(reason)
    lacks = tvm.__version__.startswith("0.25.") and reason.startswith("Cannot")
    assert told.endswith("; install apache-tvm>=0.26") if lacks else told == reason
