# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 96), "bfloat16"), B: T.Buffer((96, 64), "bfloat16"), bias: T.Buffer((64,), "float32"), D: T.Buffer((32, 64), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        A_pad = T.sblock_alloc_buffer((64, 96), "bfloat16")
        C_pad = T.sblock_alloc_buffer((64, 64))
        for i0, i1 in T.grid(64, 96):
            with T.sblock("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(A[v0, v1])
                T.writes(A_pad[v0, v1])
                A_pad[v0, v1] = T.if_then_else(v0 < 32, A[v0, v1], T.bfloat16(0.0))
        for i_0_j_0_i_1_fused in T.thread_binding(1, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(4, thread="threadIdx.y"):
                for k_0, k_1, i_3, j_2 in T.grid(3, 2, 2, 2):
                    with T.sblock("C_o"):
                        vi_o = T.axis.spatial(4, i_2_j_1_fused // 2 * 2 + i_3)
                        vj_o = T.axis.spatial(4, i_2_j_1_fused % 2 * 2 + j_2)
                        vk_o = T.axis.reduce(6, k_0 * 2 + k_1)
                        T.reads(A_pad[vi_o * 16:vi_o * 16 + 16, vk_o * 16:vk_o * 16 + 16], B[vk_o * 16:vk_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                        T.writes(C_pad[vi_o * 16:vi_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                        with T.init():
                            for i_4, j_3 in T.grid(16, 16):
                                with T.sblock("C_init"):
                                    vi_i_init, vj_i_init = T.axis.remap("SS", [i_4, j_3])
                                    T.reads()
                                    T.writes(C_pad[vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init])
                                    C_pad[vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init] = T.float32(0.0)
                        for i_4, j_3, k_2 in T.grid(16, 16, 16):
                            with T.sblock("C"):
                                vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_4, j_3, k_2])
                                T.reads(C_pad[vi_o * 16 + vi_i, vj_o * 16 + vj_i], A_pad[vi_o * 16 + vi_i, vk_o * 16 + vk_i], B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                                T.writes(C_pad[vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                                C_pad[vi_o * 16 + vi_i, vj_o * 16 + vj_i] = C_pad[vi_o * 16 + vi_i, vj_o * 16 + vj_i] + T.Cast("float32", A_pad[vi_o * 16 + vi_i, vk_o * 16 + vk_i]) * T.Cast("float32", B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
        for i, j in T.grid(32, 64):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(C_pad[vi, vj], bias[vj])
                T.writes(D[vi, vj])
                D[vi, vj] = T.Cast("bfloat16", T.max(C_pad[vi, vj] + bias[vj], T.float32(0.0)))
