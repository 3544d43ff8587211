# conv1d(m=100, n=32)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((100,), "float32"), W: T.Buffer((32,), "float32"), B: T.Buffer((131,), "float32")):
    T.func_attr({"tirx.noalias": True})
    B_local = T.sblock_alloc_buffer((131,), scope="local")
    W_shared = T.sblock_alloc_buffer((32,), scope="shared")
    for i_0 in T.thread_binding(5, thread="blockIdx.x"):
        for i_1 in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("B_init"):
                vi = T.axis.spatial(131, i_0 * 32 + i_1)
                T.where(i_0 * 32 + i_1 < 131)
                B_local[vi] = T.float32(0.0)
            for r_0 in range(8):
                for ax0_0 in range(1):
                    for ax0_1 in T.thread_binding(32, thread="threadIdx.x"):
                        with T.sblock("W_shared"):
                            v0 = T.axis.spatial(32, r_0 * 4 + (ax0_0 * 32 + ax0_1))
                            T.where(ax0_0 * 32 + ax0_1 < 4)
                            W_shared[v0] = W[v0]
                for r_1 in range(4):
                    with T.sblock("B_update"):
                        vi = T.axis.spatial(131, i_0 * 32 + i_1)
                        vr = T.axis.reduce(32, r_0 * 4 + r_1)
                        T.where(i_0 * 32 + i_1 < 131)
                        B_local[vi] = B_local[vi] + T.if_then_else(vi - vr >= 0 and vi - vr < 100, A[vi - vr], T.float32(0.0)) * W_shared[vr]
            for ax0 in range(1):
                with T.sblock("B_local"):
                    v0 = T.axis.spatial(131, i_0 * 32 + i_1 + ax0)
                    T.where(i_0 * 32 + i_1 < 131)
                    B[v0] = B_local[v0]
