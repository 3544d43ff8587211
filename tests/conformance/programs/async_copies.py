"""cp.async: groups, waits, barriers, and what may not be touched while a copy is in flight."""

from tvm.script import ir as I
from tvm.script import tirx as T


# right: the wait is for one's own copies
# needs sm_80
# A = whole(256)
# B == A[:64]
@I.ir_module
class OwnElementBehindTheWaitNoBarrier:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                with T.attr({"async_commit_queue_scope": 0}):
                    T.s_tir.cp_async_raw("float32", X.data, tx, A.data, tx, 4)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                    B[tx] = X[tx]


# right: groups end in the order of their commits
# needs sm_80
# A = whole(256)
# B == A[:64][::-1]
@I.ir_module
class WaitLeavesTheOtherGroupInFlight:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                with T.attr({"async_commit_queue_scope": 0}):
                    T.s_tir.cp_async_raw("float32", X.data, tx, A.data, tx, 4)
                with T.attr({"async_commit_queue_scope": 0}):
                    T.s_tir.cp_async_raw("float32", X.data, tx + 64, A.data, tx + 64, 4)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 1}):
                    T.tvm_storage_sync("shared.dyn")
                    B[tx] = X[63 - tx]


# wrong, race: a barrier does not wait for copies
# needs sm_80
# A = whole(256)
# B == A[:64][::-1]
@I.ir_module
class CopyThatIsNeverWaitedFor:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                with T.attr({"async_commit_queue_scope": 0}):
                    T.s_tir.cp_async_raw("float32", X.data, tx, A.data, tx, 4)
                T.tvm_storage_sync("shared.dyn")
                B[tx] = X[63 - tx]


# wrong, race: no barrier stands between the loads and the copies
# needs sm_80
# A = whole(256)
# B == A[:64][::-1] + A[64:128][::-1]
@I.ir_module
class CopyIntoATileThatOthersStillLoad:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                r = T.alloc_local((1,))
                X[tx] = A[tx]
                T.tvm_storage_sync("shared.dyn")
                r[0] = X[63 - tx]
                with T.attr({"async_commit_queue_scope": 0}):
                    T.s_tir.cp_async_raw("float32", X.data, tx, A.data, tx + 64, 4)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                    T.tvm_storage_sync("shared.dyn")
                    B[tx] = r[0] + X[63 - tx]


# wrong, race: the others' waits find no group: their copies stay in flight
# needs sm_80
# A = whole(256)
# B == A[:64][::-1]
@I.ir_module
class GroupCommittedByHalfOfTheThreads:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                T.s_tir.cp_async_raw("float32", X.data, tx, A.data, tx, 4)
                if tx < 32:
                    with T.attr({"async_commit_queue_scope": 0}):
                        T.evaluate(0)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                    T.tvm_storage_sync("shared.dyn")
                    B[tx] = X[63 - tx]


# wrong, misaligned access: 16 bytes go to a multiple of 16
# needs sm_80
# A = whole(256)
# B == A[:32]
@I.ir_module
class CopyOf16BytesToElement2:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                with T.attr({"async_commit_queue_scope": 0}):
                    T.s_tir.cp_async_raw("float32", X.data, tx * 4 + 2, A.data, tx * 4, 16)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                    T.tvm_storage_sync("shared.dyn")
                    B[tx] = X[tx + 2]


# wrong, race: the two groups that may be in flight are the only ones there are: the wait is for
#   nothing
# needs sm_80
# A = whole(256)
# B == A[:64].reshape(2, 32)[:, ::-1].ravel()
@I.ir_module
class StepsThatCopyNothingCommitNoGroup:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
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
# A = whole(256)
@I.ir_module
class StoreToACellThatACopyInFlightReads:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float32"), C: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
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


# right: who copies waits, and the barrier is for all
# needs sm_80
# A = whole(256)
# B == A[:64][::-1]
@I.ir_module
class CopiesAndWaitByTheFirstWarpAlone:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                if tx < 32:
                    with T.attr({"async_commit_queue_scope": 0}):
                        T.s_tir.cp_async_raw("float32", X.data, tx * 2, A.data, tx * 2, 4)
                        T.s_tir.cp_async_raw("float32", X.data, tx * 2 + 1, A.data, tx * 2 + 1, 4)
                    with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                        T.evaluate(0)
                T.tvm_storage_sync("shared.dyn")
                B[tx] = X[63 - tx]


# wrong, misaligned access: 16 bytes come from a multiple of 16
# needs sm_80
# A = whole(256)
# B == A[2:34]
@I.ir_module
class CopyOf16BytesFromElement2:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                with T.attr({"async_commit_queue_scope": 0}):
                    T.s_tir.cp_async_raw("float32", X.data, tx * 4, A.data, tx * 4 + 2, 16)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                    T.tvm_storage_sync("shared.dyn")
                    B[tx] = X[tx]


# right: 8 bytes go to and come from multiples of 8
# needs sm_80
# A = whole(256)
# B == A[34:66][::-1]
@I.ir_module
class CopiesOf8BytesToEvenElements:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                with T.attr({"async_commit_queue_scope": 0}):
                    T.s_tir.cp_async_raw("float32", X.data, tx * 2, A.data, tx * 2 + 2, 8)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                    T.tvm_storage_sync("shared.dyn")
                    B[tx] = X[63 - tx]


# right: where the guard is false nothing is read
# needs sm_80
# A = whole(50)
# B == np.append(A, np.zeros(14))[::-1]
@I.ir_module
class GuardedCopiesBeyondTheEndStoreZeros:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((50,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                with T.attr({"async_commit_queue_scope": 0}):
                    copy_where(tx < 50, X.data, tx, A.data, tx, 4)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                    T.tvm_storage_sync("shared.dyn")
                    B[tx] = X[63 - tx]


# wrong, out of bounds: the last vector has elements 48 to 51, and A has 50
# needs sm_80
# A = whole(50)
@I.ir_module
class CopyOf16BytesOverTheEnd:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((50,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                with T.attr({"async_commit_queue_scope": 0}):
                    copy_where(tx * 4 < 50, X.data, tx * 4, A.data, tx * 4, 16)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                    T.tvm_storage_sync("shared.dyn")
                    B[tx] = X[tx]


# wrong, out of bounds: X has 256 elements, and the last threads copy to 256 and beyond
# needs sm_80
# A = whole(256)
@I.ir_module
class CopyToAPlaceBeyondTheBuffer:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                X = T.alloc_buffer((256,), "float32", scope="shared.dyn")
                with T.attr({"async_commit_queue_scope": 0}):
                    T.s_tir.cp_async_raw("float32", X.data, tx + 200, A.data, tx, 4)
                with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}):
                    T.tvm_storage_sync("shared.dyn")
                    B[tx] = X[200 + tx % 56]
