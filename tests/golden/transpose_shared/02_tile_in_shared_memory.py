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
        for i_0 in T.thread_binding(6, thread="blockIdx.y"):
            for j_0 in T.thread_binding(4, thread="blockIdx.x"):
                for ax0_ax1_fused_0 in range(4):
                    for ax0_ax1_fused_1 in T.thread_binding(64, thread="threadIdx.x"):
                        with T.sblock("A_shared"):
                            v0 = T.axis.spatial(64, j_0 * 16 + (ax0_ax1_fused_0 * 64 + ax0_ax1_fused_1) // 16)
                            v1 = T.axis.spatial(96, i_0 * 16 + (ax0_ax1_fused_0 * 64 + ax0_ax1_fused_1) % 16)
                            T.reads(A[v0, v1])
                            T.writes(A_shared[v0, v1])
                            A_shared[v0, v1] = A[v0, v1]
                for i_1_j_1_fused_0_0 in T.unroll(4):
                    for i_1_j_1_fused_0_1 in T.thread_binding(64, thread="threadIdx.x"):
                        for i_1_j_1_fused_1 in range(1):
                            with T.sblock("B"):
                                vi = T.axis.spatial(96, i_0 * 16 + (i_1_j_1_fused_0_0 * 64 + i_1_j_1_fused_0_1 + i_1_j_1_fused_1) // 16)
                                vj = T.axis.spatial(64, j_0 * 16 + (i_1_j_1_fused_0_0 * 64 + i_1_j_1_fused_0_1 + i_1_j_1_fused_1) % 16)
                                T.reads(A_shared[vj, vi])
                                T.writes(B[vi, vj])
                                B[vi, vj] = A_shared[vj, vi]
