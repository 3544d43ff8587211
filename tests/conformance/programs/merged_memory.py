"""Dynamic shared memory, in which TVM lays buffers over those that are dead."""

from tvm.script import tirx as T


# wrong, race: Y is laid where others still load X
# Q = whole(64)
# B == A[::-1] + Q[::-1]
@T.prim_func(s_tir=True)
def BytesOverFloatsThatOthersStillLoad(A: T.Buffer(64), Q: T.Buffer(64, "int8"), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
    Y = T.alloc_buffer((256,), "int8", scope="shared.dyn")
    r = T.alloc_local((1,))
    X[tx] = A[tx]
    T.tvm_storage_sync("shared")
    r[0] = X[63 - tx]
    Y[tx * 4] = Q[tx]
    T.tvm_storage_sync("shared")
    B[tx] = r[0] + T.Cast("float32", Y[(63 - tx) * 4])


# right: a barrier ends the loads of each buffer
# B == 9 * A[::-1]
@T.prim_func(s_tir=True)
def RoundsOfTwoBuffersInOnePlaceBarriersBetweenAll(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(3):
        X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        Y = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        X[tx] = A[tx]
        T.tvm_storage_sync("shared")
        r[0] = r[0] + X[63 - tx]
        T.tvm_storage_sync("shared")
        Y[tx] = A[tx] * T.float32(2)
        T.tvm_storage_sync("shared")
        r[0] = r[0] + Y[63 - tx]
        T.tvm_storage_sync("shared")
    B[tx] = r[0]


# wrong, uninitialized read: Z[64] to Z[127] hold what another buffer left there
@T.prim_func(s_tir=True)
def UnwrittenHalfOfABufferOverTwoDeadOnes(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
    Y = T.alloc_buffer((64,), "float32", scope="shared.dyn")
    Z = T.alloc_buffer((128,), "float32", scope="shared.dyn")
    r = T.alloc_local((1,))
    X[tx] = A[tx]
    Y[tx] = A[tx] + T.float32(1)
    T.tvm_storage_sync("shared")
    r[0] = X[63 - tx] + Y[63 - tx]
    T.tvm_storage_sync("shared")
    Z[tx] = r[0]
    T.tvm_storage_sync("shared")
    B[tx] = Z[63 - tx] + Z[127 - tx]


# wrong, race: Y is laid where others still load X
# B == 3 * A[::-1]
@T.prim_func(s_tir=True)
def BufferOverADeadOneNoBarrierBetween(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
    Y = T.alloc_buffer((64,), "float32", scope="shared.dyn")
    r = T.alloc_local((1,))
    X[tx] = A[tx]
    T.tvm_storage_sync("shared")
    r[0] = X[63 - tx]
    Y[tx] = A[tx] * T.float32(2)
    T.tvm_storage_sync("shared")
    B[tx] = r[0] + Y[63 - tx]
