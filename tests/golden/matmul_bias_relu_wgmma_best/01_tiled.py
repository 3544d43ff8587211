# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 192), "bfloat16"), B: T.Buffer((192, 128), "bfloat16"), bias: T.Buffer((128,), "float32"), D: T.Buffer((64, 128), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C = T.sblock_alloc_buffer((64, 128))
        for i_0_j_0_i_1_fused in T.thread_binding(2, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                for k_0, i_3, j_2, k_1 in T.grid(3, 64, 64, 64):
                    with T.sblock("C"):
                        vi = T.axis.spatial(64, i_3)
                        vj = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + j_2)
                        vk = T.axis.reduce(192, k_0 * 64 + k_1)
                        T.reads(A[vi, vk], B[vk, vj])
                        T.writes(C[vi, vj])
                        with T.init():
                            C[vi, vj] = T.float32(0.0)
                        C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
        for i, j in T.grid(64, 128):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(C[vi, vj], bias[vj])
                T.writes(D[vi, vj])
                D[vi, vj] = T.Cast("bfloat16", T.max(C[vi, vj] + bias[vj], T.float32(0.0)))
