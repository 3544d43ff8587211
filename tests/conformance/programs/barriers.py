"""Barriers between stores to shared memory and loads from it, and barriers that some never pass."""

from tvm.script import tirx as T


# wrong, race: nothing orders the load behind the other warp's store
# B == A[::-1]
@T.prim_func(s_tir=True)
def LoadOfAnotherWarpsCellNoBarrier(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    S[tx] = A[tx]
    B[tx] = S[63 - tx]


# wrong, race: since Volta the lanes of a warp are not in step
# B == A[::-1]
@T.prim_func(s_tir=True)
def LoadOfAnotherLanesCellNoBarrier(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_shared((64,))
    S[tx] = A[tx]
    B[tx] = S[31 - tx]


# right: a slot is used again two barriers later
# B == A.reshape(4, 64).sum(0)[::-1]
@T.prim_func(s_tir=True)
def ThreeSlotsOneBarrier(A: T.Buffer(256), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((192,))
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(4):
        S[(k % 3) * 64 + tx] = A[k * 64 + tx]
        T.tvm_storage_sync("shared")
        r[0] = r[0] + S[(k % 3) * 64 + 63 - tx]
    B[tx] = r[0]


# right: no other value is ever there
# B == A + 7
@T.prim_func(s_tir=True)
def AllThreadsStoreOneValueAndLoadItBack(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    S[0] = T.float32(7)
    B[tx] = S[0] + A[tx]


# wrong, divergent barrier: the second warp comes to the barrier once more than the first
@T.prim_func(s_tir=True)
def BarrierInALoopWhoseTripCountIsTheThreads(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    for k in range(tx // 32 + 1):
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
    B[tx] = S[tx]


# wrong, race: block 0 loads other lanes' cells with no barrier
@T.prim_func(s_tir=True)
def BarrierInOneBlockAndTheOtherNeedsItToo(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_shared((64,))
    S[tx] = A[bx * 32 + tx]
    if bx == 1:
        T.tvm_storage_sync("shared")
    B[bx * 32 + tx] = S[31 - tx]


# right: the count is loaded, and the same for all threads of a block
# n = np.array([1, 3])
# B == np.concatenate([A[:32][::-1], 3 * A[32:][::-1]])
@T.prim_func(s_tir=True)
def BarriersInALoopWhoseTripCountIsTheBlocks(
    A: T.Buffer(64), n: T.Buffer(2, "int32"), B: T.Buffer(64)
):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_shared((64,))
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(n[bx]):
        S[tx] = A[bx * 32 + tx]
        T.tvm_storage_sync("shared")
        r[0] = r[0] + S[31 - tx]
        T.tvm_storage_sync("shared")
    B[bx * 32 + tx] = r[0]


# wrong, race: block 0 leaves its loop before it comes to a barrier
# n = np.array([1, 3])
@T.prim_func(s_tir=True)
def BlockOfOneRoundHasNoBarrierOfItsOwn(A: T.Buffer(64), n: T.Buffer(2, "int32"), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_shared((64,))
    for k in range(n[bx]):
        S[tx] = A[bx * 32 + tx] + T.float32(1)
        if k + 1 < n[bx] or bx == 1:
            T.tvm_storage_sync("shared")
    B[bx * 32 + tx] = S[31 - tx]


# right: all threads of the block load the same flag
# n = np.array([1])
# B == A[::-1]
@T.prim_func(s_tir=True)
def BarrierBehindALoadedConditionThatAllThreadsShare(
    A: T.Buffer(64), n: T.Buffer(1, "int32"), B: T.Buffer(64)
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    S[tx] = A[tx]
    if n[0] > 0:
        T.tvm_storage_sync("shared")
        B[tx] = S[63 - tx]
    else:
        B[tx] = S[tx]


# wrong, divergent barrier: every other thread loads 0 and never comes
# n = np.arange(64) % 2
@T.prim_func(s_tir=True)
def BarrierBehindALoadedConditionOfEachThread(
    A: T.Buffer(64), n: T.Buffer(64, "int32"), B: T.Buffer(64)
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    S[tx] = A[tx]
    if n[tx] > 0:
        T.tvm_storage_sync("shared")
    B[tx] = S[tx]


# wrong, divergent barrier: threads that no longer add never come to it
# B == A.sum(keepdims=True)
@T.prim_func(s_tir=True)
def TreeOfSumsBarrierWithinTheBranch(A: T.Buffer(64), B: T.Buffer(1)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    for k in range(6):
        if tx < T.shift_right(32, k):
            S[tx] = S[tx] + S[tx + T.shift_right(32, k)]
            T.tvm_storage_sync("shared")
    if tx == 0:
        B[0] = S[0]


# wrong, race: thread 0 counts down while others still load the counter
# B == 3 * A
@T.prim_func(s_tir=True)
def WhileLoopOnASharedCounterOneBarrier(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,), "int32")
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    if tx == 0:
        S[0] = 3
    T.tvm_storage_sync("shared")
    while S[0] > 0:
        r[0] = r[0] + A[tx]
        if tx == 0:
            S[0] = S[0] - 1
        T.tvm_storage_sync("shared")
    B[tx] = r[0]


# right: there is no barrier behind
# B == A
@T.prim_func(s_tir=True)
def ThreadsBeyondTheEndReturn(A: T.Buffer(50), B: T.Buffer(50)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    if tx >= 50:
        T.evaluate(T.thread_return())
    B[tx] = A[tx]


# wrong, uninitialized read: S[32] to S[63] are never stored
@T.prim_func(s_tir=True)
def WarpThatReturnsBeforeItStoredWhatOthersLoad(A: T.Buffer(64), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    if tx >= 32:
        T.evaluate(T.thread_return())
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = S[63 - tx]


# right: loads are between two barriers
# B == A.reshape(4, 64).sum(0)[::-1]
@T.prim_func(s_tir=True)
def LoopWithBothBarriers(A: T.Buffer(256), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,))
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(4):
        S[tx] = A[k * 64 + tx]
        T.tvm_storage_sync("shared")
        r[0] = r[0] + S[63 - tx]
        T.tvm_storage_sync("shared")
    B[tx] = r[0]
