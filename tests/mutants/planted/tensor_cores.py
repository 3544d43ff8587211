"""A small product on tensor cores, written by hand: one warp, one tile of 16×16, two steps."""

from __future__ import annotations

from dataclasses import replace

from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import Run, run_recipe
from tirstep.transforms.recipes import RECIPES

# The types of mma's operands and of its result, and what else every mma here has.
SHAPE = ("m16n8k16", "row", "col", "fp16", "fp16", "fp32")


@I.ir_module
class MatmulByWarp:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((16, 32), "float16"),
        B: T.Buffer((32, 16), "float16"),
        C: T.Buffer((16, 16), "float32"),
    ):
        T.func_attr({"tirx.noalias": True})
        A_shared = T.sblock_alloc_buffer((16, 16), "float16", scope="shared")
        B_shared = T.sblock_alloc_buffer((16, 16), "float16", scope="shared")
        A_local = T.sblock_alloc_buffer((8,), "float16", scope="local")
        B_local = T.sblock_alloc_buffer((8,), "float16", scope="local")
        C_local = T.sblock_alloc_buffer((8,), "float32", scope="local")
        for lane in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("C"):
                T.reads(A[0:16, 0:32], B[0:32, 0:16])
                T.writes(C[0:16, 0:16])
                for i in range(8):
                    C_local[i] = T.float32(0)
                for k in range(2):
                    for i in range(8):
                        A_shared[lane // 2, lane % 2 * 8 + i] = A[
                            lane // 2, k * 16 + lane % 2 * 8 + i
                        ]
                        B_shared[lane // 2, lane % 2 * 8 + i] = B[
                            k * 16 + lane // 2, lane % 2 * 8 + i
                        ]
                    # A lane gives the address of one row of 8; there are 16 rows of two halves.
                    T.evaluate(
                        T.ptx_legacy.ldmatrix(
                            False,
                            4,
                            ".b16",
                            A_local.data,
                            0,
                            A_shared.access_ptr("r", ptr_type="float16"),
                            lane % 16 * 16 + lane // 16 * 8,
                            dtype="float16",
                        )
                    )
                    T.evaluate(
                        T.ptx_legacy.ldmatrix(
                            True,
                            4,
                            ".b16",
                            B_local.data,
                            0,
                            B_shared.access_ptr("r", ptr_type="float16"),
                            lane % 16 * 16 + lane // 16 * 8,
                            dtype="float16",
                        )
                    )
                    for half in T.unroll(2):
                        T.evaluate(
                            T.ptx_legacy.mma(
                                *SHAPE,
                                A_local.data,
                                0,
                                B_local.data,
                                half * 4,
                                C_local.data,
                                half * 4,
                                False,
                                dtype="float32",
                            )
                        )
                for i in range(8):
                    C[i // 2 % 2 * 8 + lane // 4, i // 4 * 8 + lane % 4 * 2 + i % 2] = C_local[i]


def run_by_warp() -> Run:
    """The kernel as the last step of a recipe of the same problem."""
    shape = {"m": 16, "n": 16, "k": 32}
    run = run_recipe(RECIPES["matmul_naive"], shape, options={"dtype": "float16"})
    last = replace(run.steps[-1], module=MatmulByWarp)
    return replace(run, steps=(*run.steps[:-1], last))
