"""Registers, fetches and tails: what was never written, and what lies beyond an end."""

from tvm.script import tirx as T


# wrong, uninitialized read: lanes 16 to 31 never wrote it
@T.prim_func(s_tir=True)
def RegisterWrittenInOneArmAndReadByAll(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    if tx < 16:
        r[0] = A[tx]
    B[tx] = r[0]


# wrong, out of bounds: r has 4 elements, and r[4] is stored
@T.prim_func(s_tir=True)
def RegisterArrayBeyondItsEnd(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((4,))
    for k in range(5):
        r[k] = A[tx]
    B[tx] = r[tx % 4]


# wrong, uninitialized read: S[64] and S[65] are never stored
@T.prim_func(s_tir=True)
def Of66ElementsFetchedBy64ThreadsInOneRound(A: T.Buffer(66), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((66,))
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = S[tx] + S[tx + 2]


# right: the load beyond the end is not evaluated
# B == np.append(A, [0, 0])
@T.prim_func(s_tir=True)
def LoadBehindIfThenElse(A: T.Buffer(30), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.if_then_else(tx < 30, A[tx], T.float32(0))


# right: the bound is evaluated before the load
# B == np.append(A > 50, [0, 0])
@T.prim_func(s_tir=True)
def LoadBehindAShortCircuit(A: T.Buffer(30), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    if tx < 30 and A[tx] > T.float32(50):
        B[tx] = T.float32(1)
    else:
        B[tx] = T.float32(0)


# wrong, out of bounds: 27 threads of block 1 are beyond the end
# A = whole(37)
@T.prim_func(s_tir=True)
def Of37OfAnOpenSizeNoGuard(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    bx = T.launch_thread("blockIdx.x", (n + 31) // 32)
    tx = T.launch_thread("threadIdx.x", 32)
    B[bx * 32 + tx] = A[bx * 32 + tx]


# wrong, out of bounds: thread 30 loads A[30] of 30 elements
@T.prim_func(s_tir=True)
def GuardOneTooWide(A: T.Buffer(30), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.float32(0)
    if tx <= 30:
        B[tx] = A[tx]


# right: min keeps it within
# B == np.append(A, [A[29], A[29]])
@T.prim_func(s_tir=True)
def IndexClampedToTheLastElement(A: T.Buffer(30), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[T.min(tx, 29)]


# wrong, out of bounds: thread 0 loads A[-1]
@T.prim_func(s_tir=True)
def LeftNeighbourOfTheFirstElement(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx - 1]


# right: the load of A[-1] is not evaluated
# B == A + np.append([0], A[:-1])
@T.prim_func(s_tir=True)
def LeftNeighbourZeroWhereThereIsNone(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx] + T.if_then_else(tx > 0, A[tx - 1], T.float32(0))


# wrong, wrong numbers: the last column's neighbour is the next row's first element, within the
#   buffer
# B == np.ravel(A[:32].reshape(4, 8) + np.pad(A[:32].reshape(4, 8)[:, 1:], ((0, 0), (0, 1))))
@T.prim_func(s_tir=True)
def RightNeighbourOverARowsEnd(A: T.Buffer(33), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx] + A[tx + 1]


# wrong, out of bounds: thread 7 loads elements 28 to 31 of 30
@T.prim_func(s_tir=True)
def VectorOverTheEnd(A: T.Buffer(30), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 8)
    B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]


# right: the vector's last element is in the guard
# B == A
@T.prim_func(s_tir=True)
def VectorsAndSingleElementsAtTheEnd(A: T.Buffer(30), B: T.Buffer(30)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 8)
    if tx * 4 + 3 < 30:
        B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
    else:
        for k in range(4):
            if tx * 4 + k < 30:
                B[tx * 4 + k] = A[tx * 4 + k]


# wrong, out of bounds: n[0] is 4, and r has 4 elements
# n = np.array([4])
@T.prim_func(s_tir=True)
def RegisterArrayAtALoadedIndexBeyondItsEnd(
    A: T.Buffer(32), n: T.Buffer(1, "int32"), B: T.Buffer(32)
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((4,))
    for k in range(4):
        r[k] = A[tx] + T.Cast("float32", k)
    B[tx] = r[n[0]]


# right: the indices are a permutation
# n = np.arange(32) * 5 % 32
# B == A[np.argsort(n)]
@T.prim_func(s_tir=True)
def ScatterToLoadedIndicesEachOnce(A: T.Buffer(32), n: T.Buffer(32, "int32"), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[n[tx]] = A[tx]
