"""Blackwell's tensor cores, in the forms of TVM's own tests of TIRx: sums in tensor memory."""

from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx


# right: tiles come by the TMA, one thread multiplies and commits, all warps load their lanes
# needs sm_100a
# A = (whole(8192, low=-9) % 8).astype("float16")
# C = (whole(2048, low=-9, seed=8) % 8).astype("float16")
# B == (A.astype("float32").reshape(128, 64) @ C.astype("float32").reshape(32, 64).T).ravel()
@T.prim_func
def ProductInTensorMemory(
    A: T.Buffer(8192, "float16"), C: T.Buffer(2048, "float16"), B: T.Buffer(4096)
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    tx = T.thread_id([128])
    pool = T.SMEMPool()
    S = pool.alloc_tcgen05_mma_AB((128, 64), "float16")
    Q = pool.alloc_tcgen05_mma_AB((32, 64), "float16")
    M = pool.alloc((2,), "uint64")
    place = pool.alloc((1,), "uint32")
    pool.commit()
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    r = T.alloc_local((32,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[1]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    T.cuda.cta_sync()
    if tx == 0:
        Tx.copy_async(
            S[0:128, 0:64], A.view(128, 64)[0:128, 0:64], dispatch="tma_auto", mbar=M.ptr_to([0])
        )
        Tx.copy_async(
            Q[0:32, 0:64], C.view(32, 64)[0:32, 0:64], dispatch="tma_auto", mbar=M.ptr_to([0])
        )
        T.ptx["mbarrier.arrive.expect_tx.shared::cta.b64"](T.address_of(M[0]), T.uint32(20480))
        T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
        T.cuda.tcgen05.encode_instr_descriptor(
            d.data,
            d_dtype="float32",
            a_dtype="float16",
            b_dtype="float16",
            M=128,
            N=32,
            K=16,
            trans_a=False,
            trans_b=False,
        )
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, S.ptr_to([0, 0]), ldo=1, sdo=64, swizzle=3)
        T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0, 0]), ldo=1, sdo=64, swizzle=3)
        for k in T.unroll(4):
            T.ptx["tcgen05.mma.cta_group::1.kind::f16"](
                place[0],
                a[0] + T.uint64(k * 2),
                c[0] + T.uint64(k * 2),
                d[0],
                *[0, 0, 0, 0],
                T.ptx.pred(T.uint32(k > 0)),
            )
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[1])
        )
    T.cuda.mbarrier_wait(T.address_of(M[1]), 0)
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x32.b32"](
        *[r[i] for i in range(32)], T.cuda.get_tmem_addr(place[0], warp * 32, 0)
    )
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(32))
    for i in range(32):
        B[tx * 32 + i] = r[i]


