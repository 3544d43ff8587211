# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), gain: T.Buffer((64,), "float32"), B: T.Buffer((6, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"pass_config.tirx.disable_storage_rewrite": True, "tir_pipeline": "tirstep"})
            squares_local = T.sblock_alloc_buffer((6,), scope="local")
            B_local = T.sblock_alloc_buffer((6, 1, 16, 4), scope="local")
            for i in T.thread_binding(6, thread="blockIdx.x"):
                for ax0, ax1_0_0 in T.grid(1, 1):
                    for ax1_0_1 in T.thread_binding(16, thread="threadIdx.x"):
                        for ax1_1 in range(4):
                            with T.sblock("sum"):
                                vi = T.axis.spatial(6, i + ax0)
                                vk = T.axis.reduce(64, ax1_0_0 * 64 + ax1_0_1 * 4 + ax1_1)
                                T.reads(A[vi, vk])
                                T.writes(squares_local[vi])
                                with T.init():
                                    squares_local[vi] = T.float32(0.0)
                                squares_local[vi] = squares_local[vi] + A[vi, vk] * A[vi, vk]
                for k_0_0 in range(1):
                    for k_0_1 in T.thread_binding(16, thread="threadIdx.x"):
                        for k_1 in range(4):
                            with T.sblock("B"):
                                vi = T.axis.spatial(6, i)
                                vk = T.axis.spatial(64, k_0_0 * 64 + k_0_1 * 4 + k_1)
                                T.reads(A[vi, vk], squares_local[vi], gain[vk])
                                T.writes(B_local[vi, 0, vk // 4, vk % 4])
                                B_local[vi, 0, vk // 4, vk % 4] = A[vi, vk] * T.rsqrt(squares_local[vi] / T.float32(64.0) + T.float32(1.0000000000000001e-05)) * gain[vk]
                for ax0, ax1_0_0 in T.grid(1, 1):
                    for ax1_0_1 in T.thread_binding(16, thread="threadIdx.x"):
                        for ax1_1 in T.vectorized(4):
                            with T.sblock("B_local"):
                                v0 = T.axis.spatial(6, i + ax0)
                                v1 = T.axis.spatial(64, ax1_0_0 * 64 + ax1_0_1 * 4 + ax1_1)
                                T.reads(B_local[v0, 0, v1 // 4, v1 % 4])
                                T.writes(B[v0, v1])
                                B[v0, v1] = B_local[v0, 0, v1 // 4, v1 % 4]
