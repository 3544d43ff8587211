"""ldmatrix and mma: the rows that lanes name, the lanes that hold a fragment, the accumulators."""

from tvm.script import tirx as T


# right: lane t names row t, and each lane gets a pair of each matrix
# needs sm_75
# F == fragments(A)
@T.prim_func(s_tir=True)
def LdmatrixOfFourMatrices(A: T.Buffer(512, "float16"), F: T.Buffer(256, "float16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_shared((512,), "float16")
    f = T.alloc_local((8,), "float16")
    for i in range(16):
        S[i * 32 + tx] = A[i * 32 + tx]
    for i in range(8):
        f[i] = T.float16(0)
    T.tvm_storage_sync("shared")
    if T.bool(True):
        T.ptx_legacy.ldmatrix(
            T.bool(False),
            4,
            ".b16",
            f.data,
            0,
            T.address_of(S[tx * 16]),
            0,
            dtype="float16",
        )
    for i in range(8):
        F[tx * 8 + i] = f[i]


# right: each lane holds its elements of A, B and the sums
# needs sm_80
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@T.prim_func(s_tir=True)
def MmaOfFragmentsAsThePTXTablesHaveThem(
    A: T.Buffer(256, "float16"), B: T.Buffer(128, "float16"), D: T.Buffer(128)
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    a = T.alloc_local((8,), "float16")
    b = T.alloc_local((4,), "float16")
    c = T.alloc_local((4,))
    lane: T.let[T.int32] = tx
    for i in range(4):
        c[i] = T.float32(0)
    for k in range(1):
        for i in range(8):
            a[i] = A[(lane // 4 + i // 2 % 2 * 8) * 16 + k * 16 + lane % 4 * 2 + i % 2 + i // 4 * 8]
        for i in range(4):
            if T.bool(True):
                b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
        if T.bool(True):
            T.ptx_legacy.mma(
                "m16n8k16",
                "row",
                "col",
                "fp16",
                "fp16",
                "fp32",
                a.data,
                0,
                b.data,
                0,
                c.data,
                0,
                T.bool(False),
            )
    if T.bool(True):
        for i in range(4):
            D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]
