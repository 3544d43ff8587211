# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        A_shared = T.sblock_alloc_buffer((64, 32), scope="shared")
        B_shared = T.sblock_alloc_buffer((32, 48), scope="shared")
        for i_0 in T.thread_binding(4, thread="blockIdx.x"):
            for j_0 in T.thread_binding(3, thread="blockIdx.y"):
                for i_1 in T.thread_binding(16, thread="threadIdx.x"):
                    for j_1 in T.thread_binding(16, thread="threadIdx.y"):
                        with T.sblock("C_init"):
                            vi = T.axis.spatial(64, i_0 * 16 + i_1)
                            vj = T.axis.spatial(48, j_0 * 16 + j_1)
                            T.reads()
                            T.writes(C[vi, vj])
                            C[vi, vj] = T.float32(0.0)
                        for k_0 in range(4):
                            for ax0_0 in T.thread_binding(16, thread="threadIdx.x"):
                                for ax0_1 in range(1):
                                    for ax1_0 in T.thread_binding(16, thread="threadIdx.y"):
                                        for ax1_1 in range(1):
                                            with T.sblock("A_shared"):
                                                v0 = T.axis.spatial(64, i_0 * 16 + ax0_0 + ax0_1)
                                                v1 = T.axis.spatial(32, k_0 * 8 + (ax1_0 + ax1_1))
                                                T.where(ax1_0 + ax1_1 < 8)
                                                T.reads(A[v0, v1])
                                                T.writes(A_shared[v0, v1])
                                                A_shared[v0, v1] = A[v0, v1]
                            for ax0_0 in T.thread_binding(16, thread="threadIdx.x"):
                                for ax0_1 in range(1):
                                    for ax1_0 in T.thread_binding(16, thread="threadIdx.y"):
                                        for ax1_1 in range(1):
                                            with T.sblock("B_shared"):
                                                v0 = T.axis.spatial(32, k_0 * 8 + (ax0_0 + ax0_1))
                                                v1 = T.axis.spatial(48, j_0 * 16 + ax1_0 + ax1_1)
                                                T.where(ax0_0 + ax0_1 < 8)
                                                T.reads(B[v0, v1])
                                                T.writes(B_shared[v0, v1])
                                                B_shared[v0, v1] = B[v0, v1]
                            for k_1 in range(8):
                                with T.sblock("C_update"):
                                    vi = T.axis.spatial(64, i_0 * 16 + i_1)
                                    vj = T.axis.spatial(48, j_0 * 16 + j_1)
                                    vk = T.axis.reduce(32, k_0 * 8 + k_1)
                                    T.reads(C[vi, vj], A_shared[vi, vk], B_shared[vk, vj])
                                    T.writes(C[vi, vj])
                                    C[vi, vj] = C[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]
