# matmul(m=16, n=16, k=32, dtype="float16")
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 32), "float16"), B: T.Buffer((32, 16), "float16"), C: T.Buffer((16, 16), "float32")):
    T.func_attr({"tirx.noalias": True})
    A_shared = T.sblock_alloc_buffer((16, 16), "float16", scope="shared")
    B_shared = T.sblock_alloc_buffer((16, 16), "float16", scope="shared")
    A_local = T.sblock_alloc_buffer((8,), "float16", scope="local")
    B_local = T.sblock_alloc_buffer((8,), "float16", scope="local")
    C_local = T.sblock_alloc_buffer((8,), scope="local")
    for lane in T.thread_binding(32, thread="threadIdx.x"):
        with T.sblock("C"):
            T.reads(A[0:16, 0:32], B[0:32, 0:16])
            T.writes(C[0:16, 0:16])
            for i in range(8):
                C_local[i] = T.float32(0.0)
            for k in range(2):
                for i in range(8):
                    A_shared[lane // 2, lane % 2 * 8 + i] = A[lane // 2, k * 16 + lane % 2 * 8 + i]
                    B_shared[lane // 2, lane % 2 * 8 + i] = B[k * 16 + lane // 2, lane % 2 * 8 + i]
                T.ptx_legacy.ldmatrix("float16", T.bool(False), 4, ".b16", A_local.data, 0, T.tvm_access_ptr(T.type_annotation("float16"), A_shared.data, 0, 256, 1), lane % 16 * 16 + lane // 16 * 8)
                T.ptx_legacy.ldmatrix("float16", T.bool(True), 4, ".b16", B_local.data, 0, T.tvm_access_ptr(T.type_annotation("float16"), B_shared.data, 0, 256, 1), lane % 16 * 16 + lane // 16 * 8)
                for half in T.unroll(2):
                    T.ptx_legacy.mma("m16n8k16", "row", "col", "fp16", "fp16", "fp32", A_local.data, 0, B_local.data, half * 4, C_local.data, half * 4, T.bool(False))
            for i in range(8):
                C[i // 2 % 2 * 8 + lane // 4, i // 4 * 8 + lane % 4 * 2 + i % 2] = C_local[i]
