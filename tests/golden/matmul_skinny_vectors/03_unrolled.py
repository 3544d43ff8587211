# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((3, 96), "float32"), B: T.Buffer((96, 64), "float32"), C: T.Buffer((3, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_local = T.sblock_alloc_buffer((3, 64), scope="local")
        A_local = T.sblock_alloc_buffer((3, 96), scope="local")
        B_local = T.sblock_alloc_buffer((96, 64), scope="local")
        for i_0 in T.thread_binding(1, thread="blockIdx.z"):
            for j_0 in T.thread_binding(2, thread="blockIdx.x"):
                for j_1_0 in T.thread_binding(8, thread="threadIdx.x"):
                    for i_1_init in T.unroll(3):
                        for j_1_1_init in T.unroll(4):
                            with T.sblock("C_init"):
                                vi = T.axis.spatial(3, i_0 * 3 + i_1_init)
                                vj = T.axis.spatial(64, j_0 * 32 + j_1_0 * 4 + j_1_1_init)
                                T.reads()
                                T.writes(C_local[vi, vj])
                                C_local[vi, vj] = T.float32(0.0)
                    for k_0 in range(96):
                        for ax0 in T.unroll(3):
                            for ax1_0 in T.unroll(1):
                                for ax1_1 in range(1):
                                    with T.sblock("A_local"):
                                        v0 = T.axis.spatial(3, ax0)
                                        v1 = T.axis.spatial(96, k_0 + ax1_0 + ax1_1)
                                        T.reads(A[v0, v1])
                                        T.writes(A_local[v0, v1])
                                        A_local[v0, v1] = A[v0, v1]
                        for ax0 in T.unroll(1):
                            for ax1_0 in T.unroll(1):
                                for ax1_1 in T.vectorized(4):
                                    with T.sblock("B_local"):
                                        v0 = T.axis.spatial(96, k_0 + ax0)
                                        v1 = T.axis.spatial(64, j_0 * 32 + j_1_0 * 4 + ax1_0 * 4 + ax1_1)
                                        T.reads(B[v0, v1])
                                        T.writes(B_local[v0, v1])
                                        B_local[v0, v1] = B[v0, v1]
                        for k_1 in T.unroll(1):
                            for i_1 in T.unroll(3):
                                for j_1_1 in T.unroll(4):
                                    with T.sblock("C_update"):
                                        vi = T.axis.spatial(3, i_0 * 3 + i_1)
                                        vj = T.axis.spatial(64, j_0 * 32 + j_1_0 * 4 + j_1_1)
                                        vk = T.axis.reduce(96, k_0 + k_1)
                                        T.reads(C_local[vi, vj], A_local[vi, vk], B_local[vk, vj])
                                        T.writes(C_local[vi, vj])
                                        C_local[vi, vj] = C_local[vi, vj] + A_local[vi, vk] * B_local[vk, vj]
                    for ax0 in range(3):
                        for ax1 in T.vectorized(4):
                            with T.sblock("C_local"):
                                v0 = T.axis.spatial(3, ax0)
                                v1 = T.axis.spatial(64, j_0 * 32 + j_1_0 * 4 + ax1)
                                T.reads(C_local[v0, v1])
                                T.writes(C[v0, v1])
                                C[v0, v1] = C_local[v0, v1]
