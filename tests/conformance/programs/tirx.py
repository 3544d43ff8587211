"""TIRx kernels as their authors write them: TVM's pipeline `tirx` adds no barrier to them."""

from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx


# right: each element is stored in front of the barrier, and read behind it
# B == A[::-1]
@T.prim_func
def RowTurnedRoundThroughSharedMemory(A: T.Buffer(256), B: T.Buffer(256)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([256])
    S = T.alloc_shared((256,), "float32")
    S[tx] = A[tx]
    T.cuda.cta_sync()
    B[tx] = S[255 - tx]


# right: threads beyond the end do nothing
# A = whole(1000)
# C = whole(1000, seed=8)
# B == A + C
@T.prim_func
def SumOfRowsWithAGuard(A: T.Buffer(1000), C: T.Buffer(1000), B: T.Buffer(1000)):
    T.device_entry()
    bx = T.cta_id([8])
    tx = T.thread_id([128])
    if bx * 128 + tx < 1000:
        B[bx * 128 + tx] = A[bx * 128 + tx] + C[bx * 128 + tx]


# right: all lanes of a warp take part in each shuffle
# B == A.reshape(8, 32).sum(1)
@T.prim_func
def SumsOfWarpsByShuffles(A: T.Buffer(256), B: T.Buffer(8)):
    T.device_entry()
    bx = T.cta_id([2])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    total = T.alloc_local((1,), "float32")
    total[0] = A[bx * 128 + warp * 32 + lane]
    for i in range(5):
        total[0] = total[0] + T.cuda.__shfl_xor_sync(
            T.uint32(0xFFFFFFFF), total[0], T.shift_right(16, i), 32
        )
    if lane == 0:
        B[bx * 4 + warp] = total[0]


# right: each group of eight lanes has its own largest element
# B == A.reshape(16, 8).max(1)
@T.prim_func
def LargestOfEightLanes(A: T.Buffer(128), B: T.Buffer(16)):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    most: T.let = T.cuda.warp_max(A[warp * 32 + lane], 8)
    if lane % 8 == 0:
        B[warp * 4 + lane // 8] = most


# right: each warp votes by itself
# B == (A.reshape(4, 32) > 50).sum(1)
@T.prim_func
def VotesCountedByWarp(A: T.Buffer(128), B: T.Buffer(4, "int32")):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    votes: T.let = T.cuda.ballot_sync(T.uint32(0xFFFFFFFF), A[warp * 32 + lane] > T.float32(50))
    if lane == 0:
        B[warp] = T.Cast("int32", T.popcount(votes))


# right: a sum of integers over a warp, in one instruction
# needs sm_80
# A = np.arange(64)
# B == A.reshape(2, 32).sum(1)
@T.prim_func
def SumOfAWarpInOneInstruction(A: T.Buffer(64, "uint32"), B: T.Buffer(2, "uint32")):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    total: T.let = T.cuda.reduce_add_sync_u32(T.uint32(0xFFFFFFFF), A[warp * 32 + lane])
    if lane == 0:
        B[warp] = total


# right: lanes of a warp exchange elements behind a barrier of the warp
# B == A.reshape(2, 32)[:, ::-1].ravel()
@T.prim_func
def RowsTurnedRoundByWarp(A: T.Buffer(64), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    S = T.alloc_shared((64,), "float32")
    S[warp * 32 + lane] = A[warp * 32 + lane]
    T.cuda.warp_sync()
    B[warp * 32 + lane] = S[warp * 32 + 31 - lane]


# right: two stages, and a barrier behind the loads of each round
# B == A.reshape(4, 64)[:, ::-1].sum(0)
@T.prim_func
def RoundsThroughOneBuffer(A: T.Buffer(256), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    S = T.alloc_shared((64,), "float32")
    total = T.alloc_local((1,), "float32")
    total[0] = T.float32(0)
    for k in range(4):
        S[tx] = A[k * 64 + tx]
        T.cuda.cta_sync()
        total[0] = total[0] + S[63 - tx]
        T.cuda.cta_sync()
    B[tx] = total[0]


# right: tiles go through shared memory, and other warps read what one has copied
# B == A.reshape(32, 32)[::-1].ravel()
@T.prim_func
def TileCopiedByOneWarpAndReadByAll(A: T.Buffer(1024, "float16"), B: T.Buffer(1024, "float16")):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    S = T.alloc_shared((1024,), "float16")
    if warp == 0:
        Tx.warp.copy(S[0:1024], A[0:1024])
    T.cuda.cta_sync()
    for i in range(8):
        B[(warp * 8 + i) * 32 + lane] = S[(31 - warp * 8 - i) * 32 + lane]


# right: all threads add to one place, one after the other
# B == np.array([A.sum()])
@T.prim_func
def SumByAtomicAdds(A: T.Buffer(256), B: T.Buffer(1)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([256])
    if tx == 0:
        B[0] = T.float32(0)
    T.cuda.cta_sync()
    T.cuda.atomic_add(T.address_of(B[0]), A[tx])


# right: whoever copied waits for it, and then for all others
# needs sm_80
# B == A[::-1]
@T.prim_func
def AsynchronousCopiesAndTheirWait(A: T.Buffer(256), B: T.Buffer(256)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    S = T.alloc_shared((256,), "float32")
    T.ptx["cp.async.cg.shared.global"](T.address_of(S[tx * 4]), T.address_of(A[tx * 4]), 16)
    T.ptx["cp.async.commit_group"]()
    T.ptx["cp.async.wait_group"](0)
    T.cuda.cta_sync()
    for i in range(4):
        B[i * 64 + tx] = S[255 - i * 64 - tx]


# right: one thread copies, all wait for the phase in which the bytes arrive
# needs sm_90
# B == A[::-1]
@T.prim_func
def BulkCopyAndItsMbarrier(A: T.Buffer(256), B: T.Buffer(256)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([256])
    S = T.alloc_shared((256,), "float32")
    bar = T.alloc_shared((1,), "uint64")
    if tx == 0:
        T.ptx.mbarrier.init.shared.b64(T.address_of(bar[0]), 1)
        T.ptx["fence.mbarrier_init.release.cluster"]()
    T.cuda.cta_sync()
    if tx == 0:
        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](T.address_of(bar[0]), 1024)
        T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
            T.address_of(S[0]), T.address_of(A[0]), 1024, T.address_of(bar[0])
        )
    T.cuda.mbarrier_wait(T.address_of(bar[0]), 0)
    B[tx] = S[255 - tx]


# right: the consumers' barrier has the producer's warp and their own
# B == A[::-1]
@T.prim_func
def WarpsMeetAtANamedBarrier(A: T.Buffer(32), B: T.Buffer(32)):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([3])
    lane = T.lane_id([32])
    S = T.alloc_shared((32,), "float32")
    if warp == 0:
        S[lane] = A[lane]
        T.ptx.bar.arrive(T.uint32(1), T.uint32(64))
    if warp == 1:
        T.ptx.bar.sync(T.uint32(1), T.uint32(64))
        B[lane] = S[31 - lane]


# right: a block reads its neighbour's shared memory behind a barrier of the cluster
# needs sm_90
# B == A.reshape(2, 64)[::-1].ravel()
@T.prim_func
def RowsExchangedWithinACluster(A: T.Buffer(128), B: T.Buffer(128)):
    T.device_entry()
    rank = T.cta_id_in_cluster([2])
    bx = T.cta_id([2])
    tx = T.thread_id([64])
    S = T.alloc_shared((64,), "float32")
    there = T.alloc_local((1,), "uint32")
    value = T.alloc_local((1,), "float32")
    S[tx] = A[bx * 64 + tx]
    T.cuda.cluster_sync()
    T.ptx["mapa.shared::cluster.u32"](
        there[0], T.cuda.cvta_generic_to_shared(T.address_of(S[tx])), T.Cast("uint32", 1 - rank)
    )
    T.ptx["ld.shared::cluster.f32"](value[0], there[0])
    B[bx * 64 + tx] = value[0]
    T.cuda.cluster_sync()


# right: in clusters of two by two blocks, whose ranks run along x first, the first reads the last
# needs sm_90
# B == A.reshape(4, 2, 64)[::-1].ravel()
@T.prim_func
def RowsExchangedAcrossASquareCluster(A: T.Buffer(512), B: T.Buffer(512)):
    T.device_entry()
    cx, cy = T.cta_id_in_cluster([2, 2])
    _, by = T.cta_id([2, 4])
    tx = T.thread_id([64])
    S = T.alloc_shared((64,), "float32")
    there = T.alloc_local((1,), "uint32")
    bits = T.alloc_local((1,), "uint32")
    row: T.let = (cy * 2 + cx) * 2 + by // 2
    S[tx] = A[row * 64 + tx]
    T.cuda.cluster_sync()
    T.ptx["mapa.shared::cluster.u32"](
        there[0],
        T.cuda.cvta_generic_to_shared(T.address_of(S[tx])),
        T.Cast("uint32", 3 - cy * 2 - cx),
    )
    T.ptx["ld.shared::cluster.b32"](bits[0], there[0])
    B[row * 64 + tx] = T.reinterpret("float32", bits[0])
    T.cuda.cluster_sync()


# right: four elements at a time, aligned to their 16 bytes
# B == A * 2
@T.prim_func
def VectorsOfFourByLdAndSt(A: T.Buffer(512), B: T.Buffer(512)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    r = T.alloc_local((4,), "float32")
    T.ptx["ld.global.v4.f32"](r[0], r[1], r[2], r[3], T.address_of(A[tx * 4]))
    T.ptx["st.global.v4.f32"](
        T.address_of(B[tx * 4]), r[0] * 2.0, r[1] * 2.0, r[2] * 2.0, r[3] * 2.0
    )


# right: each thread has the sum of its block
# B == np.repeat(A.reshape(2, 128).sum(1), 128)
@T.prim_func
def SumOfABlockInOneCall(A: T.Buffer(256), B: T.Buffer(256)):
    T.device_entry()
    bx = T.cta_id([2])
    tx = T.thread_id([128])
    S = T.alloc_shared((4,), "float32")
    total: T.let = T.cuda.cta_sum(A[bx * 128 + tx], 4, S.data)
    B[bx * 128 + tx] = total


# right: a barrier stands between two reductions through one scratch memory
# B == np.repeat(A.reshape(2, 128).max(1) - A.reshape(2, 128).min(1), 128)
@T.prim_func
def TwoReductionsThroughOneScratch(A: T.Buffer(256), B: T.Buffer(256)):
    T.device_entry()
    bx = T.cta_id([2])
    tx = T.thread_id([128])
    S = T.alloc_shared((4,), "float32")
    most: T.let = T.cuda.cta_max(A[bx * 128 + tx], 4, S.data)
    T.cuda.cta_sync()
    least: T.let = T.cuda.cta_min(A[bx * 128 + tx], 4, S.data)
    B[bx * 128 + tx] = most - least


# right: blocks with an element above 98 say so in all of their threads
# B == np.repeat((A.reshape(4, 64) > 98).any(1), 64)
@T.prim_func
def BlocksThatHaveALargeElement(A: T.Buffer(256), B: T.Buffer(256, "int32")):
    T.device_entry()
    bx = T.cta_id([4])
    tx = T.thread_id([64])
    has: T.let = T.cuda.syncthreads_or(A[bx * 64 + tx] > T.float32(98))
    B[bx * 64 + tx] = T.Cast("int32", has)


# right: one product of tensor cores, of fragments that ldmatrix loads
# needs sm_80
# A = whole(256, low=-9) % 8
# C = whole(128, low=-9, seed=8) % 8
# B == (A.astype("float32").reshape(16, 16) @ C.astype("float32").reshape(16, 8)).ravel()
@T.prim_func
def ProductOfAWarp(A: T.Buffer(256, "float16"), C: T.Buffer(128, "float16"), B: T.Buffer(128)):
    T.device_entry()
    T.cta_id([1])
    T.warp_id([1])
    lane = T.lane_id([32])
    S = T.alloc_shared((256,), "float16")
    Q = T.alloc_shared((128,), "float16")
    a = T.alloc_local((4,), "uint32")
    b = T.alloc_local((2,), "uint32")
    d = T.alloc_local((4,), "float32")
    for i in range(8):
        S[i * 32 + lane] = A[i * 32 + lane]
    for i in range(4):
        Q[i * 32 + lane] = C[i * 32 + lane]
        d[i] = T.float32(0)
    T.cuda.cta_sync()
    T.ptx["ldmatrix.sync.aligned.m8n8.x4.shared.b16"](
        a[0], a[1], a[2], a[3], T.address_of(S[lane % 16 * 16 + lane // 16 * 8])
    )
    T.ptx["ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16"](
        b[0], b[1], T.address_of(Q[lane % 16 * 8])
    )
    T.ptx["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"](
        d[0], d[1], d[2], d[3], a[0], a[1], a[2], a[3], b[0], b[1], d[0], d[1], d[2], d[3]
    )
    for i in range(4):
        B[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i]


# right: segments of eight lanes, each of which has what its first lane has
# B == np.repeat(A[::8], 8)
@T.prim_func
def FirstOfEightLanesByShfl(A: T.Buffer(64), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    r = T.alloc_local((1,), "float32")
    T.ptx.shfl_sync.idx.b32(r[0], A[tx], T.uint32(0), T.uint32(0x181F), T.uint32(0xFFFFFFFF))
    B[tx] = r[0]


# right: threads beyond the end neither load nor store, by a predicate
# A = whole(100)
# B == A * 3
@T.prim_func
def RowTripledUnderAPredicate(A: T.Buffer(100), B: T.Buffer(100)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    r = T.alloc_local((1,), "float32")
    r[0] = T.float32(0)
    T.ptx["ld.global.f32"](r[0], T.address_of(A[tx]), pred=tx < 100, preserve_dst=True)
    T.ptx["mul.rn.f32"](r[0], r[0], T.float32(3))
    T.ptx["st.global.f32"](T.address_of(B[tx]), r[0], pred=tx < 100)


# right: lanes store what is above 50 side by side, counted by a vote
# B == np.concatenate([np.pad(w[w > 50], (0, 32 - (w > 50).sum())) for w in A.reshape(2, 32)])
@T.prim_func
def LargeOnesSideBySideByBallot(A: T.Buffer(64), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    is_large = T.alloc_local((1,), "uint32")
    votes = T.alloc_local((1,), "uint32")
    place = T.alloc_local((1,), "uint32")
    T.ptx["setp.gt.f32"](is_large[0], A[warp * 32 + lane], T.float32(50))
    T.ptx.vote_sync.ballot.b32(votes[0], T.ptx.pred(is_large[0]), T.uint32(0xFFFFFFFF))
    T.ptx["bfe.u32"](place[0], votes[0], T.uint32(0), T.Cast("uint32", lane))
    T.ptx["popc.b32"](place[0], place[0])
    B[warp * 32 + lane] = T.float32(0)
    T.cuda.warp_sync()
    if is_large[0] == T.uint32(1):
        B[warp * 32 + T.Cast("int32", place[0])] = A[warp * 32 + lane]


# right: one lane of each warp stores, whichever is elected
# B == A[::32] + 1
@T.prim_func
def OneElectedLaneStores(A: T.Buffer(128), B: T.Buffer(4)):
    T.device_entry()
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    leader = T.alloc_local((1,), "uint32")
    is_leader = T.alloc_local((1,), "uint32")
    T.ptx.elect_sync(leader[0], is_leader[0], T.uint32(0xFFFFFFFF))
    if is_leader[0] == T.uint32(1):
        B[warp] = A[warp * 32] + T.float32(1)


# right: all threads ask for the end of the phase in which they arrived
# B == A[::-1]
# needs sm_80
@T.prim_func
def RowTurnedRoundByStatesOfAnMbarrier(A: T.Buffer(64), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    S = T.alloc_shared((64,), "float32")
    M = T.alloc_shared((1,), "uint64")
    state = T.alloc_local((1,), "uint64")
    is_over = T.alloc_local((1,), "uint32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(64))
    T.cuda.cta_sync()
    S[tx] = A[tx]
    T.ptx["mbarrier.arrive.shared::cta.b64"](state[0], T.address_of(M[0]))
    is_over[0] = T.uint32(0)
    while is_over[0] == T.uint32(0):
        T.ptx["mbarrier.try_wait.shared::cta.b64"](is_over[0], T.address_of(M[0]), state[0])
    B[tx] = S[63 - tx]


# right: two numbers packed in a register, the second one in its lower half
# B == A.reshape(64, 2)[:, ::-1].ravel()
@T.prim_func
def PairsExchangedInPackedRegisters(A: T.Buffer(128), B: T.Buffer(128)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    pair = T.alloc_local((1,), "uint32")
    halves = T.alloc_local((2,), "float16")
    T.ptx["cvt.rn.f16x2.f32"](pair[0], A[tx * 2], A[tx * 2 + 1])
    T.ptx["mov.b32"](halves[0], halves[1], pair[0])
    B[tx * 2] = T.Cast("float32", halves[0])
    B[tx * 2 + 1] = T.Cast("float32", halves[1])


# right: two arrays side by side in one pool, and PTX's barrier of the whole block
# B == A[::-1] * 2
@T.prim_func
def TwoArraysOfAPool(A: T.Buffer(64), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    pool = T.SMEMPool()
    S = pool.alloc((64,), "float32")
    H = pool.alloc((64,), "float16")
    pool.commit()
    S[tx] = A[tx]
    H[tx] = T.Cast("float16", A[tx])
    T.ptx.bar.sync(T.uint32(0))
    B[tx] = S[63 - tx] + T.Cast("float32", H[63 - tx])


# right: each thread has every 32nd element, by the step of its loop
# A = whole(100)
# B == A * 2
@T.prim_func
def RowDoubledByLoopsWithAStep(A: T.Buffer(100), B: T.Buffer(100)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    for i in T.serial(tx, 100, step=32):
        B[i] = A[i] * T.float32(2)


# right: a tile that the TMA brings, and the barrier that counts its bytes
# needs sm_90
# A = whole(4096, low=-9).astype("float16")
# B == A
@T.prim_func
def TileBroughtByTheTma(A: T.Buffer(4096, "float16"), B: T.Buffer(4096, "float16")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    S = T.alloc_shared((64, 64), "float16")
    M = T.alloc_shared((1,), "uint64")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
    T.cuda.cta_sync()
    if tx == 0:
        Tx.copy_async(
            S[0:64, 0:64], A.view(64, 64)[0:64, 0:64], dispatch="tma_auto", mbar=T.address_of(M[0])
        )
        T.ptx["mbarrier.arrive.expect_tx.shared::cta.b64"](T.address_of(M[0]), T.uint32(8192))
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    for i in range(32):
        B[i * 128 + tx] = S[i * 2 + tx // 64, tx % 64]


# right: a product of a warpgroup, of tiles in 128-byte rows that the TMA exchanges the parts of
# needs sm_90
# A = (whole(4096, low=-9) % 8).astype("float16")
# C = (whole(4096, low=-9, seed=8) % 8).astype("float16")
# B == (A.astype("float32").reshape(64, 64) @ C.astype("float32").reshape(64, 64).T).ravel()
@T.prim_func
def ProductOfAWarpgroup(
    A: T.Buffer(4096, "float16"), C: T.Buffer(4096, "float16"), B: T.Buffer(4096)
):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    pool = T.SMEMPool()
    S = pool.alloc_tcgen05_mma_AB((64, 64), "float16")
    Q = pool.alloc_tcgen05_mma_AB((64, 64), "float16")
    M = pool.alloc((1,), "uint64")
    pool.commit()
    a = T.alloc_local((1,), "uint64")
    c = T.alloc_local((1,), "uint64")
    d = T.alloc_local((32,), "float32")
    if tx == 0:
        T.ptx["mbarrier.init.shared::cta.b64"](T.address_of(M[0]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
    T.cuda.cta_sync()
    if tx == 0:
        Tx.copy_async(
            S[0:64, 0:64], A.view(64, 64)[0:64, 0:64], dispatch="tma_auto", mbar=T.address_of(M[0])
        )
        Tx.copy_async(
            Q[0:64, 0:64], C.view(64, 64)[0:64, 0:64], dispatch="tma_auto", mbar=T.address_of(M[0])
        )
        T.ptx["mbarrier.arrive.expect_tx.shared::cta.b64"](T.address_of(M[0]), T.uint32(16384))
    T.cuda.mbarrier_wait(T.address_of(M[0]), 0)
    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(a[0]), T.address_of(S[0, 0]), 1, 64, 3)
    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(c[0]), T.address_of(Q[0, 0]), 1, 64, 3)
    T.ptx["wgmma.fence.sync.aligned"]()
    for k in T.unroll(4):
        T.ptx["wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"](
            d[0],
            d[1],
            d[2],
            d[3],
            d[4],
            d[5],
            d[6],
            d[7],
            d[8],
            d[9],
            d[10],
            d[11],
            d[12],
            d[13],
            d[14],
            d[15],
            d[16],
            d[17],
            d[18],
            d[19],
            d[20],
            d[21],
            d[22],
            d[23],
            d[24],
            d[25],
            d[26],
            d[27],
            d[28],
            d[29],
            d[30],
            d[31],
            a[0] + T.uint64(k * 2),
            c[0] + T.uint64(k * 2),
            T.ptx.pred(T.uint32(k > 0)),
            1,
            1,
            0,
            0,
        )
    T.ptx["wgmma.commit_group.sync.aligned"]()
    T.ptx["wgmma.wait_group.sync.aligned"](0)
    for i in range(32):
        B[
            (tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8) * 64 + i // 4 * 8 + tx % 4 * 2 + i % 2
        ] = d[i]


# right: what nobody has stored is loaded, and dropped
# B == np.r_[np.zeros(16), A[::-1]]
@T.prim_func
def LoadsBeyondARowThatAreDropped(A: T.Buffer(48), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    S = T.alloc_shared((64,), "float32")
    value = T.alloc_local((1,), "float32")
    if tx < 48:
        S[tx] = A[tx]
    T.cuda.cta_sync()
    value[0] = S[63 - tx]
    if tx < 16:
        value[0] = T.float32(0)
    B[tx] = value[0]


# right: the block that stores a row releases it, and the other one acquires it before its loads
# needs sm_70
# F = np.zeros(1, "uint32")
# C, B == A[::-1] * 2, A * 2
@T.prim_func
def RowHandedToAnotherBlock(
    A: T.Buffer(64), F: T.Buffer(1, "uint32"), C: T.Buffer(64), B: T.Buffer(64)
):
    T.device_entry()
    bx = T.cta_id([2])
    tx = T.thread_id([64])
    seen = T.alloc_local((1,), "uint32")
    if bx == 1:
        B[tx] = A[tx] * T.float32(2)
        T.cuda.cta_sync()
        if tx == 0:
            T.ptx["st.release.gpu.global.b32"](T.address_of(F[0]), T.uint32(1))
    else:
        if tx == 0:
            seen[0] = T.uint32(0)
            while seen[0] != T.uint32(1):
                T.ptx["ld.acquire.gpu.global.b32"](seen[0], T.address_of(F[0]))
            T.ptx["st.relaxed.gpu.global.b32"](T.address_of(F[0]), T.uint32(0))
        T.cuda.cta_sync()
        C[tx] = B[63 - tx]


# right: the last of the blocks to count knows of all that counted before it
# needs sm_70
# F = np.zeros(1, "uint32")
# C, B == A.reshape(4, 32).sum(0), A
@T.prim_func
def SumByTheLastBlock(
    A: T.Buffer(128), F: T.Buffer(1, "uint32"), C: T.Buffer(32), B: T.Buffer(128)
):
    T.device_entry()
    bx = T.cta_id([4])
    tx = T.thread_id([32])
    place = T.alloc_shared((1,), "uint32")
    before = T.alloc_local((1,), "uint32")
    B[bx * 32 + tx] = A[bx * 32 + tx]
    T.cuda.cta_sync()
    if tx == 0:
        T.ptx["atom.acq_rel.gpu.global.inc.u32"](before[0], T.address_of(F[0]), T.uint32(3))
        place[0] = before[0]
    T.cuda.cta_sync()
    if place[0] == T.uint32(3):
        C[tx] = B[tx] + B[32 + tx] + B[64 + tx] + B[96 + tx]


# right: a warp transposes a matrix of 16 bits in its registers
# needs sm_75
# A = np.arange(64, dtype="uint32").view("uint32")[:32]
# B == A.view("uint16").reshape(8, 8).T.copy().reshape(-1).view("uint32")
@T.prim_func
def MatrixTransposedInRegisters(A: T.Buffer(32, "uint32"), B: T.Buffer(32, "uint32")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    r = T.alloc_local((1,), "uint32")
    T.ptx["movmatrix.sync.aligned.m8n8.trans.b16"](r[0], A[tx])
    B[tx] = r[0]


# right: each thread's copies arrive at an mbarrier when they have brought all
# needs sm_90
# B == A[::-1]
@T.prim_func
def CopiesThatArriveAtAnMbarrier(A: T.Buffer(256), B: T.Buffer(256)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    S = T.alloc_shared((256,), "float32")
    bar = T.alloc_shared((1,), "uint64")
    if tx == 0:
        T.ptx["mbarrier.init.shared.b64"](T.address_of(bar[0]), T.uint32(64))
    T.cuda.cta_sync()
    T.ptx["cp.async.cg.shared.global"](T.address_of(S[tx * 4]), T.address_of(A[tx * 4]), 16)
    T.ptx["cp.async.mbarrier.arrive.noinc.shared.b64"](T.address_of(bar[0]))
    T.cuda.mbarrier_wait(T.address_of(bar[0]), 0)
    for i in range(4):
        B[i * 64 + tx] = S[255 - i * 64 - tx]


# right: threads leave a loop where their row ends, and pass over every other element of it
# B == np.array([A[i * 8:i * 8 + i % 8:2].sum() for i in range(32)])
@T.prim_func
def RowsOfSeveralLengths(A: T.Buffer(256), B: T.Buffer(32)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    total = T.alloc_local((1,))
    total[0] = T.float32(0)
    for i in range(8):
        if i >= tx % 8:
            break
        if i % 2 == 1:
            continue
        total[0] = total[0] + A[tx * 8 + i]
    B[tx] = total[0]


# right: the largest float of a warp in one instruction, which passes over NaN
# needs sm_100a
# A = np.where(np.arange(64) % 5 == 2, np.nan, np.arange(64) % 37)
# B == np.nanmax(A.reshape(2, 32), axis=1)
@T.prim_func
def LargestFloatOfAWarp(A: T.Buffer(64), B: T.Buffer(2)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    most = T.alloc_local((1,))
    T.ptx.redux_sync.max.f32(most[0], A[tx], T.uint32(0xFFFFFFFF))
    if tx % 32 == 0:
        B[tx // 32] = most[0]


# right: four rows in any order come by one copy, and all of their bytes arrive
# needs sm_100a
# B == A.reshape(16, 32)[[5, 0, 11, 2]].ravel()
@T.prim_func
def RowsGatheredByTheTma(A: T.Buffer(512), B: T.Buffer(128)):
    rows: T.let[T.TensorMap()] = T.tvm_stack_alloca("tensormap", 1)
    T.call_packed(
        *("runtime.cuTensorMapEncodeTiled", rows, "float32", 2, A.data),
        *(32, 16, 128, 32, 1, 1, 1, 0, 0, 2, 0),
    )
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    S = T.alloc_buffer((128,), "float32", scope="shared", align=128)
    bar = T.alloc_shared((1,), "uint64")
    if tx == 0:
        T.ptx["mbarrier.init.shared.b64"](T.address_of(bar[0]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](T.address_of(bar[0]), T.uint32(512))
        T.ptx[
            "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
        ](T.address_of(S[0]), T.address_of(rows), *(0, 5, 0, 11, 2), T.address_of(bar[0]))
    T.cuda.cta_sync()
    T.cuda.mbarrier_wait(T.address_of(bar[0]), 0)
    B[tx] = S[tx]


# right: a barrier counts who says yes, and asks whether all do, of those that come to it
# needs sm_80
# B, C == np.full(64, (A[:64] > 50).sum()), np.repeat([0, 1], 32)
@T.prim_func
def VotesAtABarrier(A: T.Buffer(128), B: T.Buffer(64, "uint32"), C: T.Buffer(64, "uint32")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    count = T.alloc_local((1,), "uint32")
    have_all = T.alloc_local((1,), "uint32")
    if tx < 64:
        T.ptx["bar.red.popc.u32"](
            count[0], T.uint32(1), T.uint32(64), T.ptx.pred(A[tx] > T.float32(50))
        )
        T.ptx["bar.red.and.pred"](
            *(have_all[0], T.Cast("uint32", 2 + tx // 32), T.uint32(32)),
            T.ptx.pred(tx % 32 < 9 + tx // 32 * 32),
        )
        B[tx] = count[0]
        C[tx] = have_all[0]


# right: two floats are rounded at once, where the compiler has them in registers
# needs sm_80
# B == (A.astype("float32") * np.float32(0.1)).astype("float16")
@T.prim_func
def PairsRoundedToHalves(A: T.Buffer(128), B: T.Buffer(128, "float16")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    wide = T.alloc_local((2,))
    narrow = T.alloc_local((2,), "float16")
    for i in range(2):
        wide[i] = A[tx * 2 + i] * T.float32(0.1)
    T.cuda.float22half2(T.address_of(narrow[0]), T.address_of(wide[0]))
    for i in range(2):
        B[tx * 2 + i] = narrow[i]


# right: rows of floats go through a pool of bytes and back, beside one that a thread stores itself
# needs sm_90
# B == np.append(A[64:], np.arange(64))
@T.prim_func
def FloatsInAPoolOfBytes(A: T.Buffer(128), B: T.Buffer(128)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    S = T.alloc_buffer((512,), "uint8", scope="shared", align=128)
    bar = T.alloc_shared((1,), "uint64")
    if tx == 0:
        T.ptx["mbarrier.init.shared.b64"](T.address_of(bar[0]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
    B[64 + tx] = T.Cast("float32", tx)
    if tx == 0:
        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](T.address_of(bar[0]), T.uint32(256))
        T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
            T.address_of(S[256]), T.address_of(A[64]), T.uint32(256), T.address_of(bar[0])
        )
        T.cuda.mbarrier_wait(T.address_of(bar[0]), 0)
        T.ptx["cp.async.bulk.global.shared::cta.bulk_group"](
            T.address_of(B[0]), T.address_of(S[256]), T.uint32(256)
        )
        T.ptx["cp.async.bulk.commit_group"]()
        T.ptx["cp.async.bulk.wait_group"](0)


# right: warps meet at the barrier of their block in roles of their own, and two at another one
# needs sm_80
# B == A[::-1] + 1
@T.prim_func
def RowTurnedRoundByRoles(A: T.Buffer(128), B: T.Buffer(128)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    S = T.alloc_shared((128,), "float32")
    if tx < 64:
        S[tx] = A[tx]
        T.ptx["bar.sync"](T.uint32(1), T.uint32(64))
        S[tx] = S[tx] + T.float32(1)
        T.cuda.cta_sync()
        B[tx] = S[127 - tx]
    else:
        S[tx] = A[tx] + T.float32(1)
        T.cuda.cta_sync()
        B[tx] = S[127 - tx]


# right: each block copies its row to the other one, and stores there when that has its bytes
# needs sm_90
# B == A.reshape(2, 64)[::-1].ravel()
@T.prim_func
def RowsCopiedWithinACluster(A: T.Buffer(128), B: T.Buffer(128)):
    T.device_entry()
    cx = T.cta_id_in_cluster([2])
    bx = T.cta_id([2])
    tx = T.thread_id([64])
    S = T.alloc_buffer((64,), "float32", scope="shared", align=128)
    R = T.alloc_buffer((64,), "float32", scope="shared", align=128)
    bar = T.alloc_shared((1,), "uint64")
    there = T.alloc_local((1,), "uint32")
    ready = T.alloc_local((1,), "uint32")
    S[tx] = A[bx * 64 + tx]
    if tx == 0:
        T.ptx["mbarrier.init.shared.b64"](T.address_of(bar[0]), T.uint32(1))
        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](T.address_of(bar[0]), T.uint32(256))
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cluster_sync()
    if tx == 0:
        T.ptx["mapa.shared::cluster.u32"](
            there[0],
            T.cuda.cvta_generic_to_shared(T.address_of(R[0])),
            T.uint32(1) - T.Cast("uint32", cx),
        )
        T.ptx["mapa.shared::cluster.u32"](
            ready[0],
            T.cuda.cvta_generic_to_shared(T.address_of(bar[0])),
            T.uint32(1) - T.Cast("uint32", cx),
        )
        T.ptx["cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"](
            there[0], T.address_of(S[0]), T.uint32(256), ready[0]
        )
    T.cuda.mbarrier_wait(T.address_of(bar[0]), 0)
    T.cuda.cluster_sync()
    S[tx] = R[tx]
    B[bx * 64 + tx] = S[tx]


# right: lanes of a warp find the bits of a mask, from both ends, and none beyond the last
# needs sm_80
# B == np.concatenate([[3, 7, 9, 31], np.full(28, -1), [31, 9, 7, 3], np.full(28, -1)])
@T.prim_func
def BitsFoundFromBothEnds(B: T.Buffer(64, "int32")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    found = T.alloc_local((1,), "uint32")
    place: T.let = tx % 32 + 1
    if tx < 32:
        T.ptx["fns.b32"](found[0], T.uint32(0x80000288), T.uint32(0), place)
    else:
        T.ptx["fns.b32"](found[0], T.uint32(0x80000288), T.uint32(31), 0 - place)
    B[tx] = T.reinterpret("int32", found[0])


# right: the fence of a third thread stands between stores and the copy, which both know of
# needs sm_90
# B == A * 2
@T.prim_func
def RowStoredBehindTheFenceOfAThirdThread(A: T.Buffer(64), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    S = T.alloc_buffer((64,), "float32", scope="shared", align=128)
    bar = T.alloc_shared((1,), "uint64")
    if tx == 0:
        T.ptx["mbarrier.init.shared.b64"](T.address_of(bar[0]), T.uint32(1))
    S[tx] = A[tx] * T.float32(2)
    T.cuda.cta_sync()
    if tx == 32:
        T.ptx["fence.proxy.async.shared::cta"]()
        T.ptx["mbarrier.arrive.shared.b64"](T.address_of(bar[0]))
    if tx == 0:
        T.cuda.mbarrier_wait(T.address_of(bar[0]), 0)
        T.ptx["cp.async.bulk.global.shared::cta.bulk_group"](
            T.address_of(B[0]), T.address_of(S[0]), T.uint32(256)
        )
        T.ptx["cp.async.bulk.commit_group"]()
        T.ptx["cp.async.bulk.wait_group"](0)


# right: a thread changes a copy of a tensor map, releases it, and acquires it for its own copies
# needs sm_90a
# B, M == np.pad(A.reshape(16, 32)[8:12], ((0, 4), (0, 0))).ravel(), np.arange(16)
@T.prim_func
def TileOfAMapThatTheKernelChanges(A: T.Buffer(512), B: T.Buffer(256), M: T.Buffer(16, "uint64")):
    tiles: T.let[T.TensorMap()] = T.tvm_stack_alloca("tensormap", 1)
    T.call_packed(
        *("runtime.cuTensorMapEncodeTiled", tiles, "float32", 2, A.data),
        *(32, 16, 128, 32, 8, 1, 1, 0, 0, 2, 0),
    )
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([256])
    S = T.alloc_buffer((256,), "float32", scope="shared", align=128)
    bar = T.alloc_shared((1,), "uint64")
    word = T.alloc_local((1,), "uint64")
    if tx < 16:
        address: T.let = T.reinterpret("uint64", T.address_of(tiles)) + T.Cast("uint64", tx * 8)
        T.ptx["ld.b64"](word[0], T.reinterpret("handle", address))
        T.ptx["st.global.b64"](T.address_of(M[tx]), word[0])
    T.cuda.cta_sync()
    if tx == 0:
        T.ptx["mbarrier.init.shared.b64"](T.address_of(bar[0]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
        T.ptx["tensormap_replace.tile.global_address.global.b1024.b64"](
            T.address_of(M[0]), T.reinterpret("uint64", T.address_of(A[256]))
        )
        T.ptx["tensormap_replace.tile.global_dim.global.b1024.b32"](
            T.address_of(M[0]), 1, T.uint32(4)
        )
        T.ptx["fence.proxy.tensormap::generic.release.gpu"]()
        T.ptx["fence.proxy.tensormap::generic.acquire.gpu"](T.address_of(M[0]))
        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](T.address_of(bar[0]), T.uint32(1024))
        T.ptx["cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"](
            T.address_of(S[0]), T.address_of(M[0]), 0, 0, T.address_of(bar[0])
        )
    T.cuda.cta_sync()
    T.cuda.mbarrier_wait(T.address_of(bar[0]), 0)
    B[tx] = S[tx]
    if tx < 16:
        M[tx] = T.Cast("uint64", tx)


# right: a block asks for others' work until there is none, and loads each answer where it arrived
# needs sm_100a
# B == A + 1
@T.prim_func
def BlocksTakenOverFromOthers(A: T.Buffer(256), B: T.Buffer(256)):
    T.device_entry()
    bx = T.cta_id([8])
    tx = T.thread_id([32])
    answer = T.alloc_buffer((4,), "uint32", scope="shared", align=16)
    bar = T.alloc_shared((1,), "uint64")
    now = T.alloc_local((1,), "uint32")
    is_more = T.alloc_local((1,), "uint32")
    response = T.alloc_local((1,), "uint128")
    phase = T.alloc_local((1,), "int32")
    if tx == 0:
        T.ptx["mbarrier.init.shared.b64"](T.address_of(bar[0]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
    T.cuda.cta_sync()
    now[0] = T.Cast("uint32", bx)
    is_more[0] = T.uint32(1)
    phase[0] = 0
    while is_more[0] == T.uint32(1):
        if tx == 0:
            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](T.address_of(bar[0]), T.uint32(16))
            T.ptx[
                "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
            ](T.address_of(answer[0]), T.address_of(bar[0]))
        B[now[0] * T.uint32(32) + T.Cast("uint32", tx)] = A[
            now[0] * T.uint32(32) + T.Cast("uint32", tx)
        ] + T.float32(1)
        T.cuda.mbarrier_wait(T.address_of(bar[0]), phase[0])
        phase[0] = 1 - phase[0]
        T.ptx["ld.shared.b128"](response[0], T.address_of(answer[0]))
        T.ptx["clusterlaunchcontrol.query_cancel.is_canceled.pred.b128"](is_more[0], response[0])
        T.ptx["clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128"](
            now[0], response[0], pred=is_more[0]
        )
        T.ptx["fence.proxy.async.shared::cta"]()
        T.cuda.cta_sync()


# right: two warps meet at barrier 0, which is no other than the others where nobody else is there
# needs sm_90
# B == A[::-1]
@T.prim_func
def TwoOfFourWarpsMeetAtBarrierZero(A: T.Buffer(64), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    S = T.alloc_shared((64,), "float32")
    if tx < 64:
        S[tx] = A[tx]
        T.ptx["bar.sync"](T.uint32(0), T.uint32(64))
        B[tx] = S[63 - tx]


# right: the blocks' tiles are added up in global memory, in any order, by the TMA
# needs sm_90
# A = whole(512)
# C == A.reshape(4, 128).sum(0) + (np.arange(128) == 0)
@T.prim_func
def TilesAddedUpByTheTma(A: T.Buffer(512), C: T.Buffer(128)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    S = T.alloc_shared((512,), "float32", align=128)
    C[tx] = T.float32(0)
    for i in range(4):
        S[i * 128 + tx] = A[i * 128 + tx]
    T.ptx["fence.proxy.async"]()
    T.cuda.cta_sync()
    if tx == 0:
        for i in range(4):
            T.ptx["cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"](
                T.address_of(C[0]), T.address_of(S[i * 128]), T.uint32(512)
            )
        T.ptx["cp.async.bulk.commit_group"]()
        T.ptx["cp.async.bulk.wait_group"](0)
        C[0] = C[0] + T.float32(1)


# right: threads beyond the end return, and a barrier waits for those alone that are there
# A = whole(100)
# B == A[::-1]
@T.prim_func
def RowTurnedRoundByThoseThatHaveNotReturned(A: T.Buffer(100), B: T.Buffer(100)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([128])
    S = T.alloc_shared((100,), "float32")
    if tx >= 100:
        T.Return(0)
    S[tx] = A[tx]
    T.cuda.cta_sync()
    B[tx] = S[99 - tx]


# right: words are stored half by half, and a word is loaded whose halves both are there
# needs sm_70
# A = np.arange(64)
# C = np.arange(64)[::-1]
# B == np.arange(64) + (np.arange(64)[::-1] << 32)
@T.prim_func
def WordsOfTwoHalvesInRegisters(
    A: T.Buffer(64, "int32"), C: T.Buffer(64, "int32"), B: T.Buffer(64, "uint64")
):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    words = T.alloc_local((2,), "uint64")
    halves = T.decl_buffer((4,), "int32", data=words.data, scope="local")
    halves[2] = A[tx]
    halves[3] = C[tx]
    B[tx] = words[1]


# right: each block copies by the tensor map that it has chosen, whose address is a number
# needs sm_90a
# A = whole(256)
# C = whole(256, seed=8)
# B == np.hstack([A, C])
@T.prim_func
def TilesOfAMapThatABlockChooses(A: T.Buffer(256), C: T.Buffer(256), B: T.Buffer(512)):
    first: T.let[T.TensorMap()] = T.tvm_stack_alloca("tensormap", 1)
    second: T.let[T.TensorMap()] = T.tvm_stack_alloca("tensormap", 1)
    T.call_packed(
        *("runtime.cuTensorMapEncodeTiled", first, "float32", 2, A.data),
        *(32, 8, 128, 32, 8, 1, 1, 0, 0, 2, 0),
    )
    T.call_packed(
        *("runtime.cuTensorMapEncodeTiled", second, "float32", 2, C.data),
        *(32, 8, 128, 32, 8, 1, 1, 0, 0, 2, 0),
    )
    T.device_entry()
    bx = T.cta_id([2])
    tx = T.thread_id([256])
    S = T.alloc_buffer((256,), "float32", scope="shared", align=128)
    bar = T.alloc_shared((1,), "uint64")
    chosen = T.alloc_local((1,), "uint64")
    chosen[0] = T.if_then_else(
        bx == 1,
        T.reinterpret("uint64", T.address_of(second)),
        T.reinterpret("uint64", T.address_of(first)),
    )
    if tx == 0:
        T.ptx["mbarrier.init.shared.b64"](T.address_of(bar[0]), T.uint32(1))
        T.ptx["fence.mbarrier_init.release.cluster"]()
        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](T.address_of(bar[0]), T.uint32(1024))
        T.ptx["cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"](
            *(T.address_of(S[0]), T.reinterpret("handle", chosen[0]), 0, 0, T.address_of(bar[0]))
        )
    T.cuda.cta_sync()
    T.cuda.mbarrier_wait(T.address_of(bar[0]), 0)
    B[bx * 256 + tx] = S[tx]


# right: lanes of a warp come to a barrier from both sides of a branch, and it waits for all of them
# needs sm_80
# B == A[::-1]
@T.prim_func
def RowTurnedRoundByLanesInRoles(A: T.Buffer(64), B: T.Buffer(64)):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    S = T.alloc_shared((64,), "float32")
    if tx % 32 == 0:
        S[tx] = A[tx]
        T.ptx["barrier.sync"](T.uint32(1), T.uint32(64))
        B[tx] = S[63 - tx]
    else:
        S[tx] = A[tx]
        T.ptx["barrier.sync"](T.uint32(1), T.uint32(64))
        B[tx] = S[63 - tx]


# right: lanes compute where the rows are that they store and load as matrices, in numbers
# needs sm_90
# A = np.arange(32) * 65537 + 5
# B, C == A.astype("uint32").view("uint16"), A[::-1]
@T.prim_func
def MatrixAtAddressesInNumbers(
    A: T.Buffer(32, "uint32"), B: T.Buffer(64, "uint16"), C: T.Buffer(32, "uint32")
):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    S = T.alloc_buffer((64,), "uint16", scope="shared", align=128)
    word = T.alloc_local((2,), "uint32")
    word[0] = A[tx]
    row: T.let = T.cuda.cvta_generic_to_shared(T.address_of(S[0])) + T.Cast("uint32", tx % 8 * 16)
    T.ptx["stmatrix.sync.aligned.m8n8.x1.shared.b16"](row, word[0])
    T.cuda.warp_sync()
    for i in range(2):
        B[tx * 2 + i] = S[tx * 2 + i]
    T.ptx["ldmatrix.sync.aligned.m8n8.x1.shared.b16"](word[1], row)
    C[31 - tx] = word[1]
