# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), B: T.Buffer((6,), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"pass_config.tirx.disable_storage_rewrite": True, "tir_pipeline": "tirstep"})
            B_local = T.sblock_alloc_buffer((6,), scope="local")
            A_local = T.sblock_alloc_buffer((6, 2, 8, 4), scope="local")
            for i in T.thread_binding(6, thread="blockIdx.x"):
                for ax0, ax1_0_0 in T.grid(1, 2):
                    for ax1_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                        for ax1_1 in T.vectorized(4):
                            with T.sblock("A_local"):
                                v0 = T.axis.spatial(6, i + ax0)
                                v1 = T.axis.spatial(64, ax1_0_0 * 32 + ax1_0_1 * 4 + ax1_1)
                                T.reads(A[v0, v1])
                                T.writes(A_local[v0, v1 // 32, v1 % 32 // 4, v1 % 4])
                                A_local[v0, v1 // 32, v1 % 32 // 4, v1 % 4] = A[v0, v1]
                for k_0_0 in range(2):
                    for k_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                        for k_1 in range(4):
                            with T.sblock("B"):
                                vi = T.axis.spatial(6, i)
                                vk = T.axis.reduce(64, k_0_0 * 32 + k_0_1 * 4 + k_1)
                                T.reads(A_local[vi, vk // 32, vk % 32 // 4, vk % 4])
                                T.writes(B_local[vi])
                                with T.init():
                                    B_local[vi] = T.float32(0.0)
                                B_local[vi] = B_local[vi] + A_local[vi, vk // 32, vk % 32 // 4, vk % 4]
                for ax0, u_0_0 in T.grid(1, 1):
                    for u_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                        for u_1 in range(1):
                            with T.sblock("B_local"):
                                v0 = T.axis.spatial(6, i + ax0)
                                T.where(u_0_0 * 8 + u_0_1 < 1)
                                T.reads(B_local[v0])
                                T.writes(B[v0])
                                B[v0] = B_local[v0]
