"""wgmma: whole warpgroups, descriptors, groups in flight, sums, and tails of tiles."""

from tvm.script import tirx as T


# wrong, divergent warp instruction: a warpgroup has four
# needs sm_90a
# B = whole(128, seed=8)
# C == (A.reshape(64, 16).astype('f8') @ B.reshape(8, 16).T.astype('f8')).ravel()
@T.prim_func(s_tir=True)
def WgmmaByThreeWarps(A: T.Buffer(1024, "float16"), B: T.Buffer(128, "float16"), C: T.Buffer(512)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 128)
    S = T.alloc_buffer((1152,), "float16", scope="shared.dyn")
    c = T.alloc_local((4,), "float32")
    d = T.alloc_local((2,), "uint64")
    for i in range(8):
        if T.bool(True):
            S[i * 128 + (tx) // 8 % 2 * 64 + (tx) // 16 * 8 + (tx) % 8] = A[
                (i * 8 + (tx) // 16) * 16 + (tx) // 8 % 2 * 8 + (tx) % 8
            ]
    S[1024 + (tx) // 8 % 2 * 64 + (tx) // 16 * 8 + (tx) % 8] = B[(tx) // 16 * 16 + (tx) % 16]
    for i in range(4):
        c[i] = T.float32(0)
    T.ptx["fence.proxy.async.shared::cta"]()
    T.tvm_storage_sync("shared")
    if tx < 96:
        T.cuda.wgmma.encode_matrix_descriptor(
            T.address_of(d[0]), S.access_ptr("r", offset=0), 8, 16, 0
        )
        T.cuda.wgmma.encode_matrix_descriptor(
            T.address_of(d[1]), S.access_ptr("r", offset=1024), 8, 16, 0
        )
        T.ptx.wgmma.fence.sync.aligned()
        T.ptx["wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"](
            c[0], c[1], c[2], c[3], d[0], d[1], T.bool(True), 1, 1, 0, 0
        )
        T.ptx.wgmma.commit_group.sync.aligned()
        T.ptx.wgmma.wait_group.sync.aligned(0)
    for i in range(4):
        C[((tx) // 32 * 16 + (tx) % 32 // 4 + i // 2 * 8) * 8 + (tx) % 4 * 2 + i % 2] = c[i]


# wrong, race: the other warpgroup may still multiply it
# needs sm_90a
# B = whole(128, seed=8)
# C, D == ((A.reshape(64, 16).astype('f8') @ B.reshape(8, 16).T.astype('f8')).ravel(),
#   (A.reshape(64, 16).astype('f8') @ B.reshape(8, 16).T.astype('f8')).ravel())
@T.prim_func(s_tir=True)
def TileFilledAnewByThreadsThatHaveWaitedWithNoBarrier(
    A: T.Buffer(1024, "float16"), B: T.Buffer(128, "float16"), C: T.Buffer(512), D: T.Buffer(512)
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 256)
    S = T.alloc_buffer((1152,), "float16", scope="shared.dyn")
    c = T.alloc_local((4,), "float32")
    d = T.alloc_local((2,), "uint64")
    if tx < 128:
        for i in range(8):
            if T.bool(True):
                S[i * 128 + (tx) // 8 % 2 * 64 + (tx) // 16 * 8 + (tx) % 8] = A[
                    (i * 8 + (tx) // 16) * 16 + (tx) // 8 % 2 * 8 + (tx) % 8
                ]
        S[1024 + (tx) // 8 % 2 * 64 + (tx) // 16 * 8 + (tx) % 8] = B[(tx) // 16 * 16 + (tx) % 16]
    for i in range(4):
        c[i] = T.float32(0)
    T.ptx["fence.proxy.async.shared::cta"]()
    T.tvm_storage_sync("shared")
    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[0]), S.access_ptr("r", offset=0), 8, 16, 0)
    T.cuda.wgmma.encode_matrix_descriptor(
        T.address_of(d[1]), S.access_ptr("r", offset=1024), 8, 16, 0
    )
    T.ptx.wgmma.fence.sync.aligned()
    T.ptx["wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"](
        c[0], c[1], c[2], c[3], d[0], d[1], T.bool(True), 1, 1, 0, 0
    )
    T.ptx.wgmma.commit_group.sync.aligned()
    T.ptx.wgmma.wait_group.sync.aligned(0)
    if tx < 128:
        for i in range(8):
            S[i * 128 + tx] = T.float16(0)
    if tx < 128:
        for i in range(4):
            C[(tx // 32 * 16 + tx % 32 // 4 + i // 2 * 8) * 8 + tx % 4 * 2 + i % 2] = c[i]
    else:
        for i in range(4):
            D[
                ((tx - 128) // 32 * 16 + (tx - 128) % 32 // 4 + i // 2 * 8) * 8
                + (tx - 128) % 4 * 2
                + i % 2
            ] = c[i]


# wrong, uninitialized read: what was in the registers is added
# needs sm_90a
# B = whole(128, seed=8)
# C == (A.reshape(64, 16).astype('f8') @ B.reshape(8, 16).T.astype('f8')).ravel()
@T.prim_func(s_tir=True)
def WgmmaThatAddsToSumsThatNobodyCleared(
    A: T.Buffer(1024, "float16"), B: T.Buffer(128, "float16"), C: T.Buffer(512)
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 128)
    S = T.alloc_buffer((1152,), "float16", scope="shared.dyn")
    c = T.alloc_local((4,), "float32")
    d = T.alloc_local((2,), "uint64")
    for i in range(8):
        if T.bool(True):
            S[i * 128 + (tx) // 8 % 2 * 64 + (tx) // 16 * 8 + (tx) % 8] = A[
                (i * 8 + (tx) // 16) * 16 + (tx) // 8 % 2 * 8 + (tx) % 8
            ]
    S[1024 + (tx) // 8 % 2 * 64 + (tx) // 16 * 8 + (tx) % 8] = B[(tx) // 16 * 16 + (tx) % 16]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.tvm_storage_sync("shared")
    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[0]), S.access_ptr("r", offset=0), 8, 16, 0)
    T.cuda.wgmma.encode_matrix_descriptor(
        T.address_of(d[1]), S.access_ptr("r", offset=1024), 8, 16, 0
    )
    T.ptx.wgmma.fence.sync.aligned()
    T.ptx["wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"](
        c[0], c[1], c[2], c[3], d[0], d[1], T.bool(True), 1, 1, 0, 0
    )
    T.ptx.wgmma.commit_group.sync.aligned()
    T.ptx.wgmma.wait_group.sync.aligned(0)
    for i in range(4):
        C[((tx) // 32 * 16 + (tx) % 32 // 4 + i // 2 * 8) * 8 + (tx) % 4 * 2 + i % 2] = c[i]
