# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 32, 96), "bfloat16"), B: T.Buffer((2, 96, 64), "bfloat16"), C: T.Buffer((2, 32, 64), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        A_pad = T.sblock_alloc_buffer((2, 64, 96), "bfloat16")
        C_acc_pad = T.sblock_alloc_buffer((2, 64, 64))
        for i0, i1, i2 in T.grid(2, 64, 96):
            with T.sblock("A_pad"):
                v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
                T.reads(A[v0, v1, v2])
                T.writes(A_pad[v0, v1, v2])
                A_pad[v0, v1, v2] = T.if_then_else(v1 < 32, A[v0, v1, v2], T.bfloat16(0.0))
        for b_fused in T.thread_binding(2, thread="blockIdx.z"):
            for i_0_j_0_i_1_fused in T.thread_binding(1, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(4, thread="threadIdx.y"):
                    for k_0, k_1, i_3, j_2 in T.grid(3, 2, 2, 2):
                        with T.sblock("C_o"):
                            vb_o = T.axis.spatial(2, b_fused)
                            vi_o = T.axis.spatial(4, i_2_j_1_fused // 2 * 2 + i_3)
                            vj_o = T.axis.spatial(4, i_2_j_1_fused % 2 * 2 + j_2)
                            vk_o = T.axis.reduce(6, k_0 * 2 + k_1)
                            T.reads(A_pad[vb_o, vi_o * 16:vi_o * 16 + 16, vk_o * 16:vk_o * 16 + 16], B[vb_o, vk_o * 16:vk_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                            T.writes(C_acc_pad[vb_o, vi_o * 16:vi_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                            with T.init():
                                for i_4, j_3 in T.grid(16, 16):
                                    with T.sblock("C_init"):
                                        vi_i_init, vj_i_init = T.axis.remap("SS", [i_4, j_3])
                                        T.reads()
                                        T.writes(C_acc_pad[vb_o, vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init])
                                        C_acc_pad[vb_o, vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init] = T.float32(0.0)
                            for i_4, j_3, k_2 in T.grid(16, 16, 16):
                                with T.sblock("C"):
                                    vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_4, j_3, k_2])
                                    T.reads(C_acc_pad[vb_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i], A_pad[vb_o, vi_o * 16 + vi_i, vk_o * 16 + vk_i], B[vb_o, vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                                    T.writes(C_acc_pad[vb_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                                    C_acc_pad[vb_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i] = C_acc_pad[vb_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i] + T.Cast("float32", A_pad[vb_o, vi_o * 16 + vi_i, vk_o * 16 + vk_i]) * T.Cast("float32", B[vb_o, vk_o * 16 + vk_i, vj_o * 16 + vj_i])
        for b, i, j in T.grid(2, 32, 64):
            with T.sblock("C_cast"):
                vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                T.reads(C_acc_pad[vb, vi, vj])
                T.writes(C[vb, vi, vj])
                C[vb, vi, vj] = T.Cast("bfloat16", C_acc_pad[vb, vi, vj])
