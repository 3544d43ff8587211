# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 96), "bfloat16"), B: T.Buffer((96, 64), "bfloat16"), bias: T.Buffer((64,), "float32"), D: T.Buffer((32, 64), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            C_pad_shared_dyn = T.sblock_alloc_buffer((64, 64), scope="shared.dyn")
            C_pad_shared_dyn_local = T.sblock_alloc_buffer((64, 64), scope="local")
            A_pad_shared_dyn = T.sblock_alloc_buffer((64, 96), "bfloat16", scope="shared.dyn")
            for i_0_j_0_i_1_fused in T.thread_binding(1, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(4, thread="threadIdx.y"):
                    for k_0 in range(3):
                        for ax0_ax1_fused_0 in range(2):
                            for ax0_ax1_fused_1 in T.thread_binding(4, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("A_pad_shared.dyn"):
                                            v0 = T.axis.spatial(64, (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 32)
                                            v1 = T.axis.spatial(96, k_0 * 32 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 32)
                                            T.reads(A[v0, v1])
                                            T.writes(A_pad_shared_dyn[v0, v1])
                                            T.sblock_attr({"tirstep_swizzle": 1})
                                            A_pad_shared_dyn[v0, v1] = T.if_then_else(v0 < 32, A[v0, v1], T.bfloat16(0.0))
                        for k_1, i_3, j_2 in T.grid(2, 2, 2):
                            with T.sblock("C_o"):
                                vi_o = T.axis.spatial(4, i_2_j_1_fused // 2 * 2 + i_3)
                                vj_o = T.axis.spatial(4, i_2_j_1_fused % 2 * 2 + j_2)
                                vk_o = T.axis.reduce(6, k_0 * 2 + k_1)
                                T.reads(A_pad_shared_dyn[vi_o * 16:vi_o * 16 + 16, vk_o * 16:vk_o * 16 + 16], B[vk_o * 16:vk_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                                T.writes(C_pad_shared_dyn_local[vi_o * 16:vi_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                                with T.init():
                                    for i_4, j_3 in T.grid(16, 16):
                                        with T.sblock("C_init"):
                                            vi_i_init, vj_i_init = T.axis.remap("SS", [i_4, j_3])
                                            T.reads()
                                            T.writes(C_pad_shared_dyn_local[vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init])
                                            C_pad_shared_dyn_local[vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init] = T.float32(0.0)
                                for i_4, j_3, k_2 in T.grid(16, 16, 16):
                                    with T.sblock("C"):
                                        vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_4, j_3, k_2])
                                        T.reads(C_pad_shared_dyn_local[vi_o * 16 + vi_i, vj_o * 16 + vj_i], A_pad_shared_dyn[vi_o * 16 + vi_i, vk_o * 16 + vk_i], B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                                        T.writes(C_pad_shared_dyn_local[vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                                        C_pad_shared_dyn_local[vi_o * 16 + vi_i, vj_o * 16 + vj_i] = C_pad_shared_dyn_local[vi_o * 16 + vi_i, vj_o * 16 + vj_i] + T.Cast("float32", A_pad_shared_dyn[vi_o * 16 + vi_i, vk_o * 16 + vk_i]) * T.Cast("float32", B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                    for ax0, ax1 in T.grid(32, 32):
                        with T.sblock("C_pad_shared.dyn_local"):
                            v0 = T.axis.spatial(64, i_2_j_1_fused // 2 * 32 + ax0)
                            v1 = T.axis.spatial(64, i_2_j_1_fused % 2 * 32 + ax1)
                            T.reads(C_pad_shared_dyn_local[v0, v1])
                            T.writes(C_pad_shared_dyn[v0, v1])
                            T.sblock_attr({"buffer_dim_align": [[0, 0, 64, 8]]})
                            C_pad_shared_dyn[v0, v1] = C_pad_shared_dyn_local[v0, v1]
                for ax0_ax1_fused_0 in range(4):
                    for ax0_ax1_fused_1 in T.thread_binding(4, thread="threadIdx.y"):
                        for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                            for ax0_ax1_fused_3 in T.vectorized(4):
                                with T.sblock("D"):
                                    vi = T.axis.spatial(32, (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 128 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) // 64)
                                    vj = T.axis.spatial(64, (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 128 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) % 64)
                                    T.reads(C_pad_shared_dyn[vi, vj], bias[vj])
                                    T.writes(D[vi, vj])
                                    D[vi, vj] = T.Cast("bfloat16", (C_pad_shared_dyn[vi, vj] + bias[vj]) / (T.float32(1.0) + T.exp(T.float32(-1.5957691216057308) * (C_pad_shared_dyn[vi, vj] + bias[vj] + T.float32(0.044714999999999998) * (C_pad_shared_dyn[vi, vj] + bias[vj]) * (C_pad_shared_dyn[vi, vj] + bias[vj]) * (C_pad_shared_dyn[vi, vj] + bias[vj])))))
