# vector_add(n=70000)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((70000,), "float32"), B: T.Buffer((70000,), "float32"), C: T.Buffer((70000,), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i_0 in T.thread_binding(700, thread="blockIdx.x"):
        for i_1 in T.thread_binding(100, thread="threadIdx.x"):
            with T.sblock("C"):
                vi = T.axis.spatial(70000, i_0 * 100 + i_1)
                C[vi] = A[vi] + B[vi]
