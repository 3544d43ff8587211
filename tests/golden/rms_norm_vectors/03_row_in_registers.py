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
            B_local = T.sblock_alloc_buffer((6, 2, 8, 4), scope="local")
            A_local = T.sblock_alloc_buffer((6, 2, 8, 4), scope="local")
            gain_local = T.sblock_alloc_buffer((2, 8, 4), scope="local")
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
                for ax0, ax1_0_0 in T.grid(1, 2):
                    for ax1_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                        for ax1_1 in range(4):
                            with T.sblock("sum"):
                                vi = T.axis.spatial(6, i + ax0)
                                vk = T.axis.reduce(64, ax1_0_0 * 32 + ax1_0_1 * 4 + ax1_1)
                                T.reads(A_local[vi, vk // 32, vk % 32 // 4, vk % 4])
                                T.writes(squares_local[vi])
                                with T.init():
                                    squares_local[vi] = T.float32(0.0)
                                squares_local[vi] = squares_local[vi] + A_local[vi, vk // 32, vk % 32 // 4, vk % 4] * A_local[vi, vk // 32, vk % 32 // 4, vk % 4]
                for ax0_0_0 in range(2):
                    for ax0_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                        for ax0_1 in T.vectorized(4):
                            with T.sblock("gain_local"):
                                v0 = T.axis.spatial(64, ax0_0_0 * 32 + ax0_0_1 * 4 + ax0_1)
                                T.reads(gain[v0])
                                T.writes(gain_local[v0 // 32, v0 % 32 // 4, v0 % 4])
                                gain_local[v0 // 32, v0 % 32 // 4, v0 % 4] = gain[v0]
                for k_0_0 in range(2):
                    for k_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                        for k_1 in range(4):
                            with T.sblock("B"):
                                vi = T.axis.spatial(6, i)
                                vk = T.axis.spatial(64, k_0_0 * 32 + k_0_1 * 4 + k_1)
                                T.reads(A_local[vi, vk // 32, vk % 32 // 4, vk % 4], squares_local[vi], gain_local[vk // 32, vk % 32 // 4, vk % 4])
                                T.writes(B_local[vi, vk // 32, vk % 32 // 4, vk % 4])
                                B_local[vi, vk // 32, vk % 32 // 4, vk % 4] = A_local[vi, vk // 32, vk % 32 // 4, vk % 4] * T.rsqrt(squares_local[vi] / T.float32(64.0) + T.float32(1.0000000000000001e-05)) * gain_local[vk // 32, vk % 32 // 4, vk % 4]
                for ax0, ax1_0_0 in T.grid(1, 2):
                    for ax1_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                        for ax1_1 in T.vectorized(4):
                            with T.sblock("B_local"):
                                v0 = T.axis.spatial(6, i + ax0)
                                v1 = T.axis.spatial(64, ax1_0_0 * 32 + ax1_0_1 * 4 + ax1_1)
                                T.reads(B_local[v0, v1 // 32, v1 % 32 // 4, v1 % 4])
                                T.writes(B[v0, v1])
                                B[v0, v1] = B_local[v0, v1 // 32, v1 % 32 // 4, v1 % 4]
