# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 96), "float16"), B: T.Buffer((96, 64), "float16"), C: T.Buffer((32, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0_j_0_i_1_fused in T.thread_binding(4, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(2, thread="threadIdx.y"):
                for k_0, k_1, i_3, j_2 in T.grid(3, 2, 1, 1):
                    with T.sblock("C_o"):
                        vi_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2 + i_3)
                        vj_o = T.axis.spatial(4, i_0_j_0_i_1_fused // 2 * 2 + i_2_j_1_fused + j_2)
                        vk_o = T.axis.reduce(6, k_0 * 2 + k_1)
                        T.reads(A[vi_o * 16:vi_o * 16 + 16, vk_o * 16:vk_o * 16 + 16], B[vk_o * 16:vk_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                        T.writes(C[vi_o * 16:vi_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                        with T.init():
                            for i_4, j_3 in T.grid(16, 16):
                                with T.sblock("C_init"):
                                    vi_i_init, vj_i_init = T.axis.remap("SS", [i_4, j_3])
                                    T.reads()
                                    T.writes(C[vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init])
                                    C[vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init] = T.float32(0.0)
                        for i_4, j_3, k_2 in T.grid(16, 16, 16):
                            with T.sblock("C"):
                                vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_4, j_3, k_2])
                                T.reads(C[vi_o * 16 + vi_i, vj_o * 16 + vj_i], A[vi_o * 16 + vi_i, vk_o * 16 + vk_i], B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                                T.writes(C[vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                                C[vi_o * 16 + vi_i, vj_o * 16 + vj_i] = C[vi_o * 16 + vi_i, vj_o * 16 + vj_i] + T.Cast("float32", A[vi_o * 16 + vi_i, vk_o * 16 + vk_i]) * T.Cast("float32", B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
