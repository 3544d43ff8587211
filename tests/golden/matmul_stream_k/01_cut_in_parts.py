# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_rf = T.sblock_alloc_buffer((2, 64, 48))
        for k_0 in T.thread_binding(2, thread="blockIdx.y"):
            for i, j, k_1 in T.grid(64, 48, 16):
                with T.sblock("C_rf"):
                    vk_0, vi, vj, vk_1 = T.axis.remap("SSSR", [k_0, i, j, k_1])
                    T.reads(A[vi, vk_0 * 16 + vk_1], B[vk_0 * 16 + vk_1, vj])
                    T.writes(C_rf[vk_0, vi, vj])
                    with T.init():
                        C_rf[vk_0, vi, vj] = T.float32(0.0)
                    C_rf[vk_0, vi, vj] = C_rf[vk_0, vi, vj] + A[vi, vk_0 * 16 + vk_1] * B[vk_0 * 16 + vk_1, vj]
        for i, j, k_0 in T.grid(64, 48, 2):
            with T.sblock("C"):
                vk_0, vi, vj = T.axis.remap("RSS", [k_0, i, j])
                T.reads(C_rf[vk_0, vi, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + C_rf[vk_0, vi, vj]
