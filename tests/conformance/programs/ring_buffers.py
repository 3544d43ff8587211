"""Rings of 2 to 4 slots, filled by stores and by asynchronous copies, with one barrier a round."""

from tvm.script import tirx as T


# right: a slot is stored to again two rounds behind its loads' barrier
# B == A.reshape(8, 64).sum(0)[::-1]
@T.prim_func(s_tir=True)
def RingOfThreeSlotsLoadsOneRoundBehind(A: T.Buffer(512), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((192,))
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(9):
        if k < 8:
            S[k % 3 * 64 + tx] = A[k * 64 + tx]
        T.tvm_storage_sync("shared")
        if k >= 1:
            r[0] = r[0] + S[(k - 1) % 3 * 64 + 63 - tx]
    B[tx] = r[0]


# right: a slot is stored to again two rounds behind its loads
# B == A.reshape(8, 64).sum(0)[::-1]
@T.prim_func(s_tir=True)
def RingOfFourSlotsLoadsTwoRoundsBehind(A: T.Buffer(512), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((256,))
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(10):
        if k < 8:
            S[k % 4 * 64 + tx] = A[k * 64 + tx]
        T.tvm_storage_sync("shared")
        if k >= 2:
            r[0] = r[0] + S[(k - 2) % 4 * 64 + 63 - tx]
    B[tx] = r[0]


# right: one group may be in flight: the next tile's
# needs sm_80
# B == A.reshape(8, 64).sum(0)[::-1]
@T.prim_func(s_tir=True)
def RingOfThreeSlotsCopiesTwoTilesAhead(A: T.Buffer(512), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    with T.attr({"async_commit_queue_scope": 0}):
        T.s_tir.cp_async_raw("float32", X.data, 0 + tx, A.data, 0 + tx, 4)
    with T.attr({"async_commit_queue_scope": 0}):
        T.s_tir.cp_async_raw("float32", X.data, 64 + tx, A.data, 64 + tx, 4)
    for k in range(8):
        with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 1}):
            T.tvm_storage_sync("shared.dyn")
        with T.attr({"async_commit_queue_scope": 0}):
            if k + 2 < 8:
                T.s_tir.cp_async_raw(
                    "float32",
                    X.data,
                    (k + 2) % 3 * 64 + tx,
                    A.data,
                    (k + 2) * 64 + tx,
                    4,
                )
        r[0] = r[0] + X[k % 3 * 64 + 63 - tx]
        T.evaluate(0)
    B[tx] = r[0]


# wrong, race: copies go to the slot that others still load from
# needs sm_80
# B == A.reshape(8, 64).sum(0)[::-1]
@T.prim_func(s_tir=True)
def RingOfTwoSlotsCopiesBeforeTheBarrier(A: T.Buffer(512), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    with T.attr({"async_commit_queue_scope": 0}):
        T.s_tir.cp_async_raw("float32", X.data, 0 + tx, A.data, 0 + tx, 4)
    for k in range(8):
        with T.attr({"async_commit_queue_scope": 0}):
            if k + 1 < 8:
                T.s_tir.cp_async_raw(
                    "float32",
                    X.data,
                    (k + 1) % 2 * 64 + tx,
                    A.data,
                    (k + 1) * 64 + tx,
                    4,
                )
        with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 1}):
            T.tvm_storage_sync("shared.dyn")
        r[0] = r[0] + X[k % 2 * 64 + 63 - tx]
        T.evaluate(0)
    B[tx] = r[0]
