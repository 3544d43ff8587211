"""LowerAsyncDMA as the pipeline "tirstep" has it: what TVM's pass makes, sooner."""

import pytest
import tvm
from golden_runs import run_golden
from tvm.ir import assert_structural_equal
from tvm.s_tir.transform import LowerAsyncDMA as LowerInTvm
from tvm.script import tirx as T
from tvm.tirx import AttrStmt, IterVar, PrimFunc, Var

from tirstep.transforms.pass_options import lower_around
from tirstep.transforms.pipelining import LowerAsyncDMA
from tirstep.transforms.recipes import find_recipe

NAME = "s_tir.LowerAsyncDMA"
ASYNCHRONOUS = ["matmul_mma_async", "matmul_wgmma_wide", "attention_wgmma_async"]


def within(function: PrimFunc, axes: int) -> tvm.IRModule:
    """A function within thread axes."""
    body = function.body
    for number in range(axes):
        axis = IterVar(None, Var(f"t{number}", "int32"), IterVar.ThreadIndex, f"threadIdx.{number}")
        body = AttrStmt(axis, "thread_extent", T.int32(4), body)
    return tvm.IRModule({"main": function.with_body(body)})


@T.prim_func(private=True, s_tir=True)
def copies(a: T.Buffer((128,), "float32"), b: T.Buffer((128,), "float32")):
    for _ in range(4):
        # The wait comes first: TVM's pass knows its queue from an earlier visit alone.
        with T.attr(0, "async_wait_queue_scope", 0):
            with T.attr(0, "async_wait_inflight_count", 1):
                b[0] = a[0]
        with T.attr(0, "async_commit_queue_scope", 0):
            for i in range(128):
                b[i] = a[i]


@pytest.mark.parametrize("axes", [0, 1, 2, 4])
def test_copies_of_memory_become_what_tvm_makes_of_them(axes: int) -> None:
    module = within(copies, axes)
    made = LowerAsyncDMA(module)
    assert_structural_equal(made, LowerInTvm()(module))
    assert made.script() == LowerInTvm()(module).script()
    assert ("dma_wait" in made.script()) == (axes > 0)
    assert "dma_copy" in made.script()


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_recipes_are_lowered_as_by_tvm(name: str) -> None:
    before = lower_around(run_golden(find_recipe(name)).steps[-1].module, [NAME])[NAME].before
    made, wanted = LowerAsyncDMA(before), LowerInTvm()(before)
    assert_structural_equal(made, wanted)
    assert made.script() == wanted.script()
