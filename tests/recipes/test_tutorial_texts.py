"""The TIR that the tutorials print, in the names of TVM 0.27, against the steps of our recipes.

From "GPU and Hardware Acceleration, Part 1" (TVM Learning 8). The step that the notes call cached
in shared memory is our `window_in_every_thread`, which the recipe then goes on from.
"""

from pathlib import Path

import pytest
import tvm
from golden_runs import run_default_example
from kernels import parse_kernel
from tvm.ir import assert_structural_equal
from tvm.script import from_source

from tirstep.transforms.recipes import RECIPES

ORIGINALS = Path(__file__).parents[1] / "conformance" / "originals"


def read(name: str) -> tvm.IRModule:
    """A program that bugs are planted in, as the tutorials print it."""
    return tvm.IRModule({"main": from_source((ORIGINALS / f"{name}.py").read_text())})


def find_module(recipe: str, step: str) -> tvm.IRModule:
    (module,) = [
        made.module for made in run_default_example(RECIPES[recipe]).steps if made.name == step
    ]
    return module


WindowSumBound = parse_kernel("""
    A (1027,), B (1024,)
    T.func_attr({"tirx.noalias": True})
    for i_0 in T.thread_binding(8, thread="blockIdx.x"):
        for i_1 in T.thread_binding(128, thread="threadIdx.x"):
            with T.sblock("C"):
                vi = T.axis.spatial(1024, i_0 * 128 + i_1)
                B[vi] = A[vi] + A[vi + 1] + A[vi + 2]
""")


MatmulLocalBlocking = parse_kernel("""
    A (1024, 1024), B (1024, 1024), C (1024, 1024)
    T.func_attr({"tirx.noalias": True})
    C_local = T.sblock_alloc_buffer((1024, 1024), scope="local")
    for i_0 in T.thread_binding(16, thread="blockIdx.y"):
        for j_0 in T.thread_binding(16, thread="blockIdx.x"):
            for i_1 in T.thread_binding(8, thread="threadIdx.y"):
                for j_1 in T.thread_binding(8, thread="threadIdx.x"):
                    for i_2_init, j_2_init in T.grid(8, 8):
                        with T.sblock("C_init"):
                            vi = T.axis.spatial(1024, i_0 * 64 + i_1 * 8 + i_2_init)
                            vj = T.axis.spatial(1024, j_0 * 64 + j_1 * 8 + j_2_init)
                            C_local[vi, vj] = T.float32(0.0)
                    for k_0 in range(256):
                        for k_1 in T.unroll(4):
                            for i_2, j_2 in T.grid(8, 8):
                                with T.sblock("C_update"):
                                    vi = T.axis.spatial(1024, i_0 * 64 + i_1 * 8 + i_2)
                                    vj = T.axis.spatial(1024, j_0 * 64 + j_1 * 8 + j_2)
                                    vk = T.axis.reduce(1024, k_0 * 4 + k_1)
                                    C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
                    for ax0, ax1 in T.grid(8, 8):
                        with T.sblock("C_local"):
                            v0 = T.axis.spatial(1024, i_0 * 64 + i_1 * 8 + ax0)
                            v1 = T.axis.spatial(1024, j_0 * 64 + j_1 * 8 + ax1)
                            C[v0, v1] = C_local[v0, v1]
""")


@pytest.mark.parametrize(
    ("recipe", "step", "printed"),
    [
        ("vector_add_bound", "split", read("vector_add_bound_split")),
        ("vector_add_bound", "bound", read("vector_add_bound")),
        ("window_sum_bound", "bound", WindowSumBound),
        (
            "window_sum_shared",
            "window_in_every_thread",
            read("window_sum_shared_window_in_every_thread"),
        ),
        ("matmul_local_blocking", "decomposed", MatmulLocalBlocking),
    ],
)
def test_a_step_is_what_the_seed_prints(recipe: str, step: str, printed: tvm.IRModule) -> None:
    assert_structural_equal(find_module(recipe, step), printed)


def test_the_seed_loads_the_whole_window_in_every_thread_and_we_do_not() -> None:
    """The notes copy 130 elements in every thread; we, 130 per block in two rounds of 128."""
    text = find_module("window_sum_shared", "fetched_cooperatively").script()
    assert "for ax0_0 in range(2)" in text
    assert 'for ax0_1 in T.thread_binding(128, thread="threadIdx.x")' in text
    assert "range(130)" not in text
