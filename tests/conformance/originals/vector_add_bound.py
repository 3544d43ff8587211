# vector_add(n=1024)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"), C: T.Buffer((1024,), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i_0 in T.thread_binding(8, thread="blockIdx.x"):
        for i_1 in T.thread_binding(128, thread="threadIdx.x"):
            with T.sblock("C"):
                vi = T.axis.spatial(1024, i_0 * 128 + i_1)
                C[vi] = A[vi] + B[vi]
