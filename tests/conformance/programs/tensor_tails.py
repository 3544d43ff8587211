"""Tails of tensor cores: tiles of 16 by 16 and 16 by 8 over matrices of 13, 20 and 5."""

from tvm.script import tirx as T


# right: src-size says how many bytes are read, and the rest is zeros
# needs sm_80
# B == np.pad(A, (0, 28))
@T.prim_func(s_tir=True)
def CopiesOf16BytesOfWhichThoseBehindTheEndAreZeros(A: T.Buffer(36), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((64,), "float32", scope="shared.dyn")
    if tx < 16:
        T.ptx["cp.async.cg.shared.global"](
            S.access_ptr("w", offset=tx * 4),
            A.access_ptr("r", offset=T.min(tx * 4, 32)),
            16,
            T.Cast("uint32", T.Select(tx < 9, 16, 0)),
        )
    T.ptx["cp.async.commit_group"]()
    T.ptx["cp.async.wait_group"](0)
    T.tvm_storage_sync("shared")
    B[tx] = S[tx]


# wrong, out of bounds: the last row's terms 20 to 31 lie behind A, whatever B has there
# needs sm_80
# B = whole(100, seed=8)
# D == (A[:13 * 20].reshape(13, 20).astype('f8') @ B[:20 * 5].reshape(20, 5).astype('f8')).ravel()
@T.prim_func(s_tir=True)
def TailOfTermsReadBehindTheEndOfA(
    A: T.Buffer(260, "float16"), B: T.Buffer(100, "float16"), D: T.Buffer(65)
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    a = T.alloc_local((8,), "float16")
    b = T.alloc_local((4,), "float16")
    c = T.alloc_local((4,))
    for i in range(4):
        c[i] = T.float32(0)
    for k in range(2):
        for i in range(8):
            a[i] = T.if_then_else(
                (tx // 4 + i // 2 % 2 * 8) < 13,
                A[(tx // 4 + i // 2 % 2 * 8) * 20 + (k * 16 + tx % 4 * 2 + i % 2 + i // 4 * 8)],
                T.float16(0),
            )
        for i in range(4):
            b[i] = T.if_then_else(
                (k * 16 + tx % 4 * 2 + i % 2 + i // 2 * 8) < 20 and (tx // 4) < 5,
                B[(k * 16 + tx % 4 * 2 + i % 2 + i // 2 * 8) * 5 + (tx // 4)],
                T.float16(0),
            )
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
    for i in range(4):
        if (tx // 4 + i // 2 * 8) < 13 and (tx % 4 * 2 + i % 2) < 5:
            D[(tx // 4 + i // 2 * 8) * 5 + (tx % 4 * 2 + i % 2)] = c[i]


# wrong, wrong numbers: neighbours along k are four, and not two
# needs sm_80
# B = whole(256, seed=8)
# D == (A.reshape(16, 32).astype('i8') @ B.reshape(32, 8).astype('i8')).ravel()
@T.prim_func(s_tir=True)
def MmaOfBytesWhoseFragmentsAreThoseOfHalves(
    A: T.Buffer(512, "int8"), B: T.Buffer(256, "int8"), D: T.Buffer(128, "int32")
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    a = T.alloc_local((16,), "int8")
    b = T.alloc_local((8,), "int8")
    c = T.alloc_local((4,), "int32")
    for i in range(4):
        c[i] = 0
    for i in range(16):
        a[i] = A[(tx // 4 + i // 4 % 2 * 8) * 32 + tx % 4 * 4 + i % 4 + i // 8 * 16]
    for i in range(8):
        b[i] = B[(tx % 4 * 2 + i % 2 + i // 2 * 8) * 8 + tx // 4]
    T.ptx_legacy.mma(
        "m16n8k32",
        "row",
        "col",
        "int8",
        "int8",
        "int32",
        a.data,
        0,
        b.data,
        0,
        c.data,
        0,
        T.bool(False),
    )
    for i in range(4):
        D[(tx // 4 + i // 2 * 8) * 8 + (tx % 4 * 2 + i % 2)] = c[i]
