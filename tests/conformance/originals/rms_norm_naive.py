# rms_norm(m=6, n=64)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((6, 64), "float32"), gain: T.Buffer((64,), "float32"), B: T.Buffer((6, 64), "float32")):
    T.func_attr({"tirx.noalias": True})
    with T.sblock("root"):
        T.sblock_attr({"pass_config.tirx.disable_storage_rewrite": True})
        squares_local = T.sblock_alloc_buffer((6,), scope="local")
        for i_0 in T.thread_binding(3, thread="blockIdx.x"):
            for i_1 in T.thread_binding(2, thread="threadIdx.x"):
                for ax0, ax1 in T.grid(1, 64):
                    with T.sblock("sum"):
                        vi = T.axis.spatial(6, i_0 * 2 + i_1 + ax0)
                        vk = T.axis.reduce(64, ax1)
                        with T.init():
                            squares_local[vi] = T.float32(0.0)
                        squares_local[vi] = squares_local[vi] + A[vi, vk] * A[vi, vk]
                for k in range(64):
                    with T.sblock("B"):
                        vi = T.axis.spatial(6, i_0 * 2 + i_1)
                        vk = T.axis.spatial(64, k)
                        B[vi, vk] = A[vi, vk] * T.rsqrt(squares_local[vi] / T.float32(64.0) + T.float32(1.0000000000000001e-05)) * gain[vk]
