"""The pass that takes a thread's own dimension out of its registers."""

import pytest
import tvm
from kernels import parse_kernel
from tvm.ir import assert_structural_equal

from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.modules import softmax, transpose
from tirstep.transforms import get_pipeline
from tirstep.transforms.passes.before_flattening import DropThreadDimensions
from tirstep.transforms.recipes import find_recipe


def make_registers(first: str, second: str, scope: str = "local") -> tvm.IRModule:
    """A write and a read of registers, at places that the thread t and a loop r say."""
    return parse_kernel(f"""
        A (64,), B (64,)
        t = T.launch_thread("threadIdx.x", 16)
        L = T.alloc_buffer((4, 16), scope="{scope}")
        for r in range(4):
            L[r, {first}] = A[r * 16 + t]
        for r in range(4):
            B[r * 16 + t] = L[r, {second}] + T.float32(1)
    """)


Dropped = parse_kernel("""
    A (64,), B (64,)
    t = T.launch_thread("threadIdx.x", 16)
    L = T.alloc_buffer((4, 1), scope="local")
    for r in range(4):
        L[r, 0] = A[r * 16 + t]
    for r in range(4):
        B[r * 16 + t] = L[r, 0] + T.float32(1)
""")


def test_the_index_of_the_thread_is_dropped():
    module = make_registers("t", "t")
    assert DropThreadDimensions(module).script() == Dropped.script()


@pytest.mark.parametrize("second", ["(t + 1) % 16", "15 - t", "r", "t // 2 + r", "T.int32(3)"])
def test_another_index_anywhere_keeps_the_dimension(second):
    module = make_registers("t", second)
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
