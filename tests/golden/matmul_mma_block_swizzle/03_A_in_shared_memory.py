# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 96), "float16"), B: T.Buffer((96, 64), "float16"), C: T.Buffer((32, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_local = T.sblock_alloc_buffer((32, 64), scope="local")
        A_shared_dyn = T.sblock_alloc_buffer((32, 96), "float16", scope="shared.dyn")
        for i_0_j_0_i_1_fused in T.thread_binding(4, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(2, thread="threadIdx.y"):
                for k_0 in range(3):
                    for ax0_ax1_fused_0 in range(1):
                        for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                            for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_ax1_fused_3 in T.vectorized(8):
                                    with T.sblock("A_shared.dyn"):
                                        v0 = T.axis.spatial(32, i_0_j_0_i_1_fused % 2 * 16 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 32)
                                        v1 = T.axis.spatial(96, k_0 * 32 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 32)
                                        T.reads(A[v0, v1])
                                        T.writes(A_shared_dyn[v0, v1])
                                        T.sblock_attr({"tirstep_swizzle": 1})
                                        A_shared_dyn[v0, v1] = A[v0, v1]
                    for k_1, i_3, j_2 in T.grid(2, 1, 1):
                        with T.sblock("C_o"):
                            vi_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2 + i_3)
                            vj_o = T.axis.spatial(4, i_0_j_0_i_1_fused // 2 * 2 + i_2_j_1_fused + j_2)
                            vk_o = T.axis.reduce(6, k_0 * 2 + k_1)
                            T.reads(A_shared_dyn[vi_o * 16:vi_o * 16 + 16, vk_o * 16:vk_o * 16 + 16], B[vk_o * 16:vk_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                            T.writes(C_local[vi_o * 16:vi_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                            with T.init():
                                for i_4, j_3 in T.grid(16, 16):
                                    with T.sblock("C_init"):
                                        vi_i_init, vj_i_init = T.axis.remap("SS", [i_4, j_3])
                                        T.reads()
                                        T.writes(C_local[vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init])
                                        C_local[vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init] = T.float32(0.0)
                            for i_4, j_3, k_2 in T.grid(16, 16, 16):
                                with T.sblock("C"):
                                    vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_4, j_3, k_2])
                                    T.reads(C_local[vi_o * 16 + vi_i, vj_o * 16 + vj_i], A_shared_dyn[vi_o * 16 + vi_i, vk_o * 16 + vk_i], B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                                    T.writes(C_local[vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                                    C_local[vi_o * 16 + vi_i, vj_o * 16 + vj_i] = C_local[vi_o * 16 + vi_i, vj_o * 16 + vj_i] + T.Cast("float32", A_shared_dyn[vi_o * 16 + vi_i, vk_o * 16 + vk_i]) * T.Cast("float32", B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                for ax0, ax1 in T.grid(16, 16):
                    with T.sblock("C_local"):
                        v0 = T.axis.spatial(32, i_0_j_0_i_1_fused % 2 * 16 + ax0)
                        v1 = T.axis.spatial(64, i_0_j_0_i_1_fused // 2 * 32 + i_2_j_1_fused * 16 + ax1)
                        T.reads(C_local[v0, v1])
                        T.writes(C[v0, v1])
                        C[v0, v1] = C_local[v0, v1]
