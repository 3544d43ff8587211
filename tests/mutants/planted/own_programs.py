"""Small products that no recipe of tirstep makes, for mutants of what they are made of: sums over
threads, tiles fetched ahead of the sums in two ways, and tensor cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import Run, run_golden, run_recipe
from tirstep.transforms import (
    accumulate_in_registers,
    bind_loop,
    decompose_reduction_at,
    prefetch_asynchronously,
    prefetch_through_registers,
    split_loop,
    split_reduction,
    stage_operand_at,
    tile_block,
)
from tirstep.transforms.recipes import RECIPES, Example, recipe

SMALL = Example({"m": 16, "n": 16, "k": 32})
DECODED = Example({"batch": 3, "heads": 2, "keys": 32, "dim": 16})
# The types of mma's operands and of its result, and what else every mma here has.
MMA = ("m16n8k16", "row", "col", "fp16", "fp16", "fp32")


@recipe(
    kernel="matmul",
    blocks=("C",),
    default_example=Example({"m": 4, "n": 6, "k": 128}),
    golden=Example({"m": 4, "n": 6, "k": 128}),
)
def matmul_sum_over_threads(sch: Schedule) -> Iterator[str]:
    """One element of C for each block, its sum over two warps: TVM lowers that to shuffles."""
    i, j, k = sch.get_loops(sch.get_sblock("C"))
    bind_loop(sch, i, axis="blockIdx.y")
    bind_loop(sch, j, axis="blockIdx.x")
    bind_loop(sch, split_loop(sch, k, inner=64).inner, axis="threadIdx.x")
    yield "bound"


@recipe(kernel="matmul", blocks=("C",), default_example=SMALL, golden=SMALL)
def matmul_prefetched(sch: Schedule) -> Iterator[str]:
    """Tiles in shared memory, twice: the next ones wait in registers while these are summed."""
    outer, copies = _stage(sch)
    prefetch_through_registers(sch, outer, copies)
    yield "prefetched"


@recipe(kernel="matmul", blocks=("C",), default_example=SMALL, golden=SMALL)
def matmul_asynchronous(sch: Schedule) -> Iterator[str]:
    """Tiles in shared memory, three times: cp.async brings two while the third is summed."""
    outer, copies = _stage(sch)
    prefetch_asynchronously(sch, outer, copies, stages=3)
    yield "prefetched"


@recipe(
    kernel="decode_attention",
    blocks=("scores max exp sum weighted Y",),
    default_example=DECODED,
    golden=DECODED,
)
def decode_in_blocks(sch: Schedule) -> Iterator[str]:
    """A head for each GPU block of one thread, with a running maximum over tiles of 4 keys."""
    next(RECIPES["decode_attention_fused"].run(sch, lanes=4, keys=4))
    names = ("scores", "max_tile", "max", "exp_running", "sum", "weighted")
    for block in map(sch.get_sblock, names):
        for number in range(len(sch.get(block).writes)):
            sch.set_scope(block, number, "local")
    batch, head, query, *_ = sch.get_loops(sch.get_sblock("weighted"))
    sch.reverse_compute_at(sch.get_sblock("Y"), query)
    bind_loop(sch, batch, axis="blockIdx.y")
    bind_loop(sch, head, axis="blockIdx.x")
    yield "bound"


SHORT_SUM = "matmul_mma_async, a short sum"


def run_short_sum() -> Run:
    """A product with a sum of 7 terms: a tile of A is 28 bytes, and is padded to fragments."""
    return run_recipe(
        RECIPES["matmul_mma_async"],
        {"m": 4, "n": 16, "k": 7},
        options={"dtype": "int8", "acc": "int32", "out": "int32", "transpose_b": True},
        config={"stages": 3, "tile_k": 32, "tile": (32, 16), "warp": (16, 16), "tail": "pad"},
    )


TENSORIZED = "batched_matmul_mma, tensorized"


def run_tensorized() -> Run:
    """The batches' product before its tiles are fetched ahead, when loops can still be split."""
    run = run_golden(RECIPES["batched_matmul_mma"])
    names = [step.name for step in run.steps]
    return replace(run, steps=run.steps[: names.index("tensorized") + 1])


def _stage(sch: Schedule) -> tuple[LoopRV, list[SBlockRV]]:
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(8, 8), fuse_threads=True)
    accumulate_in_registers(sch, block, tile.threads[-1])
    outer = split_reduction(sch, block, inner=8).outer
    copies = [
        stage_operand_at(sch, block, outer, operand=operand, threads=(64,)) for operand in (0, 1)
    ]
    decompose_reduction_at(sch, block, outer)
    return outer, copies


@I.ir_module
class MatmulByWarp:
    """One warp on tensor cores, one tile of 16×16, two steps."""

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
                                *MMA,
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
