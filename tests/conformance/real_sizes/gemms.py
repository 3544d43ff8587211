"""Matrix products of real size: as people write them, with the schedules that they give them."""

from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Gemm:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((1024, 2048), "float16"),
        B: T.Buffer((2048, 512), "float16"),
        C: T.Buffer((1024, 512), "float16"),
    ):
        T.func_attr({"tirx.noalias": True})
        D = T.sblock_alloc_buffer((1024, 512), "float32")
        for i, j, k in T.grid(1024, 512, 2048):
            with T.sblock("D"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    D[vi, vj] = T.float32(0)
                D[vi, vj] += T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
        for i, j in T.grid(1024, 512):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.Cast("float16", T.max(D[vi, vj], T.float32(0)))


def scheduled(sch):
    """With operands in shared memory and sums in registers."""
    block = sch.get_sblock("D")
    sch.set_scope(block, 0, "local")
    i, j, k = sch.get_loops(block)
    by, ty, i1 = sch.split(i, [None, 8, 4])
    bx, tx, j1 = sch.split(j, [None, 16, 4])
    k0, k1 = sch.split(k, [None, 32])
    sch.reorder(by, bx, ty, tx, k0, k1, i1, j1)
    for block_loop, thread_loop, axis in ((by, ty, "y"), (bx, tx, "x")):
        sch.bind(block_loop, f"blockIdx.{axis}")
        sch.bind(thread_loop, f"threadIdx.{axis}")
    sch.reverse_compute_at(sch.get_sblock("C"), tx)
    for operand in (0, 1):
        copy = sch.cache_read(block, operand, "shared")
        sch.compute_at(copy, k0)
        fused = sch.fuse(*sch.get_loops(copy)[-2:])
        _, y, x = sch.split(fused, [None, 8, 16])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    sch.decompose_reduction(block, k0)
