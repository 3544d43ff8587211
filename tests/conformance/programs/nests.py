"""Scans, in-place operations, nested conditions and workspaces of several kernels."""

from tvm.script import tirx as T


# right: TVM writes Select as C's conditional operator, which evaluates one of the two
# B == A + np.append(0, A[:-1])
@T.prim_func(s_tir=True)
def ElementBeforeTheFirstBehindSelect(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = A[tx] + T.Select(tx > 0, S[tx - 1], T.float32(0))


# right: no thread uses another one's elements
# B == np.maximum.accumulate(A.reshape(16, 4), 1).ravel()
@T.prim_func(s_tir=True)
def RunningMaximumOfEachThreadsOwnPart(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 16)
    m = T.alloc_local((1,))
    m[0] = T.float32(0)
    for k in range(4):
        m[0] = T.max(m[0], A[tx * 4 + k])
        B[tx * 4 + k] = m[0]


# wrong, race: a thread stores over what another one has yet to load
# B == A + 1
@T.prim_func(s_tir=True)
def ReversedInPlaceNoBarrierBehindTheLoads(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    r = T.alloc_local((1,))
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    r[0] = S[63 - tx]
    S[tx] = r[0] + T.float32(1)
    T.tvm_storage_sync("shared")
    B[tx] = S[63 - tx]


# wrong, race: threads of one bin load the same count, and one addition is lost
# A = whole(64) % 4
# B == np.bincount(A, minlength=4).astype('int32')
@T.prim_func(s_tir=True)
def HistogramOfAllThreadsInOneArray(A: T.Buffer(64, "int32"), B: T.Buffer(4, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    H = T.alloc_shared((4,), "int32")
    if tx < 4:
        H[tx] = 0
    T.tvm_storage_sync("shared")
    H[A[tx]] = H[A[tx]] + 1
    T.tvm_storage_sync("shared")
    if tx < 4:
        B[tx] = H[tx]


# right: a barrier stands before the columns are added up
# A = whole(64) % 4
# B == np.bincount(A, minlength=4).astype('int32')
@T.prim_func(s_tir=True)
def HistogramAColumnOfBinsForEachThread(A: T.Buffer(64, "int32"), B: T.Buffer(4, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    H = T.alloc_shared((256,), "int32")
    n = T.alloc_local((1,), "int32")
    for k in range(4):
        H[k * 64 + tx] = 0
    H[A[tx] * 64 + tx] = H[A[tx] * 64 + tx] + 1
    T.tvm_storage_sync("shared")
    if tx < 4:
        n[0] = 0
        for k in range(64):
            n[0] = n[0] + H[tx * 64 + k]
        B[tx] = n[0]


# wrong, race: a block stores over what the other one has yet to load
@T.prim_func(s_tir=True)
def TilesOfTwoBlocksSwappedInPlace(A: T.Buffer(128), C: T.Buffer(128), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 64)
    C[bx * 64 + tx] = A[bx * 64 + tx]
    T.tvm_storage_sync("shared")
    B[bx * 64 + tx] = C[(1 - bx) * 64 + tx]
    C[(1 - bx) * 64 + tx] = B[bx * 64 + tx]


# right: each thread loads both of its elements before it stores them
# C, B == (np.roll(A, 64), np.roll(A, 64))
@T.prim_func(s_tir=True)
def TilesSwappedInPlaceByOneBlock(A: T.Buffer(128), C: T.Buffer(128), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    r = T.alloc_local((2,))
    C[tx] = A[tx]
    C[64 + tx] = A[64 + tx]
    r[0] = C[tx]
    r[1] = C[64 + tx]
    C[tx] = r[1]
    C[64 + tx] = r[0]
    B[tx] = r[1]
    B[64 + tx] = r[0]


# right: the threads along y store the same values
# B == np.tile(A[31::-1], 2)
@T.prim_func(s_tir=True)
def RowsOfThreadsThatStoreOneRowAlike(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    ty = T.launch_thread("threadIdx.y", 2)
    S = T.alloc_shared((32,))
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[ty * 32 + tx] = S[31 - tx]


# right: the let loads one element for all
# B == A[::-1]
@T.prim_func(s_tir=True)
def BarrierBehindNestedConditionsAndALetThatAllThreadsShare(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    flag: T.let[T.bool] = A[0] > T.float32(0)
    if bx >= 0:
        if flag:
            S[tx] = A[tx]
            T.tvm_storage_sync("shared")
            B[tx] = S[63 - tx]


# right: each counts for itself until its number is 1
# B == np.array([count_steps(a) for a in A])
@T.prim_func(s_tir=True)
def TripCountOfEachThreadWithoutABarrier(A: T.Buffer(64, "int32"), B: T.Buffer(64, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    n = T.alloc_local((2,), "int32")
    n[0] = A[tx]
    n[1] = 0
    while n[0] > 1:
        n[0] = T.if_then_else(n[0] % 2 == 0, n[0] // 2, n[0] * 3 + 1)
        n[1] = n[1] + 1
    B[tx] = n[1]


# wrong, divergent barrier: threads that have counted to their end never come
@T.prim_func(s_tir=True)
def TripCountOfEachThreadWithABarrier(A: T.Buffer(64, "int32"), B: T.Buffer(64, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,), "int32")
    n = T.alloc_local((2,), "int32")
    n[0] = A[tx]
    n[1] = 0
    while n[0] > 1:
        n[0] = n[0] // 2
        S[tx] = n[0]
        T.tvm_storage_sync("shared")
        n[1] = n[1] + S[63 - tx]
    B[tx] = n[1]


# right: by 0 nothing is divided
# n = np.arange(64) % 3
# B == np.where(n == 0, -1, A // np.maximum(n, 1)).astype('int32')
@T.prim_func(s_tir=True)
def DivisionBehindIfThenElse(
    A: T.Buffer(64, "int32"), n: T.Buffer(64, "int32"), B: T.Buffer(64, "int32")
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    B[tx] = T.if_then_else(n[tx] == 0, -1, A[tx] // n[tx])


# right: the last thread loads nothing
# B == np.append(A, np.zeros(4, 'float32'))
@T.prim_func(s_tir=True)
def VectorBehindAGuard(A: T.Buffer(28), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 8)
    B[T.Ramp(tx * 4, 1, 4)] = T.if_then_else(
        tx < 7, A[T.Ramp(tx * 4, 1, 4)], T.Broadcast(T.float32(0), 4)
    )


# wrong, out of bounds: thread 7 loads elements 28 to 31 of 30
@T.prim_func(s_tir=True)
def VectorBehindAGuardOfItsFirstElement(A: T.Buffer(30), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 8)
    B[T.Ramp(tx * 4, 1, 4)] = T.if_then_else(
        tx * 4 < 30, A[T.Ramp(tx * 4, 1, 4)], T.Broadcast(T.float32(0), 4)
    )


# right: a broadcast has it in all lanes
# B == np.repeat(A, 4)
@T.prim_func(s_tir=True)
def OneElementStoredToAVector(A: T.Buffer(8), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 8)
    B[T.Ramp(tx * 4, 1, 4)] = T.Broadcast(A[tx], 4)


# right: all of it is filled
# C, B == (A, A[::-1])
@T.prim_func(s_tir=True)
def WorkspaceThatOneKernelFillsAndAnotherUses(A: T.Buffer(128), C: T.Buffer(128), B: T.Buffer(128)):
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            if tx < 32:
                C[bx * 32 + tx] = A[bx * 32 + tx]
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            B[bx * 32 + tx] = C[127 - bx * 32 - tx]


# right: each has its own, for as long as it runs
# C, B == (2 * A.reshape(4, 32)[:, ::-1].ravel(), 2 * A.reshape(2, 64)[:, ::-1].ravel())
@T.prim_func(s_tir=True)
def DynamicSharedMemoryOfTwoKernelsOfOtherSizes(
    A: T.Buffer(128), C: T.Buffer(128), B: T.Buffer(128)
):
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            S = T.alloc_buffer((32,), scope="shared.dyn")
            S[tx] = A[bx * 32 + tx] * T.float32(2)
            T.tvm_storage_sync("shared")
            C[bx * 32 + tx] = S[32 - 1 - tx]
    with T.launch_thread("blockIdx.x", 2) as bx:
        with T.launch_thread("threadIdx.x", 64) as tx:
            S = T.alloc_buffer((64,), scope="shared.dyn")
            S[tx] = A[bx * 64 + tx] * T.float32(2)
            T.tvm_storage_sync("shared")
            B[bx * 64 + tx] = S[64 - 1 - tx]


# right: all have loaded before one stores, and stored before one loads
# B == np.cumsum(A).astype('float32')
@T.prim_func(s_tir=True)
def ScanInPlaceBarriersOnBothSides(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    r = T.alloc_local((1,))
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    for d in range(6):
        r[0] = T.if_then_else(tx >= T.shift_left(1, d), S[tx - T.shift_left(1, d)], T.float32(0))
        T.tvm_storage_sync("shared")
        S[tx] = S[tx] + r[0]
        T.tvm_storage_sync("shared")
    B[tx] = S[tx]
