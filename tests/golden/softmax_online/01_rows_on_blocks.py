# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), B: T.Buffer((6, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"pass_config.tirx.disable_storage_rewrite": True})
            W_local = T.sblock_alloc_buffer((6, 64), scope="local")
            total_local = T.sblock_alloc_buffer((6,), scope="local")
            top_local = T.sblock_alloc_buffer((6,), scope="local")
            for i_0 in T.thread_binding(3, thread="blockIdx.x"):
                for i_1 in T.thread_binding(2, thread="threadIdx.y"):
                    for ax0, ax1 in T.grid(1, 64):
                        with T.sblock("wide"):
                            vi = T.axis.spatial(6, i_0 * 2 + i_1 + ax0)
                            vk = T.axis.spatial(64, ax1)
                            T.reads(A[vi, vk])
                            T.writes(W_local[vi, vk])
                            W_local[vi, vk] = A[vi, vk]
                    for ax0, ax1 in T.grid(1, 64):
                        with T.sblock("statistics"):
                            vi = T.axis.spatial(6, i_0 * 2 + i_1 + ax0)
                            vk = T.axis.reduce(64, ax1)
                            T.reads(W_local[vi, vk])
                            T.writes(total_local[vi], top_local[vi])
                            with T.init():
                                total_local[vi] = T.float32(0.0)
                                top_local[vi] = T.float32(-340282346638528859811704183484516925440.0)
                            new_total: T.let[T.float32] = total_local[vi] * T.exp(top_local[vi] - T.max(top_local[vi], W_local[vi, vk])) + T.exp(T.float32(0.0)) * T.exp(W_local[vi, vk] - T.max(top_local[vi], W_local[vi, vk]))
                            new_top: T.let[T.float32] = T.max(top_local[vi], W_local[vi, vk])
                            total_local[vi] = new_total
                            top_local[vi] = new_top
                    for k in range(64):
                        with T.sblock("B"):
                            vi = T.axis.spatial(6, i_0 * 2 + i_1)
                            vk = T.axis.spatial(64, k)
                            T.reads(W_local[vi, vk], top_local[vi], total_local[vi])
                            T.writes(B[vi, vk])
                            B[vi, vk] = T.exp(W_local[vi, vk] - top_local[vi]) / total_local[vi]
