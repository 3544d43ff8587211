"""Shared memory that a loop makes anew: it has one place, and what is there may still be in use."""

from tvm.script import ir as I
from tvm.script import tirx as T


# wrong, race: the next round's buffer lies in the same place: its stores do not wait for the
#   loads
# A = whole(256)
# B == A.reshape(4, 64).sum(0)[::-1]
@I.ir_module
class BufferOfARoundNoBarrierBehindItsLoads:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                r = T.alloc_local((1,))
                r[0] = T.float32(0)
                for k in range(4):
                    X = T.alloc_shared((64,))
                    X[tx] = A[k * 64 + tx]
                    T.tvm_storage_sync("shared")
                    r[0] = r[0] + X[63 - tx]
                B[tx] = r[0]


# wrong, race: the copy of the second round may arrive before that of the first
# needs sm_80
# A = whole(256)
# B == A[64:].reshape(3, 64).sum(0)
@I.ir_module
class CopiesToARoundsBufferThatNothingWaitsForInTheFirstRound:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                r = T.alloc_local((1,))
                r[0] = T.float32(0)
                for k in range(4):
                    X = T.alloc_shared((64,))
                    with T.attr({"async_commit_queue_scope": 0}):
                        T.s_tir.cp_async_raw("float32", X.data, tx, A.data, k * 64 + tx, 4)
                    if 0 < k:
                        with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                            r[0] = r[0] + X[tx]
                B[tx] = r[0]
