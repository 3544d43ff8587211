# matmul(m=4, n=6, k=128)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((4, 128), "float32"), B: T.Buffer((128, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i in T.thread_binding(4, thread="blockIdx.y"):
        for j in T.thread_binding(6, thread="blockIdx.x"):
            for k_0 in range(2):
                for k_1 in T.thread_binding(64, thread="threadIdx.x"):
                    with T.sblock("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        vk = T.axis.reduce(128, k_0 * 64 + k_1)
                        with T.init():
                            C[vi, vj] = T.float32(0.0)
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
