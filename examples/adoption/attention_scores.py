"""TVM, relax/frontend/nn/llm/_kernel_common.py: the scores of `_schedule_prefill_kernel`.

There, `apply_to_qkv_load` fetches a tile of queries and one of keys into shared memory, and
`apply_to_gemm` gives each thread a tile of the scores. The kernel here is those three blocks,
written anew; `by_hand` does what is done there, `with_tirstep` the same.
"""

from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tirstep.transforms import (
    accumulate_in_registers,
    decompose_reduction_at,
    split_reduction,
    stage_operand_at,
    tile_in_warps,
)


@T.prim_func(s_tir=True)
def attention_scores(
    q: T.Buffer((32, 64), "float32"),
    k: T.Buffer((32, 64), "float32"),
    scores: T.Buffer((32, 32), "float32"),
):
    for i, j, d in T.grid(32, 32, 64):
        with T.sblock("scores"):
            vi, vj, vd = T.axis.remap("SSR", [i, j, d])
            with T.init():
                scores[vi, vj] = T.float32(0)
            scores[vi, vj] = scores[vi, vj] + q[vi, vd] * k[vj, vd]


def by_hand(sch: Schedule) -> None:
    """64 threads, 4 x 4 scores each; tiles of both operands come in vectors of four."""
    block = sch.get_sblock("scores")
    i, j, d = sch.get_loops(block)
    i_outer, i_inner = sch.split(i, [None, 4])
    j_outer, j_inner = sch.split(j, [None, 4])
    sch.reorder(i_outer, j_outer, i_inner, j_inner)
    grid, thread = sch.split(sch.fuse(i_outer, j_outer), [None, 64])
    thread_y, thread_x = sch.split(thread, [None, 32])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread_y, "threadIdx.y")
    sch.bind(thread_x, "threadIdx.x")
    step, d_inner = sch.split(d, [None, 16])
    sch.reorder(step, d_inner, i_inner, j_inner)
    for operand in (0, 1):
        copy = sch.cache_read(block, operand, "shared")
        sch.compute_at(copy, step)
        fused = sch.fuse(*sch.get_loops(copy)[-2:])
        _, y, x, vector = sch.split(fused, [None, 2, 32, 4])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
        sch.vectorize(vector)
    store = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(store, thread_x)
    sch.decompose_reduction(block, step)


def with_tirstep(sch: Schedule) -> None:
    """The same tile, in the lanes of warps."""
    block = sch.get_sblock("scores")
    tile = tile_in_warps(sch, block, threads=(8, 8), per_thread=(4, 4))
    accumulate_in_registers(sch, block, tile.threads)
    step = split_reduction(sch, block, inner=16)
    for operand in (0, 1):
        stage_operand_at(sch, block, step.outer, operand=operand, threads=64, vector=4)
    decompose_reduction_at(sch, block, step.outer)
