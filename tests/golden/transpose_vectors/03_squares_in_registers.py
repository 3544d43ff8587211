# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 96), "float32"), B: T.Buffer((96, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        A_shared = T.sblock_alloc_buffer((64, 96), scope="shared")
        B_local = T.sblock_alloc_buffer((96, 64), scope="local")
        A_shared_local = T.sblock_alloc_buffer((64, 96), scope="local")
        for i_0_0 in T.thread_binding(3, thread="blockIdx.y"):
            for j_0_0 in T.thread_binding(2, thread="blockIdx.x"):
                for ax0_ax1_fused_0 in range(8):
                    for ax0_ax1_fused_1 in T.thread_binding(64, thread="threadIdx.x"):
                        for ax0_ax1_fused_2 in T.vectorized(2):
                            with T.sblock("A_shared"):
                                v0 = T.axis.spatial(64, j_0_0 * 32 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) // 32)
                                v1 = T.axis.spatial(96, i_0_0 * 32 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) % 32)
                                T.reads(A[v0, v1])
                                T.writes(A_shared[v0, v1])
                                T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 2]]})
                                A_shared[v0, v1] = A[v0, v1]
                for i_0_1_j_0_1_fused_0 in T.unroll(4):
                    for i_0_1_j_0_1_fused_1 in T.thread_binding(64, thread="threadIdx.x"):
                        for ax0 in range(2):
                            for ax1 in T.vectorized(2):
                                with T.sblock("A_shared_local"):
                                    v0 = T.axis.spatial(64, j_0_0 * 32 + i_0_1_j_0_1_fused_1 % 16 * 2 + ax0)
                                    v1 = T.axis.spatial(96, i_0_0 * 32 + i_0_1_j_0_1_fused_0 * 8 + i_0_1_j_0_1_fused_1 // 16 * 2 + ax1)
                                    T.reads(A_shared[v0, v1])
                                    T.writes(A_shared_local[v0, v1])
                                    A_shared_local[v0, v1] = A_shared[v0, v1]
                        for i_1 in T.unroll(2):
                            for j_1 in T.unroll(2):
                                with T.sblock("B"):
                                    vi = T.axis.spatial(96, i_0_0 * 32 + (i_0_1_j_0_1_fused_0 * 64 + i_0_1_j_0_1_fused_1) // 16 * 2 + i_1)
                                    vj = T.axis.spatial(64, j_0_0 * 32 + (i_0_1_j_0_1_fused_0 * 64 + i_0_1_j_0_1_fused_1) % 16 * 2 + j_1)
                                    T.reads(A_shared_local[vj, vi])
                                    T.writes(B_local[vi, vj])
                                    B_local[vi, vj] = A_shared_local[vj, vi]
                        for ax0 in range(2):
                            for ax1 in T.vectorized(2):
                                with T.sblock("B_local"):
                                    v0 = T.axis.spatial(96, i_0_0 * 32 + i_0_1_j_0_1_fused_0 * 8 + i_0_1_j_0_1_fused_1 // 16 * 2 + ax0)
                                    v1 = T.axis.spatial(64, j_0_0 * 32 + i_0_1_j_0_1_fused_1 % 16 * 2 + ax1)
                                    T.reads(B_local[v0, v1])
                                    T.writes(B[v0, v1])
                                    B[v0, v1] = B_local[v0, v1]
