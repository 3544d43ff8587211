# matmul(m=12, n=10, k=24, dtype="int8", acc="int32", out="int32")
@T.prim_func(s_tir=True)
def main(A: T.Buffer((12, 24), "int8"), B: T.Buffer((24, 10), "int8"), C: T.Buffer((12, 10), "int32")):
    T.func_attr({"tirx.noalias": True})
    for i in T.thread_binding(12, thread="blockIdx.y"):
        for j in T.thread_binding(10, thread="blockIdx.x"):
            for k in range(24):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])
