# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 64, 192), "bfloat16"), B: T.Buffer((2, 192, 128), "bfloat16"), C: T.Buffer((2, 64, 128), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_acc = T.sblock_alloc_buffer((2, 64, 128))
        for b_fused in T.thread_binding(2, thread="blockIdx.z"):
            for i_0_j_0_i_1_fused in T.thread_binding(2, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                    for k_0, i_3, j_2, k_1 in T.grid(3, 64, 64, 64):
                        with T.sblock("C"):
                            vb, vi = T.axis.remap("SS", [b_fused, i_3])
                            vj = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + j_2)
                            vk = T.axis.reduce(192, k_0 * 64 + k_1)
                            T.reads(A[vb, vi, vk], B[vb, vk, vj])
                            T.writes(C_acc[vb, vi, vj])
                            with T.init():
                                C_acc[vb, vi, vj] = T.float32(0.0)
                            C_acc[vb, vi, vj] = C_acc[vb, vi, vj] + T.Cast("float32", A[vb, vi, vk]) * T.Cast("float32", B[vb, vk, vj])
        for b, i, j in T.grid(2, 64, 128):
            with T.sblock("C_cast"):
                vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                T.reads(C_acc[vb, vi, vj])
                T.writes(C[vb, vi, vj])
                C[vb, vi, vj] = T.Cast("bfloat16", C_acc[vb, vi, vj])
