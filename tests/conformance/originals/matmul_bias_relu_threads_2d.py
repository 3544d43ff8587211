# matmul_bias_relu(m=64, n=48, k=32)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), bias: T.Buffer((48,), "float32"), D: T.Buffer((64, 48), "float32")):
    T.func_attr({"tirx.noalias": True})
    C_local = T.sblock_alloc_buffer((64, 48), scope="local")
    for i_0 in T.thread_binding(4, thread="blockIdx.y"):
        for j_0 in T.thread_binding(3, thread="blockIdx.x"):
            for i_1 in T.thread_binding(16, thread="threadIdx.y"):
                for j_1 in T.thread_binding(16, thread="threadIdx.x"):
                    for k in range(32):
                        with T.sblock("C"):
                            vi = T.axis.spatial(64, i_0 * 16 + i_1)
                            vj = T.axis.spatial(48, j_0 * 16 + j_1)
                            vk = T.axis.reduce(32, k)
                            with T.init():
                                C_local[vi, vj] = T.float32(0.0)
                            C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
                    with T.sblock("D"):
                        vi = T.axis.spatial(64, i_0 * 16 + i_1)
                        vj = T.axis.spatial(48, j_0 * 16 + j_1)
                        D[vi, vj] = T.max(C_local[vi, vj] + bias[vj], T.float32(0.0))
