# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 1024), "float32"), B: T.Buffer((1024, 48), "float32"), C: T.Buffer((32, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        A_pad = T.sblock_alloc_buffer((32, 1056))
        B_pad = T.sblock_alloc_buffer((1056, 48))
        C_rf = T.sblock_alloc_buffer((11, 32, 48))
        for i0, i1 in T.grid(32, 1056):
            with T.sblock("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(A[v0, v1])
                T.writes(A_pad[v0, v1])
                A_pad[v0, v1] = T.if_then_else(v1 < 1024, A[v0, v1], T.float32(0.0))
        for i0, i1 in T.grid(1056, 48):
            with T.sblock("B_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(B[v0, v1])
                T.writes(B_pad[v0, v1])
                B_pad[v0, v1] = T.if_then_else(v0 < 1024, B[v0, v1], T.float32(0.0))
        for k_0 in T.thread_binding(11, thread="blockIdx.y"):
            for i, j, k_1 in T.grid(32, 48, 96):
                with T.sblock("C_rf"):
                    vk_0, vi, vj, vk_1 = T.axis.remap("SSSR", [k_0, i, j, k_1])
                    T.reads(A_pad[vi, vk_0 * 96 + vk_1], B_pad[vk_0 * 96 + vk_1, vj])
                    T.writes(C_rf[vk_0, vi, vj])
                    with T.init():
                        C_rf[vk_0, vi, vj] = T.float32(0.0)
                    C_rf[vk_0, vi, vj] = C_rf[vk_0, vi, vj] + A_pad[vi, vk_0 * 96 + vk_1] * B_pad[vk_0 * 96 + vk_1, vj]
        for i, j, k_0 in T.grid(32, 48, 11):
            with T.sblock("C"):
                vk_0, vi, vj = T.axis.remap("RSS", [k_0, i, j])
                T.reads(C_rf[vk_0, vi, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + C_rf[vk_0, vi, vj]
