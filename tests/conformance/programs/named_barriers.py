"""Named barriers: who arrives at which, in which phase, and in what order."""

from tvm.script import tirx as T


# right: one barrier says that the tile is full, another one that it is empty
# B == A.reshape(4, 32)[:, ::-1].sum(0)
@T.prim_func(s_tir=True)
def OneBarrierForFullAndOneForEmpty(A: T.Buffer(128), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((32,))
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    if tx < 32:
        for k in range(4):
            T.ptx.bar.sync(T.uint32(2), T.uint32(64))
            S[tx] = A[k * 32 + tx]
            T.ptx.bar.arrive(T.uint32(1), T.uint32(64))
    else:
        T.ptx.bar.arrive(T.uint32(2), T.uint32(64))
        for k in range(4):
            T.ptx.bar.sync(T.uint32(1), T.uint32(64))
            r[0] = r[0] + S[63 - tx]
            if k < 3:
                T.ptx.bar.arrive(T.uint32(2), T.uint32(64))
        B[tx - 32] = r[0]


# right: who waits for both purposes has met the other warp each time
# B == A.reshape(4, 32)[:, ::-1].sum(0)
@T.prim_func(s_tir=True)
def OneBarrierAtWhichBothWarpsWait(A: T.Buffer(128), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((32,))
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(4):
        if tx < 32:
            S[tx] = A[k * 32 + tx]
        T.ptx.bar.sync(T.uint32(1), T.uint32(64))
        if tx >= 32:
            r[0] = r[0] + S[63 - tx]
        T.ptx.bar.sync(T.uint32(1), T.uint32(64))
    if tx >= 32:
        B[tx - 32] = r[0]


# right: each pair of warps has a barrier of its own
# B == A.reshape(2, 64)[:, ::-1].ravel()
@T.prim_func(s_tir=True)
def EachPairOfWarpsItsOwnBarrier(A: T.Buffer(128), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 128)
    S = T.alloc_shared((128,))
    S[tx] = A[tx]
    T.ptx.bar.sync(T.Cast("uint32", tx // 64 + 1), T.uint32(64))
    B[tx] = S[tx // 64 * 64 + 63 - tx % 64]


# right: a barrier of the block stands between the two pairs
# B == A.reshape(2, 64)[:, ::-1].ravel()
@T.prim_func(s_tir=True)
def PairsAtOneBarrierOneAfterTheOther(A: T.Buffer(128), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 128)
    S = T.alloc_shared((128,))
    S[tx] = A[tx]
    if tx < 64:
        T.ptx.bar.sync(T.uint32(1), T.uint32(64))
    T.tvm_storage_sync("shared")
    if tx >= 64:
        T.ptx.bar.sync(T.uint32(1), T.uint32(64))
    B[tx] = S[tx // 64 * 64 + 63 - tx % 64]


# right: two warpgroups take turns as in CUTLASS's ping-pong, and the first turn is given away
# B == A + np.repeat([[0, 1, 2, 3]], 64, 0).T.ravel()
@T.prim_func(s_tir=True)
def TwoWarpgroupsInTurns(A: T.Buffer(256), B: T.Buffer(256)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 256)
    S = T.alloc_shared((1,))
    if tx == 0:
        S[0] = T.float32(0)
    T.tvm_storage_sync("shared")
    if tx >= 128:
        T.ptx.bar.arrive(T.uint32(1), T.uint32(256))
    for k in range(2):
        T.ptx.bar.sync(T.Cast("uint32", tx // 128 + 1), T.uint32(256))
        if tx % 128 < 64:
            B[(k * 2 + tx // 128) * 64 + tx % 128] = S[0] + A[(k * 2 + tx // 128) * 64 + tx % 128]
        T.ptx.bar.sync(T.Cast("uint32", tx // 128 + 3), T.uint32(128))
        if tx % 128 == 0:
            S[0] = S[0] + T.float32(1)
        if k == 0 or tx < 128:
            T.ptx.bar.arrive(T.Cast("uint32", 2 - tx // 128), T.uint32(256))


# wrong, named barrier: any two of the four warps complete it
# B == A.reshape(2, 64)[:, ::-1].ravel()
@T.prim_func(s_tir=True)
def TwoPairsOfWarpsAtOneBarrier(A: T.Buffer(128), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 128)
    S = T.alloc_shared((128,))
    S[tx] = A[tx]
    T.ptx.bar.sync(T.uint32(1), T.uint32(64))
    B[tx] = S[tx // 64 * 64 + 63 - tx % 64]


# wrong, named barrier: one of two producers and the consumer are 64 threads
# B == A[:32] + A[32:]
@T.prim_func(s_tir=True)
def TwoProducersAndACountOfOne(A: T.Buffer(64), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 96)
    S = T.alloc_shared((64,))
    if tx < 64:
        S[tx] = A[tx]
        T.ptx.bar.arrive(T.uint32(1), T.uint32(64))
    else:
        T.ptx.bar.sync(T.uint32(1), T.uint32(64))
        B[tx - 64] = S[tx - 64] + S[tx - 32]


# wrong, named barrier: nothing has the producer wait before it comes for the second tile
# B == A[:32][::-1] + A[32:][::-1]
@T.prim_func(s_tir=True)
def ArrivalsForTwoTilesInARow(A: T.Buffer(64), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    r = T.alloc_local((1,))
    if tx < 32:
        for k in range(2):
            S[k * 32 + tx] = A[k * 32 + tx]
            T.ptx.bar.arrive(T.uint32(1), T.uint32(64))
    else:
        r[0] = T.float32(0)
        for k in range(2):
            T.ptx.bar.sync(T.uint32(1), T.uint32(64))
            r[0] = r[0] + S[k * 32 + 63 - tx]
        B[tx - 32] = r[0]


# right: nobody waits for the first phase of barrier 1, and all know that both have come to it
# B == A[:32][::-1]
@T.prim_func(s_tir=True)
def PhaseThatNobodyWaitsFor(A: T.Buffer(64), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 96)
    S = T.alloc_shared((32,))
    if tx < 32:
        T.ptx.bar.arrive(T.uint32(1), T.uint32(64))
        T.ptx.bar.arrive(T.uint32(3), T.uint32(96))
        T.ptx.bar.sync(T.uint32(2), T.uint32(64))
        S[tx] = A[tx]
        T.ptx.bar.arrive(T.uint32(1), T.uint32(64))
    elif tx < 64:
        T.ptx.bar.arrive(T.uint32(1), T.uint32(64))
        T.ptx.bar.arrive(T.uint32(2), T.uint32(64))
        T.ptx.bar.arrive(T.uint32(3), T.uint32(96))
    else:
        T.ptx.bar.sync(T.uint32(3), T.uint32(96))
        T.ptx.bar.sync(T.uint32(1), T.uint32(64))
        B[tx - 64] = S[95 - tx]


# right: three groups in turns as in FlashAttention-3, the first turn and the last signal are nobody's
# B == np.repeat(np.arange(6), 64) + A
@T.prim_func(s_tir=True)
def ThreeGroupsInTurns(A: T.Buffer(384), B: T.Buffer(384)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 192)
    S = T.alloc_shared((1,))
    if tx == 0:
        S[0] = T.float32(0)
    T.tvm_storage_sync("shared")
    if tx < 64:
        T.ptx.bar.arrive(T.uint32(1), T.uint32(128))
    for k in range(2):
        T.ptx.bar.sync(T.Cast("uint32", tx // 64 + 1), T.uint32(128))
        B[k * 192 + tx] = S[0] + A[k * 192 + tx]
        T.ptx.bar.sync(T.Cast("uint32", tx // 64 + 4), T.uint32(64))
        if tx % 64 == 0:
            S[0] = S[0] + T.float32(1)
        T.ptx.bar.arrive(T.Cast("uint32", (tx // 64 + 1) % 3 + 1), T.uint32(128))


# right: a warp whose other lanes have returned comes as a whole, and so does one of 16 lanes
# B == A[np.arange(16)[::-1] + 64]
@T.prim_func(s_tir=True)
def WarpsOfWhichSomeLanesAreLeft(A: T.Buffer(80), B: T.Buffer(16)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 80)
    S = T.alloc_shared((16,))
    if tx >= 16 and tx < 64:
        T.evaluate(T.thread_return())
    if tx >= 64:
        S[tx - 64] = A[tx]
        T.ptx.bar.arrive(T.uint32(1), T.uint32(64))
    else:
        T.ptx.bar.sync(T.uint32(1), T.uint32(64))
        B[tx] = S[15 - tx]
