"""Shared memory that a loop makes anew: it has one place, and what is there may still be in use."""

from tvm.script import tirx as T


# wrong, race: the next round's buffer lies in the same place: its stores do not wait for the
#   loads
# B == A.reshape(4, 64).sum(0)[::-1]
@T.prim_func(s_tir=True)
def BufferOfARoundNoBarrierBehindItsLoads(A: T.Buffer(256), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(4):
        X = T.alloc_shared((64,))
        X[tx] = A[k * 64 + tx]
        T.tvm_storage_sync("shared")
        r[0] = r[0] + X[63 - tx]
    B[tx] = r[0]
