# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128, 192), "float16"), B: T.Buffer((192, 256), "float16"), C: T.Buffer((128, 256), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            C_shared_dyn = T.sblock_alloc_buffer((128, 256), scope="shared.dyn")
            C_shared_dyn_local = T.sblock_alloc_buffer((128, 256), scope="local")
            A_shared_dyn = T.sblock_alloc_buffer((3, 128, 8, 8), "float16", scope="shared.dyn")
            B_shared_dyn = T.sblock_alloc_buffer((4, 192, 8, 8), "float16", scope="shared.dyn")
            for i_0_j_0_i_1_fused in T.thread_binding(8, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                    for i_3_init, j_2_init in T.grid(64, 64):
                        with T.sblock("C_init"):
                            vi = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + i_3_init)
                            vj = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + j_2_init)
                            T.reads()
                            T.writes(C_shared_dyn_local[vi, vj])
                            C_shared_dyn_local[vi, vj] = T.float32(0.0)
                    for k_0 in T.serial(3, annotations={"tirstep_tma_in_flight": 1, "tirstep_tma_stages": 3}):
                        for ax0_ax1_fused_0 in range(4):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("A_shared.dyn"):
                                            v0 = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 64)
                                            v1 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 64)
                                            T.reads(A[v0, v1])
                                            T.writes(A_shared_dyn[v1 // 64, v0, 0:8, v1 % 8])
                                            T.sblock_attr({"tirstep_tma_copy": [128, 1, 64, 64]})
                                            A_shared_dyn[v1 // 64, v0, (v1 % 64 // 8 ^ v0 % 8) % 8, v1 % 8] = A[v0, v1]
                        for ax0_ax1_fused_0 in range(4):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("B_shared.dyn"):
                                            v0 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 64)
                                            v1 = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 64)
                                            T.reads(B[v0, v1])
                                            T.writes(B_shared_dyn[v1 // 64, v0, 0:8, v1 % 8])
                                            T.sblock_attr({"tirstep_tma_copy": [128, 1, 64, 64]})
                                            B_shared_dyn[v1 // 64, v0, (v1 % 64 // 8 ^ v0 % 8) % 8, v1 % 8] = B[v0, v1]
                        for i_3, j_2, k_1 in T.grid(64, 64, 64):
                            with T.sblock("C_update"):
                                vi = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + i_3)
                                vj = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + j_2)
                                vk = T.axis.reduce(192, k_0 * 64 + k_1)
                                T.reads(C_shared_dyn_local[vi, vj], A_shared_dyn[vk // 64, vi, 0:8, vk % 8], B_shared_dyn[vj // 64, vk, 0:8, vj % 8])
                                T.writes(C_shared_dyn_local[vi, vj])
                                C_shared_dyn_local[vi, vj] = C_shared_dyn_local[vi, vj] + T.Cast("float32", A_shared_dyn[vk // 64, vi, (vk % 64 // 8 ^ vi % 8) % 8, vk % 8]) * T.Cast("float32", B_shared_dyn[vj // 64, vk, (vj % 64 // 8 ^ vk % 8) % 8, vj % 8])
                    for ax0, ax1 in T.grid(64, 64):
                        with T.sblock("C_shared.dyn_local"):
                            v0 = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + ax0)
                            v1 = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + ax1)
                            T.reads(C_shared_dyn_local[v0, v1])
                            T.writes(C_shared_dyn[v0, v1])
                            T.sblock_attr({"buffer_dim_align": [[0, 0, 64, 8]]})
                            C_shared_dyn[v0, v1] = C_shared_dyn_local[v0, v1]
                for ax0_ax1_fused_0 in range(8):
                    for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                        for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                            for ax0_ax1_fused_3 in T.vectorized(4):
                                with T.sblock("C_shared.dyn"):
                                    v0 = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 512 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) // 64)
                                    v1 = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 512 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) % 64)
                                    T.reads(C_shared_dyn[v0, v1])
                                    T.writes(C[v0, v1])
                                    C[v0, v1] = C_shared_dyn[v0, v1]
