"""MLC-LLM, op/moe_matmul.py: `_schedule` of `group_gemm`, which stands there twice.

Each tile of rows belongs to an expert, whose weights it is multiplied with. There, tiles come
from a loop, several per thread block; here each has a thread block of its own. `by_hand`
does with a tile what is done there, `with_tirstep` the same.
"""

from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tirstep.transforms import (
    accumulate_in_registers,
    bind_batch,
    compute_block_at,
    decompose_reduction_at,
    fetch_cooperatively,
    split_reduction,
    stage_operand_at,
    tile_block,
)


@T.prim_func(s_tir=True)
def experts(
    x: T.Buffer((3, 8, 32), "float32"),
    weights: T.Buffer((4, 32, 32), "float32"),
    owner: T.Buffer((3,), "int32"),
    out: T.Buffer((3, 8, 32), "float32"),
):
    w_tile = T.sblock_alloc_buffer((3, 32, 32))
    for t, j, k in T.grid(3, 32, 32):
        with T.sblock("w_tile"):
            vt, vj, vk = T.axis.remap("SSS", [t, j, k])
            w_tile[vt, vj, vk] = weights[owner[vt], vj, vk]
    for t, i, j, k in T.grid(3, 8, 32, 32):
        with T.sblock("out"):
            vt, vi, vj, vk = T.axis.remap("SSSR", [t, i, j, k])
            with T.init():
                out[vt, vi, vj] = T.float32(0)
            out[vt, vi, vj] = out[vt, vi, vj] + x[vt, vi, vk] * w_tile[vt, vj, vk]


def by_hand(sch: Schedule) -> None:
    """64 threads a tile; its rows and the expert's weights come by steps of 8."""
    block, weights = sch.get_sblock("out"), sch.get_sblock("w_tile")
    x_tile = sch.cache_read(block, 0, "shared")
    sch.set_scope(weights, 0, "shared")
    t, i, j, k = sch.get_loops(block)
    y, i_inner = sch.split(i, [8, None])
    x, j_inner = sch.split(j, [8, None])
    step, k_inner = sch.split(k, [None, 8])
    sch.reorder(t, y, x, step, k_inner, i_inner, j_inner)
    sch.bind(t, "blockIdx.x")
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    store = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(store, x)
    for copy in (x_tile, weights):
        sch.compute_at(copy, step)
        fused = sch.fuse(*sch.get_loops(copy)[-2:])
        _, copy_y, copy_x = sch.split(fused, [None, 8, 8])
        sch.bind(copy_y, "threadIdx.y")
        sch.bind(copy_x, "threadIdx.x")
    sch.decompose_reduction(block, step)


def with_tirstep(sch: Schedule) -> None:
    """The same, where a copy that is only indices from data is a block that is placed."""
    block, weights = sch.get_sblock("out"), sch.get_sblock("w_tile")
    bind_batch(sch, block)
    tile = tile_block(sch, block, threads=(8, 8), per_thread=(1, 4))
    accumulate_in_registers(sch, block, tile.threads[1])
    step = split_reduction(sch, block, inner=8)
    sch.set_scope(weights, 0, "shared")
    compute_block_at(sch, weights, step.outer)
    fetch_cooperatively(sch, weights, threads=(8, 8))
    stage_operand_at(sch, block, step.outer, operand=0, threads=(8, 8))
    decompose_reduction_at(sch, block, step.outer)
