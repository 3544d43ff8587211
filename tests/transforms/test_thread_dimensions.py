"""The pass that takes a thread's own dimension out of its registers."""

import pytest
import tvm
from kernels import parse_kernel
from tvm.ir import assert_structural_equal
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.modules import softmax, transpose
from tirstep.transforms import get_pipeline
from tirstep.transforms.passes.before_flattening import DropThreadDimensions
from tirstep.transforms.recipes import find_recipe


def make_registers(first, second, scope="local"):
    """A write and a read of registers, with functions of the thread and a loop for their places."""

    @I.ir_module
    class Registers:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            thread = T.launch_thread("threadIdx.x", 16)
            L = T.alloc_buffer((4, 16), scope=scope)
            for r in range(4):
                L[r, first(thread, r)] = A[r * 16 + thread]
            for r in range(4):
                B[r * 16 + thread] = L[r, second(thread, r)] + T.float32(1)

    return Registers


Dropped = parse_kernel("""
    A (64,), B (64,)
    thread = T.launch_thread("threadIdx.x", 16)
    L = T.alloc_buffer((4, 1), scope="local")
    for r in range(4):
        L[r, 0] = A[r * 16 + thread]
    for r in range(4):
        B[r * 16 + thread] = L[r, 0] + T.float32(1)
""")


def test_the_index_of_the_thread_is_dropped():
    module = make_registers(lambda t, r: t, lambda t, r: t)
    assert DropThreadDimensions(module).script() == Dropped.script()


@pytest.mark.parametrize(
    "second",
    [
        lambda t, r: (t + 1) % 16,
        lambda t, r: 15 - t,
        lambda t, r: r,
        lambda t, r: t // 2 + r,
        lambda t, r: T.int32(3),
    ],
)
def test_another_index_anywhere_keeps_the_dimension(second):
    module = make_registers(lambda t, r: t, second)
    assert_structural_equal(DropThreadDimensions(module), module)


def test_a_row_in_registers_is_an_array_of_the_thread_s_share():
    """What the pass is for: without it each thread has room for the whole row."""
    module = softmax(4, 512)
    step = find_recipe("softmax_vectors").steps(module, threads=32, vector=4)[-1]
    assert get_pipeline(step.module) == "tirstep"
    sources = {
        name: compile_module(step.module, "nvidia/nvidia-h100", pipeline=name)
        .mod.imports[0]
        .inspect_source()
        for name in ("tirstep", "default")
    }
    assert "float A_local_ptr[16];" in sources["tirstep"]
    assert "float A_local_ptr[512];" in sources["default"]


def test_the_pass_leaves_a_module_without_threads_alone():
    module = transpose(3, 8)
    lowered = tvm.s_tir.transform.LowerOpaqueBlock()(
        tvm.s_tir.transform.ConvertBlocksToOpaque()(module)
    )
    assert_structural_equal(DropThreadDimensions(lowered), lowered)
