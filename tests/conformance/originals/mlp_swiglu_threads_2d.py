# mlp_swiglu(m=16, n=32, k=24)
@T.prim_func(s_tir=True)
def main(X: T.Buffer((16, 24), "float32"), Wg: T.Buffer((24, 32), "float32"), Wu: T.Buffer((24, 32), "float32"), D: T.Buffer((16, 32), "float32")):
    T.func_attr({"tirx.noalias": True})
    G = T.sblock_alloc_buffer((16, 32), scope="local")
    U = T.sblock_alloc_buffer((16, 32), scope="local")
    for i in T.thread_binding(16, thread="blockIdx.x"):
        for j in T.thread_binding(32, thread="threadIdx.x"):
            for k in range(24):
                with T.sblock("G"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        G[vi, vj] = T.float32(0.0)
                    G[vi, vj] = G[vi, vj] + X[vi, vk] * Wg[vk, vj]
                with T.sblock("U"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        U[vi, vj] = T.float32(0.0)
                    U[vi, vj] = U[vi, vj] + X[vi, vk] * Wu[vk, vj]
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = G[vi, vj] / (T.float32(1.0) + T.exp(T.float32(0.0) - G[vi, vj])) * U[vi, vj]