# right: all threads store the tiles in chunks of 8 × 16 bytes, and their fences stand before it
# needs sm_100a
# A = (whole(4096, low=-9) % 8).astype("float16")
# C = (whole(1024, low=-9, seed=8) % 8).astype("float16")
# B == (A.astype("float32").reshape(64, 64) @ C.astype("float32").reshape(16, 64).T).ravel()
@T.prim_func
def ProductOfTilesThatThreadsStore(
    A: T.Buffer(4096, "float16"), C: T.Buffer(1024, "float16"), B: T.Buffer(1024)
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    tx = T.thread_id([128])
    S = T.alloc_shared((4096,), "float16")
    Q = T.alloc_shared((1024,), "float16")
    M = T.alloc_shared((1,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    r = T.alloc_local((8,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    for i in range(32):
        S[(i % 8 * 64 + i // 8 * 16 + tx // 8) * 8 + tx % 8] = A[
            (i // 8 * 16 + tx // 8) * 64 + i % 8 * 8 + tx % 8
        ]
    for i in range(8):
        Q[(i * 16 + tx // 8) * 8 + tx % 8] = C[tx // 8 * 64 + i * 8 + tx % 8]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    if tx == 0:
        T.cuda.tcgen05.encode_instr_descriptor(
            d.data,
            d_dtype="float32",
            a_dtype="float16",
            b_dtype="float16",
            M=64,
            N=16,
            K=16,
            trans_a=False,
            trans_b=False,
        )
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, S.ptr_to([0]), ldo=64, sdo=8, swizzle=0)
        T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0]), ldo=16, sdo=8, swizzle=0)
        for k in T.unroll(4):
            T.ptx["tcgen05.mma.cta_group::1.kind::f16"](
                place[0],
                a[0] + T.uint64(k * 128),
                c[0] + T.uint64(k * 32),
                d[0],
                *[0, 0, 0, 0],
                T.ptx.pred(T.uint32(k > 0)),
            )
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[0])
        )
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.ptx["tcgen05.ld.sync.aligned.16x256b.x2.b32"](*[r[i] for i in range(8)], place[0])
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(32))
    for i in range(8):
        B[(warp * 16 + lane // 4 + i // 2 % 2 * 8) * 16 + i // 4 * 8 + lane % 4 * 2 + i % 2] = r[i]


# right: A comes by cp.async, and whoever copied waits, fences, and meets the others
# needs sm_100a
# A = (whole(4096, low=-9) % 8).astype("float8_e4m3fn")
# C = (whole(512, low=-9, seed=8) % 8).astype("float8_e5m2")
# B == (A.astype("float32").reshape(128, 32) @ C.astype("float32").reshape(16, 32).T).ravel()
@T.prim_func
def ProductOfEightBits(
    A: T.Buffer(4096, "float8_e4m3fn"), C: T.Buffer(512, "float8_e5m2"), B: T.Buffer(2048)
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    tx = T.thread_id([128])
    S = T.alloc_shared((4096,), "float8_e4m3fn")
    Q = T.alloc_shared((512,), "float8_e5m2")
    M = T.alloc_shared((1,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    r = T.alloc_local((16,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    for i in range(2):
        T.ptx["cp.async.cg.shared.global"](
            T.address_of(S[i * 2048 + tx * 16]), T.address_of(A[tx * 32 + i * 16]), 16
        )
    if tx < 32:
        T.ptx["cp.async.cg.shared.global"](
            T.address_of(Q[tx % 2 * 256 + tx // 2 * 16]), T.address_of(C[tx * 16]), 16
        )
    T.ptx["cp.async.commit_group"]()
    T.ptx["cp.async.wait_group"](0)
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    if tx == 0:
        T.cuda.tcgen05.encode_instr_descriptor(
            d.data,
            d_dtype="float32",
            a_dtype="float8_e4m3fn",
            b_dtype="float8_e5m2",
            M=128,
            N=16,
            K=32,
            trans_a=False,
            trans_b=False,
        )
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, S.ptr_to([0]), ldo=128, sdo=8, swizzle=0)
        T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0]), ldo=16, sdo=8, swizzle=0)
        T.ptx["tcgen05.mma.cta_group::1.kind::f8f6f4"](
            place[0], a[0], c[0], d[0], *[0, 0, 0, 0], T.ptx.pred(T.uint32(0))
        )
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[0])
        )
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    for j in T.unroll(2):
        T.ptx["tcgen05.ld.sync.aligned.32x32b.x8.b32"](
            *[r[j * 8 + i] for i in range(8)], place[0] + T.uint32(j * 8)
        )
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(32))
    for i in range(16):
        B[tx * 16 + i] = r[i]


# right: of rows of 32 bytes, whose halves are exchanged in every other four rows
# needs sm_100a
# A = whole(1024, low=-9) % 8
# C = whole(128, low=-9, seed=8) % 8
# B == (A.astype("float32").reshape(128, 8) @ C.astype("float32").reshape(16, 8).T).ravel()
@T.prim_func
def ProductOfTf32(A: T.Buffer(1024), C: T.Buffer(128), B: T.Buffer(2048)):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    tx = T.thread_id([128])
    S = T.alloc_shared((1024,), "float32")
    Q = T.alloc_shared((128,), "float32")
    M = T.alloc_shared((1,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    r = T.alloc_local((16,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    for i in range(8):
        S[tx * 8 + T.bitwise_xor(i // 4, tx // 4 % 2) * 4 + i % 4] = A[tx * 8 + i]
    Q[tx // 8 * 8 + T.bitwise_xor(tx % 8 // 4, tx // 32 % 2) * 4 + tx % 4] = C[tx]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    if tx == 0:
        T.cuda.tcgen05.encode_instr_descriptor(
            d.data,
            d_dtype="float32",
            a_dtype="tf32",
            b_dtype="tf32",
            M=128,
            N=16,
            K=8,
            trans_a=False,
            trans_b=False,
        )
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, S.ptr_to([0]), ldo=1, sdo=16, swizzle=1)
        T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0]), ldo=1, sdo=16, swizzle=1)
        T.ptx["tcgen05.mma.cta_group::1.kind::tf32"](
            place[0], a[0], c[0], d[0], *[0, 0, 0, 0], T.ptx.pred(T.uint32(0))
        )
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[0])
        )
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x16.b32"](*[r[i] for i in range(16)], place[0])
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(32))
    for i in range(16):
        B[tx * 16 + i] = r[i]


# right: B lies in rows of 64 bytes across k, whose four chunks are exchanged by pairs of rows
# needs sm_100a
# A = whole(4096, low=-9) % 90
# C = whole(2048, low=-9, seed=8) % 90
# B == (A.astype("int32").reshape(128, 32) @ C.astype("int32").reshape(32, 64)).ravel()
@T.prim_func
def ProductOfIntegersAcrossK(
    A: T.Buffer(4096, "int8"), C: T.Buffer(2048, "int8"), B: T.Buffer(8192, "int32")
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    tx = T.thread_id([128])
    S = T.alloc_shared((4096,), "int8")
    Q = T.alloc_shared((2048,), "int8")
    M = T.alloc_shared((1,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    r = T.alloc_local((64,), "int32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(64)
        )
    for i in range(32):
        S[i // 16 * 2048 + tx * 16 + i % 16] = A[tx * 32 + i]
    for i in range(16):
        Q[tx // 4 * 64 + T.bitwise_xor(tx % 4, tx // 8 % 4) * 16 + i] = C[tx * 16 + i]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    if tx == 0:
        T.cuda.tcgen05.encode_instr_descriptor(
            d.data,
            d_dtype="int32",
            a_dtype="int8",
            b_dtype="int8",
            M=128,
            N=64,
            K=32,
            trans_a=False,
            trans_b=True,
        )
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, S.ptr_to([0]), ldo=128, sdo=8, swizzle=0)
        T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0]), ldo=1, sdo=32, swizzle=2)
        T.ptx["tcgen05.mma.cta_group::1.kind::i8"](
            place[0], a[0], c[0], d[0], *[0, 0, 0, 0], T.ptx.pred(T.uint32(0))
        )
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[0])
        )
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x64.b32"](*[r[i] for i in range(64)], place[0])
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(64))
    for i in range(64):
        B[tx * 64 + i] = r[i]


# right: A lies in tensor memory, where all warps have stored it and waited before they meet
# needs sm_100a
# A = (whole(2048, low=-9) % 8).astype("float16").view("uint32")
# C = (whole(256, low=-9, seed=8) % 8).astype("float16")
# B == (A.view("float16").astype("float32").reshape(128, 16)
#   @ C.astype("float32").reshape(16, 16).T).ravel()
@T.prim_func
def ProductOfAInTensorMemory(
    A: T.Buffer(1024, "uint32"), C: T.Buffer(256, "float16"), B: T.Buffer(2048)
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    tx = T.thread_id([128])
    Q = T.alloc_shared((256,), "float16")
    M = T.alloc_shared((1,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    w = T.alloc_local((8,), "uint32")
    r = T.alloc_local((16,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    for i in range(2):
        Q[tx % 16 // 8 * 128 + (i * 8 + tx // 16) * 8 + tx % 8] = C[i * 128 + tx]
    for i in range(8):
        w[i] = A[tx * 8 + i]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    T.ptx["tcgen05.st.sync.aligned.32x32b.x8.b32"](
        place[0] + T.uint32(16), *[w[i] for i in range(8)]
    )
    T.ptx["tcgen05.wait::st.sync.aligned"]()
    T.ptx.bar.sync(T.uint32(0))
    if tx == 0:
        T.cuda.tcgen05.encode_instr_descriptor(
            d.data,
            d_dtype="float32",
            a_dtype="float16",
            b_dtype="float16",
            M=128,
            N=16,
            K=16,
            trans_a=False,
            trans_b=False,
        )
        T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0]), ldo=16, sdo=8, swizzle=0)
        T.ptx["tcgen05.mma.cta_group::1.kind::f16"](
            place[0],
            place[0] + T.uint32(16),
            c[0],
            d[0],
            *[0, 0, 0, 0],
            T.ptx.pred(T.uint32(0)),
        )
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[0])
        )
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x16.b32"](*[r[i] for i in range(16)], place[0])
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(32))
    for i in range(16):
        B[tx * 16 + i] = r[i]


# right: a pair of blocks, each with half of A, of B and of the sums; one commit tells both
# needs sm_100a
# A = (whole(4096, low=-9) % 8).astype("float16")
# C = (whole(512, low=-9, seed=8) % 8).astype("float16")
# B == (A.astype("float32").reshape(256, 16) @ C.astype("float32").reshape(32, 16).T).ravel()
@T.prim_func
def ProductOfAPairOfBlocks(
    A: T.Buffer(4096, "float16"), C: T.Buffer(512, "float16"), B: T.Buffer(8192)
):
    T.device_entry()
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    warp = T.warp_id([4])
    tx = T.thread_id([128])
    S = T.alloc_shared((2048,), "float16")
    Q = T.alloc_shared((256,), "float16")
    M = T.alloc_shared((1,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    r = T.alloc_local((32,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    for i in range(16):
        S[i // 8 * 1024 + tx * 8 + i % 8] = A[rank * 2048 + tx * 16 + i]
    for i in range(2):
        Q[tx % 16 // 8 * 128 + (i * 8 + tx // 16) * 8 + tx % 8] = C[rank * 256 + i * 128 + tx]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cluster_sync()
    if rank == 0:
        if tx == 0:
            T.cuda.tcgen05.encode_instr_descriptor(
                d.data,
                d_dtype="float32",
                a_dtype="float16",
                b_dtype="float16",
                M=256,
                N=32,
                K=16,
                trans_a=False,
                trans_b=False,
                n_cta_groups=2,
            )
            T.cuda.tcgen05.encode_matrix_descriptor(
                a.data, S.ptr_to([0]), ldo=128, sdo=8, swizzle=0
            )
            T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0]), ldo=16, sdo=8, swizzle=0)
            T.ptx["tcgen05.mma.cta_group::2.kind::f16"](
                place[0], a[0], c[0], d[0], *[0, 0, 0, 0, 0, 0, 0, 0], T.ptx.pred(T.uint32(0))
            )
            T.ptx[
                "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
                ".multicast::cluster.b64"
            ](T.address_of(M[0]), T.uint16(3))
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x32.b32"](*[r[i] for i in range(32)], place[0])
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cluster_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::2.sync.aligned.b32"](place[0], T.uint32(32))
    for i in range(32):
        B[(rank * 128 + tx) * 32 + i] = r[i]


# right: warps have roles: one copies, one multiplies, and four store, by two stages
# needs sm_100a
# A = (whole(32768, low=-9) % 8).astype("float16")
# C = (whole(4096, low=-9, seed=8) % 8).astype("float16")
# B == (A.astype("float32").reshape(128, 256) @ C.astype("float32").reshape(16, 256).T).ravel()
@T.prim_func
def PipelineOfTwoStages(
    A: T.Buffer(32768, "float16"), C: T.Buffer(4096, "float16"), B: T.Buffer(2048)
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([6])
    lane = T.lane_id([32])
    tx = T.thread_id([192])
    pool = T.SMEMPool()
    S = pool.alloc_tcgen05_mma_AB((2, 128, 64), "float16")
    Q = pool.alloc_tcgen05_mma_AB((2, 16, 64), "float16")
    M = pool.alloc((5,), "uint64")
    place = pool.alloc((1,), "uint32")
    pool.commit()
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    r = T.alloc_local((16,), "float32")
    if tx == 0:
        for i in range(5):
            T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[i]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    T.cuda.cta_sync()
    if warp == 4:
        if lane == 0:
            for k in range(4):
                T.cuda.mbarrier_wait(T.address_of(M[2 + k % 2]), 1 - k // 2)
                Tx.copy_async(
                    S[k % 2, 0:128, 0:64],
                    A.view(128, 256)[0:128, k * 64 : k * 64 + 64],
                    dispatch="tma_auto",
                    mbar=M.ptr_to([k % 2]),
                )
                Tx.copy_async(
                    Q[k % 2, 0:16, 0:64],
                    C.view(16, 256)[0:16, k * 64 : k * 64 + 64],
                    dispatch="tma_auto",
                    mbar=M.ptr_to([k % 2]),
                )
                T.ptx["mbarrier.arrive.expect_tx.shared::cta.b64"](
                    T.address_of(M[k % 2]), T.uint32(18432)
                )
    if warp == 5:
        if lane == 0:
            T.cuda.tcgen05.encode_instr_descriptor(
                d.data,
                d_dtype="float32",
                a_dtype="float16",
                b_dtype="float16",
                M=128,
                N=16,
                K=16,
                trans_a=False,
                trans_b=False,
            )
            for k in range(4):
                T.cuda.mbarrier_wait(T.address_of(M[k % 2]), k // 2)
                T.cuda.tcgen05.encode_matrix_descriptor(
                    a.data, S.ptr_to([k % 2, 0, 0]), ldo=1, sdo=64, swizzle=3
                )
                T.cuda.tcgen05.encode_matrix_descriptor(
                    c.data, Q.ptr_to([k % 2, 0, 0]), ldo=1, sdo=64, swizzle=3
                )
                for i in T.unroll(4):
                    T.ptx["tcgen05.mma.cta_group::1.kind::f16"](
                        place[0],
                        a[0] + T.uint64(i * 2),
                        c[0] + T.uint64(i * 2),
                        d[0],
                        *[0, 0, 0, 0],
                        T.ptx.pred(T.Cast("uint32", k * 4 + i > 0)),
                    )
                T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
                    T.address_of(M[2 + k % 2])
                )
            T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
                T.address_of(M[4])
            )
    if warp < 4:
        T.cuda.mbarrier_wait(T.address_of(M[4]), 0)
        T.ptx["tcgen05.ld.sync.aligned.32x32b.x16.b32"](*[r[i] for i in range(16)], place[0])
        T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(32))
    if warp < 4:
        for i in range(16):
            B[tx * 16 + i] = r[i]


# right: relaxed mbarriers order tensor memory alone, and that between fences of both sides
# needs sm_100a
# A = (whole(2048, low=-9) % 8).astype("float16")
# C = (whole(512, low=-9, seed=8) % 8).astype("float16")
# B == np.concatenate([(A.astype("float32").reshape(128, 16)
#   @ c.astype("float32").reshape(16, 16).T).ravel() for c in (C[:256], C[256:])])
@T.prim_func
def SumsReusedBetweenFences(
    A: T.Buffer(2048, "float16"), C: T.Buffer(512, "float16"), B: T.Buffer(4096)
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([5])
    lane = T.lane_id([32])
    tx = T.thread_id([160])
    S = T.alloc_shared((2048,), "float16")
    Q = T.alloc_shared((512,), "float16")
    M = T.alloc_shared((2,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    over = T.alloc_local((1,), "uint32")
    r = T.alloc_local((16,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[1]), T.uint32(128))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    if tx < 128:
        for i in range(16):
            S[i // 8 * 1024 + tx * 8 + i % 8] = A[tx * 16 + i]
        for i in range(4):
            Q[i // 2 * 256 + tx % 16 // 8 * 128 + (i % 2 * 8 + tx // 16) * 8 + tx % 8] = C[
                i * 128 + tx
            ]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    if warp == 4:
        if lane == 0:
            T.cuda.tcgen05.encode_instr_descriptor(
                d.data,
                d_dtype="float32",
                a_dtype="float16",
                b_dtype="float16",
                M=128,
                N=16,
                K=16,
                trans_a=False,
                trans_b=False,
            )
            T.cuda.tcgen05.encode_matrix_descriptor(
                a.data, S.ptr_to([0]), ldo=128, sdo=8, swizzle=0
            )
            for k in range(2):
                if k == 1:
                    over[0] = T.uint32(0)
                    while over[0] == T.uint32(0):
                        T.ptx["mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64"](
                            over[0], T.address_of(M[1]), T.uint32(0)
                        )
                    T.ptx["tcgen05.fence::after_thread_sync"]()
                T.cuda.tcgen05.encode_matrix_descriptor(
                    c.data, Q.ptr_to([k * 256]), ldo=16, sdo=8, swizzle=0
                )
                T.ptx["tcgen05.mma.cta_group::1.kind::f16"](
                    place[0], a[0], c[0], d[0], *[0, 0, 0, 0], T.ptx.pred(T.uint32(0))
                )
                T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
                    T.address_of(M[0])
                )
    if warp < 4:
        for k in range(2):
            over[0] = T.uint32(0)
            while over[0] == T.uint32(0):
                T.ptx["mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64"](
                    over[0], T.address_of(M[0]), T.Cast("uint32", k)
                )
            T.ptx["tcgen05.fence::after_thread_sync"]()
            T.ptx["tcgen05.ld.sync.aligned.32x32b.x16.b32"](*[r[i] for i in range(16)], place[0])
            T.ptx["tcgen05.wait::ld.sync.aligned"]()
            if k == 0:
                T.ptx["tcgen05.fence::before_thread_sync"]()
                T.ptx["mbarrier.arrive.relaxed.cta.shared::cta.b64"](
                    T.address_of(M[1]), T.uint32(1)
                )
            for i in range(16):
                B[k * 2048 + tx * 16 + i] = r[i]
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(32))


# right: tiles of 256 bits come by tcgen05.cp, and go by loads of 16 lanes in three shapes
# needs sm_100a
# A = whole(1024)
# B == A
@T.prim_func
def TileCopiedToTensorMemory(A: T.Buffer(1024), B: T.Buffer(1024)):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    tx = T.thread_id([128])
    S = T.alloc_shared((1024,), "float32")
    M = T.alloc_shared((1,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    r = T.alloc_local((8,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(64)
        )
    for i in range(8):
        S[i // 4 * 512 + tx * 4 + i % 4] = A[tx * 8 + i]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    if tx == 0:
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, S.ptr_to([0]), ldo=128, sdo=8, swizzle=0)
        T.ptx["tcgen05.cp.cta_group::1.128x256b"](place[0] + T.uint32(40), a[0])
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[0])
        )
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.ptx["tcgen05.ld.sync.aligned.16x64b.x2.b32"](
        r[0], r[1], T.cuda.get_tmem_addr(place[0], warp * 32, 40)
    )
    T.ptx["tcgen05.ld.sync.aligned.16x128b.x1.b32"](r[2], r[3], place[0] + T.uint32(44))
    T.ptx["tcgen05.ld.sync.aligned.16x256b.x1.b32"](
        r[4], r[5], r[6], r[7], T.cuda.get_tmem_addr(place[0], 16, 40)
    )
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(64))
    for i in range(2):
        B[(warp * 32 + lane // 4 + lane % 2 * 8) * 8 + i * 2 + lane % 4 // 2] = r[i]
        B[(warp * 32 + lane // 4 + i * 8) * 8 + 4 + lane % 4] = r[2 + i]
    for i in range(4):
        B[(warp * 32 + 16 + lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = r[4 + i]


# right: rows have a factor for each 32 elements, which one warp copies and another multiplies by
# needs sm_100a
# A = (whole(4096, low=-9) % 8).astype("float8_e4m3fn")
# C = (whole(1024, low=-9, seed=8) % 8).astype("float8_e4m3fn")
# F = whole(512, seed=9) % 4 + 126
# B == ((A.astype("float64").reshape(128, 32) * 2.0 ** (F.reshape(32, 4, 4)[:, :, 1].T.reshape(128,
#   1) - 127.0)) @ (C.astype("float64").reshape(32, 32) * 2.0 ** (F.reshape(32, 16)[:, 1:2]
#   - 127.0)).T).ravel()
@T.prim_func
def ProductOfScaledRows(
    A: T.Buffer(4096, "float8_e4m3fn"),
    C: T.Buffer(1024, "float8_e4m3fn"),
    F: T.Buffer(512, "uint8"),
    B: T.Buffer(4096),
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    tx = T.thread_id([128])
    S = T.alloc_shared((4096,), "float8_e4m3fn")
    Q = T.alloc_shared((1024,), "float8_e4m3fn")
    V = T.alloc_shared((512,), "uint8")
    M = T.alloc_shared((2,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    over = T.alloc_local((1,), "uint32")
    r = T.alloc_local((32,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[1]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(64)
        )
    for i in range(32):
        S[i // 16 * 2048 + tx * 16 + i % 16] = A[tx * 32 + i]
    for i in range(8):
        Q[tx % 4 // 2 * 512 + tx // 4 * 16 + tx % 2 * 8 + i] = C[tx * 8 + i]
    for i in range(4):
        V[tx * 4 + i] = F[tx * 4 + i]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    if tx == 0:
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, V.ptr_to([0]), ldo=1, sdo=8, swizzle=0)
        T.ptx["tcgen05.cp.cta_group::1.32x128b.warpx4"](place[0] + T.uint32(32), a[0])
        T.ptx["tcgen05.fence::before_thread_sync"]()
        T.ptx["mbarrier.arrive.shared::cta.b64"](T.address_of(M[1]), T.uint32(1))
    if tx == 32:
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, S.ptr_to([0]), ldo=128, sdo=8, swizzle=0)
        T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0]), ldo=32, sdo=8, swizzle=0)
        T.cuda.tcgen05.encode_instr_descriptor_block_scaled(
            d.data,
            d_dtype="float32",
            a_dtype="float8_e4m3fn",
            b_dtype="float8_e4m3fn",
            sfa_dtype="float8_e8m0fnu",
            sfb_dtype="float8_e8m0fnu",
            sfa_tmem_addr=0,
            sfb_tmem_addr=0,
            M=128,
            N=32,
            K=32,
            trans_a=False,
            trans_b=False,
        )
        T.cuda.runtime_instr_desc(T.address_of(d[0]), T.uint32(1))
        T.cuda.mbarrier_wait(T.address_of(M[1]), 0)
        T.ptx["tcgen05.fence::after_thread_sync"]()
        T.ptx["tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X"](
            place[0],
            a[0],
            c[0],
            d[0],
            place[0] + T.uint32(32),
            place[0] + T.uint32(32),
            T.ptx.pred(T.uint32(0)),
        )
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[0])
        )
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x32.b32"](*[r[i] for i in range(32)], place[0])
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(64))
    for i in range(32):
        B[tx * 32 + i] = r[i]


# right: the product, its sums and their fragments as TVM's tile primitives
# needs sm_100a
# A = (whole(8192, low=-9) % 8).astype("float16")
# C = (whole(4096, low=-9, seed=8) % 8).astype("float16")
# B == (A.astype("float32").reshape(128, 64) @ C.astype("float32").reshape(64, 64).T).ravel()
@T.prim_func
def ProductByTilePrimitives(
    A: T.Buffer(8192, "float16"), C: T.Buffer(4096, "float16"), B: T.Buffer(8192)
):
    T.device_entry()
    T.cta_id([1])
    wg = T.warpgroup_id([1])
    warp = T.warp_id([4])
    tx = T.thread_id_in_wg([128])
    pool = T.SMEMPool()
    S = pool.alloc_tcgen05_mma_AB((128, 64), "float16")
    Q = pool.alloc_tcgen05_mma_AB((64, 64), "float16")
    M = pool.alloc((2,), "uint64")
    tmem = T.TMEMPool(pool, total_cols=64)
    D = tmem.alloc((128, 64), "float32")
    tmem.commit()
    pool.commit()
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[1]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
    T.cuda.cta_sync()
    if tx == 0:
        Tx.copy_async(
            S[0:128, 0:64], A.view(128, 64)[0:128, 0:64], dispatch="tma_auto", mbar=M.ptr_to([0])
        )
        Tx.copy_async(
            Q[0:64, 0:64], C.view(64, 64)[0:64, 0:64], dispatch="tma_auto", mbar=M.ptr_to([0])
        )
        T.ptx["mbarrier.arrive.expect_tx.shared::cta.b64"](T.address_of(M[0]), T.uint32(24576))
        T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
        Tx.gemm_async(D[0:128, 0:64], S[0:128, 0:64], Q[0:64, 0:64], dispatch="tcgen05")
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[1])
        )
    T.cuda.mbarrier_wait(T.address_of(M[1]), 0)
    R = T.alloc_tcgen05_ldst_frag("32x32b", (128, 64), "float32")
    if wg == 0:
        Tx.wg.copy_async(R[0:128, 0:64], D[0:128, 0:64])
        T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    tmem.dealloc()
    if wg == 0:
        Tx.wg.copy(B.view(128, 64)[0:128, 0:64], R[0:128, 0:64])


# right: of elements of four bits, two in a byte, whose rows have a factor for each 16
# needs sm_100a
# A = whole(4096, low=0, seed=3)
# C = whole(512, low=0, seed=4)
# F = (whole(512, seed=9) % 3 + 1).astype("float8_e4m3fn")
# B == ((np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])[
#   np.stack([A & 15, A >> 4], -1).reshape(128, 64)] / 2 * F.astype("float64").reshape(32, 4, 4
#   ).transpose(1, 0, 2).reshape(128, 4).repeat(16, 1)) @ (np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1,
#   -2, -3, -4, -6, -8, -12])[np.stack([C & 15, C >> 4], -1).reshape(16, 64)] / 2
#   * F.astype("float64").reshape(32, 16)[:16, :4].repeat(16, 1)).T).ravel()
@T.prim_func
def ProductOfFourBits(
    A: T.Buffer(4096, "uint8"),
    C: T.Buffer(512, "uint8"),
    F: T.Buffer(512, "float8_e4m3fn"),
    B: T.Buffer(2048),
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    tx = T.thread_id([128])
    S = T.alloc_shared((4096,), "uint8")
    Q = T.alloc_shared((512,), "uint8")
    V = T.alloc_shared((512,), "float8_e4m3fn")
    M = T.alloc_shared((1,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    v = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    r = T.alloc_local((16,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    for i in range(32):
        S[i // 16 * 2048 + tx * 16 + i % 16] = A[tx * 32 + i]
    for i in range(4):
        Q[tx % 8 // 4 * 256 + tx // 8 * 16 + tx % 4 * 4 + i] = C[tx * 4 + i]
        V[tx * 4 + i] = F[tx * 4 + i]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    if tx == 0:
        T.cuda.tcgen05.encode_matrix_descriptor(v.data, V.ptr_to([0]), ldo=1, sdo=8, swizzle=0)
        T.ptx["tcgen05.cp.cta_group::1.32x128b.warpx4"](place[0] + T.uint32(16), v[0])
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, S.ptr_to([0]), ldo=128, sdo=8, swizzle=0)
        T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0]), ldo=16, sdo=8, swizzle=0)
        T.cuda.tcgen05.encode_instr_descriptor_block_scaled(
            d.data,
            d_dtype="float32",
            a_dtype="float4_e2m1fn",
            b_dtype="float4_e2m1fn",
            sfa_dtype="float8_e4m3fn",
            sfb_dtype="float8_e4m3fn",
            sfa_tmem_addr=0,
            sfb_tmem_addr=0,
            M=128,
            N=16,
            K=64,
            trans_a=False,
            trans_b=False,
        )
        T.ptx["tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X"](
            place[0],
            a[0],
            c[0],
            d[0],
            place[0] + T.uint32(16),
            place[0] + T.uint32(16),
            T.ptx.pred(T.uint32(0)),
        )
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[0])
        )
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x16.b32"](*[r[i] for i in range(16)], place[0])
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(32))
    for i in range(16):
        B[tx * 16 + i] = r[i]


# right: 64 rows with stationary weights, whose columns lie in two halves of the lanes
# needs sm_100a
# A = (whole(1024, low=-9) % 8).astype("float16")
# C = (whole(1024, low=-9, seed=8) % 8).astype("float16")
# B == (A.astype("float32").reshape(64, 16) @ C.astype("float32").reshape(64, 16).T).ravel()
@T.prim_func
def ProductOfStationaryWeights(
    A: T.Buffer(1024, "float16"), C: T.Buffer(1024, "float16"), B: T.Buffer(4096)
):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    tx = T.thread_id([128])
    S = T.alloc_shared((1024,), "float16")
    Q = T.alloc_shared((1024,), "float16")
    M = T.alloc_shared((1,), "uint64")
    place = T.alloc_shared((1,), "uint32")
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((1,), "uint32")
    r = T.alloc_local((32,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(32)
        )
    for i in range(8):
        S[tx % 2 * 512 + tx // 2 * 8 + i] = A[tx * 8 + i]
        Q[tx % 2 * 512 + tx // 2 * 8 + i] = C[tx * 8 + i]
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    if tx == 0:
        T.cuda.tcgen05.encode_instr_descriptor(
            d.data,
            d_dtype="float32",
            a_dtype="float16",
            b_dtype="float16",
            M=64,
            N=64,
            K=16,
            trans_a=False,
            trans_b=False,
        )
        T.cuda.tcgen05.encode_matrix_descriptor(a.data, S.ptr_to([0]), ldo=64, sdo=8, swizzle=0)
        T.cuda.tcgen05.encode_matrix_descriptor(c.data, Q.ptr_to([0]), ldo=64, sdo=8, swizzle=0)
        T.ptx["tcgen05.mma.ws.cta_group::1.kind::f16"](
            place[0], a[0], c[0], d[0], T.ptx.pred(T.uint32(0)), T.uint64(0)
        )
        T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            T.address_of(M[0])
        )
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x32.b32"](*[r[i] for i in range(32)], place[0])
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(32))
    for i in range(32):
        B[tx % 64 * 64 + tx // 64 * 32 + i] = r[i]


# right: columns are given back and allocated again, and what is stored is waited for
# needs sm_100a
# A = whole(1024)
# B == A
@T.prim_func
def ColumnsAllocatedAgain(A: T.Buffer(1024), B: T.Buffer(1024)):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    tx = T.thread_id([128])
    place = T.alloc_shared((3,), "uint32")
    r = T.alloc_local((4,), "float32")
    w = T.alloc_local((4,), "float32")
    if warp == 0:
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[0]), T.uint32(256)
        )
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[1]), T.uint32(128)
        )
    T.cuda.cta_sync()
    for i in range(4):
        r[i] = A[tx * 4 + i]
    T.ptx["tcgen05.st.sync.aligned.32x32b.x4.b32"](place[0] + T.uint32(252), r[0], r[1], r[2], r[3])
    T.ptx["tcgen05.wait::st.sync.aligned"]()
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x4.b32"](w[0], w[1], w[2], w[3], place[0] + T.uint32(252))
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[0], T.uint32(256))
        T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](
            T.address_of(place[2]), T.uint32(256)
        )
        T.ptx["tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned"]()
    T.cuda.cta_sync()
    for i in range(4):
        B[tx * 4 + i] = w[i]
    for i in range(2):
        r[i] = A[512 + (warp * 16 + lane % 16) * 8 + lane // 16 * 4 + i * 2]
        r[2 + i] = A[512 + (warp * 16 + lane % 16) * 8 + lane // 16 * 4 + i * 2 + 1]
    T.ptx["tcgen05.st.sync.aligned.16x32bx2.x4.b32"](
        place[2] + T.uint32(8), 4, r[0], r[2], r[1], r[3]
    )
    T.ptx["tcgen05.wait::st.sync.aligned"]()
    T.ptx["tcgen05.ld.sync.aligned.16x128b.x2.b32"](w[0], w[1], w[2], w[3], place[2] + T.uint32(8))
    T.ptx["tcgen05.wait::ld.sync.aligned"]()
    T.cuda.cta_sync()
    if warp == 0:
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[1], T.uint32(128))
        T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](place[2], T.uint32(256))
    for i in range(4):
        B[512 + (warp * 16 + lane // 4 + i % 2 * 8) * 8 + i // 2 * 4 + lane % 4] = w[i]
