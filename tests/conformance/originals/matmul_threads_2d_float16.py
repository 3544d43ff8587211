# matmul(m=32, n=16, k=64, dtype="float16", out="float16")
@T.prim_func(s_tir=True)
def main(A: T.Buffer((32, 64), "float16"), B: T.Buffer((64, 16), "float16"), C: T.Buffer((32, 16), "float16")):
    T.func_attr({"tirx.noalias": True})
    C_acc_local = T.sblock_alloc_buffer((32, 16), scope="local")
    for i in T.thread_binding(32, thread="blockIdx.x"):
        for j in T.thread_binding(16, thread="threadIdx.x"):
            for k in range(64):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C_acc_local[vi, vj] = T.float32(0.0)
                    C_acc_local[vi, vj] = C_acc_local[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
            with T.sblock("C_cast"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.Cast("float16", C_acc_local[vi, vj])
