# matmul(m=64, n=48, k=32)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
    T.func_attr({"tirx.noalias": True})
    C_local = T.sblock_alloc_buffer((64, 48), scope="local")
    for i_0 in T.thread_binding(4, thread="blockIdx.y"):
        for j_0 in T.thread_binding(3, thread="blockIdx.x"):
            for i_1 in T.thread_binding(4, thread="threadIdx.y"):
                for j_1 in T.thread_binding(8, thread="threadIdx.x"):
                    for i_2_init, j_2_init in T.grid(4, 2):
                        with T.sblock("C_init"):
                            vi = T.axis.spatial(64, i_0 * 16 + i_1 * 4 + i_2_init)
                            vj = T.axis.spatial(48, j_0 * 16 + j_1 * 2 + j_2_init)
                            C_local[vi, vj] = T.float32(0.0)
                    for k_0 in range(8):
                        for k_1 in T.unroll(4):
                            for i_2, j_2 in T.grid(4, 2):
                                with T.sblock("C_update"):
                                    vi = T.axis.spatial(64, i_0 * 16 + i_1 * 4 + i_2)
                                    vj = T.axis.spatial(48, j_0 * 16 + j_1 * 2 + j_2)
                                    vk = T.axis.reduce(32, k_0 * 4 + k_1)
                                    C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
                    for ax0, ax1 in T.grid(4, 2):
                        with T.sblock("C_local"):
                            v0 = T.axis.spatial(64, i_0 * 16 + i_1 * 4 + ax0)
                            v1 = T.axis.spatial(48, j_0 * 16 + j_1 * 2 + ax1)
                            C[v0, v1] = C_local[v0, v1]
