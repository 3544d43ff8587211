# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_local = T.sblock_alloc_buffer((64, 48), scope="local")
        A_shared = T.sblock_alloc_buffer((64, 32), scope="shared")
        for i_0 in T.thread_binding(4, thread="blockIdx.x"):
            for j_0 in T.thread_binding(6, thread="blockIdx.y"):
                for i_1 in T.thread_binding(16, thread="threadIdx.x"):
                    for j_1 in T.thread_binding(8, thread="threadIdx.y"):
                        for k_0 in range(8):
                            for ax0_ax1_fused_0 in T.thread_binding(8, thread="threadIdx.y"):
                                for ax0_ax1_fused_1_0 in T.thread_binding(16, thread="threadIdx.x"):
                                    for ax0_ax1_fused_1_1 in range(1):
                                        with T.sblock("A_shared"):
                                            v0 = T.axis.spatial(64, i_0 * 16 + (ax0_ax1_fused_0 * 8 + (ax0_ax1_fused_1_0 + ax0_ax1_fused_1_1)) // 4)
                                            v1 = T.axis.spatial(32, k_0 * 4 + (ax0_ax1_fused_0 * 8 + (ax0_ax1_fused_1_0 + ax0_ax1_fused_1_1)) % 4)
                                            T.where(ax0_ax1_fused_1_0 + ax0_ax1_fused_1_1 < 8)
                                            T.reads(A[v0, v1])
                                            T.writes(A_shared[v0, v1])
                                            A_shared[v0, v1] = A[v0, v1]
                            for k_1 in range(4):
                                with T.sblock("C"):
                                    vi = T.axis.spatial(64, i_0 * 16 + i_1)
                                    vj = T.axis.spatial(48, j_0 * 8 + j_1)
                                    vk = T.axis.reduce(32, k_0 * 4 + k_1)
                                    T.reads(A_shared[vi, vk], B[vk, vj])
                                    T.writes(C_local[vi, vj])
                                    with T.init():
                                        C_local[vi, vj] = T.float32(0.0)
                                    C_local[vi, vj] = C_local[vi, vj] + A_shared[vi, vk] * B[vk, vj]
                        for ax0, ax1 in T.grid(1, 1):
                            with T.sblock("C_local"):
                                v0 = T.axis.spatial(64, i_0 * 16 + i_1 + ax0)
                                v1 = T.axis.spatial(48, j_0 * 8 + j_1 + ax1)
                                T.reads(C_local[v0, v1])
                                T.writes(C[v0, v1])
                                C[v0, v1] = C_local[v0, v1]
