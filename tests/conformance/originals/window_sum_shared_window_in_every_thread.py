# window_sum(n=1024)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((1027,), "float32"), B: T.Buffer((1024,), "float32")):
    T.func_attr({"tirx.noalias": True})
    A_shared = T.sblock_alloc_buffer((1027,), scope="shared")
    for i_0 in T.thread_binding(8, thread="blockIdx.x"):
        for i_1 in T.thread_binding(128, thread="threadIdx.x"):
            for ax0 in range(130):
                with T.sblock("A_shared"):
                    v0 = T.axis.spatial(1027, i_0 * 128 + ax0)
                    A_shared[v0] = A[v0]
            with T.sblock("C"):
                vi = T.axis.spatial(1024, i_0 * 128 + i_1)
                B[vi] = A_shared[vi] + A_shared[vi + 1] + A_shared[vi + 2]
