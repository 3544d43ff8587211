"""Shuffles of a warp: masks, lanes that take part, what they hold."""

from tvm.script import tirx as T


# right: all lanes that the mask names come to the shuffle
# B == np.concatenate([A[:8] + A[8:16], 2 * A[8:16], A[16:]])
@T.prim_func(s_tir=True)
def HalfAWarpShufflesWithTheMaskOfItsLanes(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    if tx < 16:
        r[0] = r[0] + T.tvm_warp_shuffle_down(T.uint32(0xFFFF), r[0], 8, 16, 32)
    B[tx] = r[0]


# wrong, uninitialized read: lane 15 takes what lane 16 never wrote
@T.prim_func(s_tir=True)
def ShuffleOfARegisterThatHalfOfTheLanesNeverWrote(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    if tx < 16:
        r[0] = A[tx]
    B[tx] = T.tvm_warp_shuffle_down(T.uint32(0xFFFFFFFF), r[0], 1, 32, 32)


# wrong, wrong numbers: lanes below the distance get their own value, and add it twice
# B == np.cumsum(A)
@T.prim_func(s_tir=True)
def ScanOfAWarpWithoutItsGuard(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    t = T.alloc_local((1,))
    r[0] = A[tx]
    for k in range(5):
        t[0] = T.tvm_warp_shuffle_up(T.uint32(0xFFFFFFFF), r[0], T.shift_left(1, k), 32, 32)
        r[0] = r[0] + t[0]
    B[tx] = r[0]


# wrong, wrong numbers: every lane has seen half of the others
# B == np.full(32, A.max())
@T.prim_func(s_tir=True)
def ButterflyThatLeavesOutTheDistance4(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    r[0] = T.max(r[0], T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 16, 32, 32))
    r[0] = T.max(r[0], T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 8, 32, 32))
    r[0] = T.max(r[0], T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 2, 32, 32))
    r[0] = T.max(r[0], T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 1, 32, 32))
    B[tx] = r[0]


# right: a width of 8 counts lanes within their eight
# B == np.repeat(A[::8], 8)
@T.prim_func(s_tir=True)
def BroadcastWithinEachEightLanes(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    B[tx] = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), r[0], 0, 8, 32)


# right: the branch is the same for all lanes of a warp
# B == np.append(np.full(32, A[0]), A[32:].reshape(16, 2)[:, ::-1])
@T.prim_func(s_tir=True)
def EachWarpItsOwnShuffle(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    if tx < 32:
        B[tx] = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), r[0], 0, 32, 32)
    else:
        B[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 1, 32, 32)


# right: lanes that are not there need not come
# B == np.ravel(A.reshape(24, 2)[:, ::-1])
@T.prim_func(s_tir=True)
def ShuffleInAWarpOf16LanesWithTheMaskOf32(A: T.Buffer(48), B: T.Buffer(48)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 48)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    B[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 1, 32, 32)


# right: all lanes load the same flag
# n = np.array([1])
# B == np.roll(A, 16)
@T.prim_func(s_tir=True)
def ShuffleBehindALoadedConditionThatAllLanesShare(
    A: T.Buffer(32), n: T.Buffer(1, "int32"), B: T.Buffer(32)
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    if n[0] > 0:
        r[0] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 16, 32, 32)
    B[tx] = r[0]


# wrong, divergent shuffle: all lanes that a mask names must run the same shuffle
@T.prim_func(s_tir=True)
def EachHalfOfAWarpItsOwnShuffleWithTheMaskOfAllLanes(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    if tx < 16:
        B[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 1, 32, 32)
    else:
        B[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 2, 32, 32)


# wrong, divergent shuffle: from the second round on lanes that the mask names stand at the
#   barrier
@T.prim_func(s_tir=True)
def ShuffleInALoopWhoseTripCountIsTheLanes(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    for k in range(tx // 8 + 1):
        r[0] = r[0] + T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), r[0], 1, 32, 32)
    T.tvm_storage_sync("shared")
    B[tx] = r[0]


# wrong, divergent shuffle: the values of lanes that have ended are undefined
@T.prim_func(s_tir=True)
def ShuffleFromLanesThatHaveReturned(A: T.Buffer(32), B: T.Buffer(16)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    if tx >= 16:
        T.evaluate(T.thread_return())
    B[tx] = T.tvm_warp_shuffle_down(T.uint32(0xFFFFFFFF), r[0], 8, 32, 32)


# wrong, wrong numbers: thread 0 has the sum of its own warp alone
# B == A.sum(keepdims=True)
@T.prim_func(s_tir=True)
def SumOf64ThreadsByTheShufflesOfAWarp(A: T.Buffer(64), B: T.Buffer(1)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    r = T.alloc_local((1,))
    r[0] = A[tx]
    for k in range(5):
        r[0] = r[0] + T.tvm_warp_shuffle_down(
            T.uint32(0xFFFFFFFF), r[0], T.shift_right(16, k), 32, 32
        )
    if tx == 0:
        B[0] = r[0]
