# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 96), "float16"), B: T.Buffer((96, 64), "float16"), C: T.Buffer((32, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_rf = T.sblock_alloc_buffer((3, 32, 64))
        for k_0 in T.thread_binding(3, thread="blockIdx.y"):
            for i_0_j_0_i_1_fused in T.thread_binding(4, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(2, thread="threadIdx.y"):
                    for k_1_0, k_1_1, i_3, j_2 in T.grid(1, 2, 1, 1):
                        with T.sblock("C_rf_o"):
                            vk_0_o = T.axis.spatial(3, k_0)
                            vi_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2 + i_3)
                            vj_o = T.axis.spatial(4, i_0_j_0_i_1_fused // 2 * 2 + i_2_j_1_fused + j_2)
                            vk_1_o = T.axis.reduce(2, k_1_0 * 2 + k_1_1)
                            T.reads(A[vi_o * 16:vi_o * 16 + 16, vk_0_o * 32 + vk_1_o * 16:vk_0_o * 32 + vk_1_o * 16 + 16], B[vk_0_o * 32 + vk_1_o * 16:vk_0_o * 32 + vk_1_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                            T.writes(C_rf[vk_0_o, vi_o * 16:vi_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                            with T.init():
                                for i_4, j_3 in T.grid(16, 16):
                                    with T.sblock("C_rf_init"):
                                        vi_i_init, vj_i_init = T.axis.remap("SS", [i_4, j_3])
                                        T.reads()
                                        T.writes(C_rf[vk_0_o, vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init])
                                        C_rf[vk_0_o, vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init] = T.float32(0.0)
                            for i_4, j_3, k_1_2 in T.grid(16, 16, 16):
                                with T.sblock("C_rf"):
                                    vi_i, vj_i, vk_1_i = T.axis.remap("SSR", [i_4, j_3, k_1_2])
                                    T.reads(C_rf[vk_0_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i], A[vi_o * 16 + vi_i, vk_0_o * 32 + vk_1_o * 16 + vk_1_i], B[vk_0_o * 32 + vk_1_o * 16 + vk_1_i, vj_o * 16 + vj_i])
                                    T.writes(C_rf[vk_0_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                                    C_rf[vk_0_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i] = C_rf[vk_0_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i] + T.Cast("float32", A[vi_o * 16 + vi_i, vk_0_o * 32 + vk_1_o * 16 + vk_1_i]) * T.Cast("float32", B[vk_0_o * 32 + vk_1_o * 16 + vk_1_i, vj_o * 16 + vj_i])
        for i, j, k_0 in T.grid(32, 64, 3):
            with T.sblock("C"):
                vk_0, vi, vj = T.axis.remap("RSS", [k_0, i, j])
                T.reads(C_rf[vk_0, vi, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + C_rf[vk_0, vi, vj]
