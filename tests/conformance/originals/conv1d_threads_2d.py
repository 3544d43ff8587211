# conv1d(m=100, n=32)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((100,), "float32"), W: T.Buffer((32,), "float32"), B: T.Buffer((131,), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i_0 in T.thread_binding(9, thread="blockIdx.x"):
        for i_1_0 in T.thread_binding(4, thread="threadIdx.y"):
            for i_1_1 in T.thread_binding(4, thread="threadIdx.x"):
                for r in range(32):
                    with T.sblock("B"):
                        vi = T.axis.spatial(131, i_0 * 16 + i_1_0 * 4 + i_1_1)
                        vr = T.axis.reduce(32, r)
                        T.where(i_0 * 16 + (i_1_0 * 4 + i_1_1) < 131)
                        with T.init():
                            B[vi] = T.float32(0.0)
                        B[vi] = B[vi] + T.if_then_else(vi - vr >= 0 and vi - vr < 100, A[vi - vr], T.float32(0.0)) * W[vr]
