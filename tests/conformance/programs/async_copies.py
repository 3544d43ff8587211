"""cp.async: groups, waits, barriers, and what may not be touched while a copy is in flight."""

from tvm.script import tirx as T


# right: the wait is for one's own copies
# needs sm_80
# B == A[:64]
@T.prim_func(s_tir=True)
def OwnElementBehindTheWaitNoBarrier(A: T.Buffer(256), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    with T.attr({"async_commit_queue_scope": 0}):
        T.s_tir.cp_async_raw("float32", X.data, tx, A.data, tx, 4)
    with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
        B[tx] = X[tx]


# wrong, race: a barrier does not wait for copies
# needs sm_80
# B == A[:64][::-1]
@T.prim_func(s_tir=True)
def CopyThatIsNeverWaitedFor(A: T.Buffer(256), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    with T.attr({"async_commit_queue_scope": 0}):
        T.s_tir.cp_async_raw("float32", X.data, tx, A.data, tx, 4)
    T.tvm_storage_sync("shared.dyn")
    B[tx] = X[63 - tx]


# wrong, race: the two groups that may be in flight are the only ones there are: the wait is for
#   nothing
# needs sm_80
# B == A[:64].reshape(2, 32)[:, ::-1].ravel()
@T.prim_func(s_tir=True)
def StepsThatCopyNothingCommitNoGroup(A: T.Buffer(256), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    with T.attr({"async_commit_queue_scope": 0}):
        T.s_tir.cp_async_raw("float32", X.data, tx + 0, A.data, tx + 0, 4)
    with T.attr({"async_commit_queue_scope": 0}):
        T.s_tir.cp_async_raw("float32", X.data, tx + 32, A.data, tx + 32, 4)
    for k in range(2):
        with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 2}):
            T.tvm_storage_sync("shared.dyn")
            B[k * 32 + tx] = X[k * 32 + 31 - tx]


# wrong, race: the copy may read C before the store or behind it
# needs sm_80
@T.prim_func(s_tir=True)
def StoreToACellThatACopyInFlightReads(A: T.Buffer(256), C: T.Buffer(64), B: T.Buffer(64)):
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 64) as tx:
            C[tx] = A[tx]
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 64) as tx:
            X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
            with T.attr({"async_commit_queue_scope": 0}):
                T.s_tir.cp_async_raw("float32", X.data, tx, C.data, tx, 4)
            C[tx] = T.float32(0)
            with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                B[tx] = X[tx]


# right: 8 bytes go to and come from multiples of 8
# needs sm_80
# B == A[34:66][::-1]
@T.prim_func(s_tir=True)
def CopiesOf8BytesToEvenElements(A: T.Buffer(256), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    with T.attr({"async_commit_queue_scope": 0}):
        T.s_tir.cp_async_raw("float32", X.data, tx * 2, A.data, tx * 2 + 2, 8)
    with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
        T.tvm_storage_sync("shared.dyn")
        B[tx] = X[63 - tx]


# right: where the guard is false nothing is read
# needs sm_80
# B == np.append(A, np.zeros(14))[::-1]
@T.prim_func(s_tir=True)
def GuardedCopiesBeyondTheEndStoreZeros(A: T.Buffer(50), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    with T.attr({"async_commit_queue_scope": 0}):
        copy_where(tx < 50, X.data, tx, A.data, tx, 4)
    with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
        T.tvm_storage_sync("shared.dyn")
        B[tx] = X[63 - tx]


# wrong, out of bounds: the last vector has elements 48 to 51, and A has 50
# needs sm_80
@T.prim_func(s_tir=True)
def CopyOf16BytesOverTheEnd(A: T.Buffer(50), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    with T.attr({"async_commit_queue_scope": 0}):
        copy_where(tx * 4 < 50, X.data, tx * 4, A.data, tx * 4, 16)
    with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
        T.tvm_storage_sync("shared.dyn")
        B[tx] = X[tx]


# wrong, out of bounds: X has 256 elements, and the last threads copy to 256 and beyond
# needs sm_80
@T.prim_func(s_tir=True)
def CopyToAPlaceBeyondTheBuffer(A: T.Buffer(256), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    with T.attr({"async_commit_queue_scope": 0}):
        T.s_tir.cp_async_raw("float32", X.data, tx + 200, A.data, tx, 4)
    with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
        T.tvm_storage_sync("shared.dyn")
        B[tx] = X[200 + tx % 56]
