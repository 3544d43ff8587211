"""Bulk copies, mbarriers and roles of warps: who waits for whom, and what a wait is good for."""

from tvm.script import ir as I
from tvm.script import tirx as T


# right: each thread's wait makes the copy's bytes visible to it
# needs sm_90
# A = whole(512)
# B == A[:64]
@I.ir_module
class BulkCopyForWhichAllThreadsWait:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, race: the others know nothing of the copy
# needs sm_90
# A = whole(512)
@I.ir_module
class BulkCopyForWhichItsThreadAloneWaits:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                    T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# right: the barrier makes known to the others what the first knows
# needs sm_90
# A = whole(512)
# B == A[:64]
@I.ir_module
class BulkCopyForWhichOneThreadWaitsAndABarrier:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                    T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                T.tvm_storage_sync("shared")
                B[tx] = S[tx]


# right: the barrier of a warp orders memory among its lanes
# needs sm_90
# A = whole(512)
# B == A[:64]
@I.ir_module
class BulkCopyForWhichALaneOfEachWarpWaitsAndABarrierOfTheWarp:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                if tx % 32 == 0:
                    T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                T.cuda.warp_sync()
                B[tx] = S[tx]


# wrong, race: a barrier of a warp tells the other warp nothing
# needs sm_90
# A = whole(512)
@I.ir_module
class BulkCopyForWhichALaneOfTheFirstWarpWaitsAndABarrierOfEachWarp:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                    T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                T.cuda.warp_sync()
                B[tx] = S[tx]


# right: the phase lacks the arrival until then, so that it cannot end before
# needs sm_90
# A = whole(512)
# B == A[:64]
@I.ir_module
class BytesAnnouncedBehindTheCopy:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# right: the bytes of both are one sum
# needs sm_90
# A = whole(512)
# B == A[:64]
@I.ir_module
class TwoBulkCopiesAnnouncedTogether:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        128,
                        bar.access_ptr("r", offset=0),
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=32),
                        A.access_ptr("r", offset=32),
                        128,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# right: expect_tx adds bytes, and the arrival comes behind it
# needs sm_90
# A = whole(512)
# B == A[:64]
@I.ir_module
class AnnouncementAndArrivalApart:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.expect_tx.relaxed.cta.shared::cta.b64"](
                        bar.access_ptr("r"), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                    T.ptx["mbarrier.arrive.shared.b64"](bar.access_ptr("r", offset=0))
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, race: the arrival ends the phase, which lacks no bytes yet
# needs sm_90
# A = whole(512)
@I.ir_module
class ArrivalInFrontOfTheAnnouncement:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.shared.b64"](bar.access_ptr("r", offset=0))
                    T.ptx["mbarrier.expect_tx.relaxed.cta.shared::cta.b64"](
                        bar.access_ptr("r"), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, race: either may arrive last
# needs sm_90
# A = whole(512)
@I.ir_module
class TwoBulkCopiesInFlightToOnePlace:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 512
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=64),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, race: either may arrive last there
# needs sm_90
# A = whole(512)
@I.ir_module
class TwoBulkCopiesInFlightThatOverlapBy16Bytes:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        128,
                        bar.access_ptr("r", offset=0),
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=28),
                        A.access_ptr("r", offset=32),
                        128,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, misaligned access: 1000 bytes are no multiple of 16
# needs sm_90
# A = whole(512)
@I.ir_module
class BulkCopyOf250Floats:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 1000
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        1000,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, misaligned access: a tensor's part begins at a multiple of 16 bytes
# needs sm_90
# A = whole(512)
@I.ir_module
class BulkCopyFromTheSecondFloatOn:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=1),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, misaligned access: its place in shared memory is at a multiple of 16 bytes
# needs sm_90
# A = whole(512)
@I.ir_module
class BulkCopyToTheSecondFloat:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=1),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx + 1]


# right: each use of a stage waits for a phase of its own
# needs sm_90
# A = whole(512)
# B == 2 * (A[:64] + A[64:128] + A[128:192])
@I.ir_module
class TwoRoundsOfThreeTilesInTwoStagesCountedThrough:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                f = T.alloc_local((1,), "float32")
                f[0] = T.float32(0)
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                for round in range(2):
                    for k in range(3):
                        if tx == 0:
                            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                                bar.access_ptr("r", offset=(round * 3 + k) % 2), 256
                            )
                            T.ptx[
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                            ](
                                S.access_ptr("r", offset=(round * 3 + k) % 2 * 64),
                                A.access_ptr("r", offset=k * 64),
                                256,
                                bar.access_ptr("r", offset=(round * 3 + k) % 2),
                            )
                        T.cuda.mbarrier_wait(
                            bar.access_ptr("r", offset=(round * 3 + k) % 2),
                            (round * 3 + k) // 2 % 2,
                        )
                        f[0] = f[0] + S[(round * 3 + k) % 2 * 64 + tx]
                        T.ptx["fence.proxy.async.shared::cta"]()
                        T.tvm_storage_sync("shared")
                B[tx] = f[0]


# wrong, race: a round ends in the middle of the stages: the second one's waits are for phases
#   long past
# needs sm_90
# A = whole(512)
# B == 2 * (A[:64] + A[64:128] + A[128:192])
@I.ir_module
class TwoRoundsOfThreeTilesInTwoStagesParitiesCountedAnew:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                f = T.alloc_local((1,), "float32")
                f[0] = T.float32(0)
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                for round in range(2):
                    for k in range(3):
                        if tx == 0:
                            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                                bar.access_ptr("r", offset=k % 2), 256
                            )
                            T.ptx[
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                            ](
                                S.access_ptr("r", offset=k % 2 * 64),
                                A.access_ptr("r", offset=k * 64),
                                256,
                                bar.access_ptr("r", offset=k % 2),
                            )
                        T.cuda.mbarrier_wait(bar.access_ptr("r", offset=k % 2), k // 2 % 2)
                        f[0] = f[0] + S[k % 2 * 64 + tx]
                        T.ptx["fence.proxy.async.shared::cta"]()
                        T.tvm_storage_sync("shared")
                B[tx] = f[0]


# wrong, mbarrier: an mbarrier is opaque: what threads store there is another state of it
# needs sm_90
# A = whole(512)
@I.ir_module
class StoreOverAnMbarrierThatIsInUse:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 5:
                    bar[0] = T.uint64(0)
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, mbarrier: what the bits of an mbarrier are is nobody's business
# needs sm_90
# A = whole(512)
@I.ir_module
class MbarrierThatIsReadAsANumber:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx] + T.Cast("float32", bar[0])


# right: its memory is memory again
# needs sm_90
# A = whole(512)
# B == A[:64] + 3
@I.ir_module
class PlaceOfAnMbarrierThatIsInvalidated:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.inval.shared.b64"](bar.access_ptr("r"))
                    bar[0] = T.uint64(3)
                T.tvm_storage_sync("shared")
                B[tx] = S[tx] + T.Cast("float32", bar[0])


# wrong, mbarrier: it must be invalidated first
# needs sm_90
# A = whole(512)
@I.ir_module
class MbarrierThatIsInitializedTwice:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        A.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# right: each warp lets go of a stage by one lane behind a barrier of the warp
# needs sm_90
# A = whole(512)
# B == A[:256].reshape(4, 64).sum(0)
@I.ir_module
class TwoWarpsUseWhatAThirdOneCopies:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 96) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                f = T.alloc_local((1,), "float32")
                f[0] = T.float32(0)
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=2), 2)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=3), 2)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx < 32:
                    if tx == 0:
                        for k in range(4):
                            T.cuda.mbarrier_wait(
                                bar.access_ptr("r", offset=k % 2 + 2), (k // 2 + 1) % 2
                            )
                            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                                bar.access_ptr("r", offset=k % 2), 256
                            )
                            T.ptx[
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                            ](
                                S.access_ptr("r", offset=k % 2 * 64),
                                A.access_ptr("r", offset=k * 64),
                                256,
                                bar.access_ptr("r", offset=k % 2),
                            )
                else:
                    for k in range(4):
                        T.cuda.mbarrier_wait(bar.access_ptr("r", offset=k % 2), k // 2 % 2)
                        f[0] = f[0] + S[k % 2 * 64 + (tx - 32) % 64]
                        T.ptx["fence.proxy.async.shared::cta"]()
                        T.cuda.warp_sync()
                        if tx % 32 == 0:
                            T.ptx["mbarrier.arrive.shared.b64"](
                                bar.access_ptr("r", offset=k % 2 + 2)
                            )
                if tx >= 32:
                    B[tx - 32] = f[0]


# wrong, race: the other one may still read it when it is copied to again
# needs sm_90
# A = whole(512)
# B == A[:256].reshape(4, 64).sum(0)
@I.ir_module
class OneOfTwoWarpsLetsGoOfAStageForBoth:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 96) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                f = T.alloc_local((1,), "float32")
                f[0] = T.float32(0)
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=2), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=3), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx < 32:
                    if tx == 0:
                        for k in range(4):
                            T.cuda.mbarrier_wait(
                                bar.access_ptr("r", offset=k % 2 + 2), (k // 2 + 1) % 2
                            )
                            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                                bar.access_ptr("r", offset=k % 2), 256
                            )
                            T.ptx[
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                            ](
                                S.access_ptr("r", offset=k % 2 * 64),
                                A.access_ptr("r", offset=k * 64),
                                256,
                                bar.access_ptr("r", offset=k % 2),
                            )
                else:
                    for k in range(4):
                        T.cuda.mbarrier_wait(bar.access_ptr("r", offset=k % 2), k // 2 % 2)
                        f[0] = f[0] + S[k % 2 * 64 + (tx - 32) % 64]
                        T.ptx["fence.proxy.async.shared::cta"]()
                        T.cuda.warp_sync()
                        if tx == 32:
                            T.ptx["mbarrier.arrive.shared.b64"](
                                bar.access_ptr("r", offset=k % 2 + 2)
                            )
                if tx >= 32:
                    B[tx - 32] = f[0]


# wrong, race: the next copy to it may arrive before
# needs sm_90
# A = whole(512)
# B == A[:256].reshape(4, 64).sum(0)
@I.ir_module
class StageThatIsLetGoBeforeItIsRead:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 96) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                f = T.alloc_local((1,), "float32")
                f[0] = T.float32(0)
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=2), 2)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=3), 2)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx < 32:
                    if tx == 0:
                        for k in range(4):
                            T.cuda.mbarrier_wait(
                                bar.access_ptr("r", offset=k % 2 + 2), (k // 2 + 1) % 2
                            )
                            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                                bar.access_ptr("r", offset=k % 2), 256
                            )
                            T.ptx[
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                            ](
                                S.access_ptr("r", offset=k % 2 * 64),
                                A.access_ptr("r", offset=k * 64),
                                256,
                                bar.access_ptr("r", offset=k % 2),
                            )
                else:
                    for k in range(4):
                        T.cuda.mbarrier_wait(bar.access_ptr("r", offset=k % 2), k // 2 % 2)
                        T.ptx["fence.proxy.async.shared::cta"]()
                        T.cuda.warp_sync()
                        if tx % 32 == 0:
                            T.ptx["mbarrier.arrive.shared.b64"](
                                bar.access_ptr("r", offset=k % 2 + 2)
                            )
                        f[0] = f[0] + S[k % 2 * 64 + (tx - 32) % 64]
                if tx >= 32:
                    B[tx - 32] = f[0]


# wrong, race: the other lanes may still read it: since Volta the lanes of a warp are not in step
# needs sm_90
# A = whole(512)
# B == A[:256].reshape(4, 64).sum(0)
@I.ir_module
class StageThatIsLetGoByALaneWithNoBarrierOfItsWarp:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 96) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                f = T.alloc_local((1,), "float32")
                f[0] = T.float32(0)
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=2), 2)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=3), 2)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx < 32:
                    if tx == 0:
                        for k in range(4):
                            T.cuda.mbarrier_wait(
                                bar.access_ptr("r", offset=k % 2 + 2), (k // 2 + 1) % 2
                            )
                            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                                bar.access_ptr("r", offset=k % 2), 256
                            )
                            T.ptx[
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                            ](
                                S.access_ptr("r", offset=k % 2 * 64),
                                A.access_ptr("r", offset=k * 64),
                                256,
                                bar.access_ptr("r", offset=k % 2),
                            )
                else:
                    for k in range(4):
                        T.cuda.mbarrier_wait(bar.access_ptr("r", offset=k % 2), k // 2 % 2)
                        f[0] = f[0] + S[k % 2 * 64 + (tx - 32) % 64]
                        T.ptx["fence.proxy.async.shared::cta"]()
                        if tx % 32 == 0:
                            T.ptx["mbarrier.arrive.shared.b64"](
                                bar.access_ptr("r", offset=k % 2 + 2)
                            )
                if tx >= 32:
                    B[tx - 32] = f[0]


# wrong, deadlock: the third arrival never comes
# needs sm_90
# A = whole(512)
# B == A[:256].reshape(4, 64).sum(0)
@I.ir_module
class StagesThatWaitForThreeWarpsOfWhichThereAreTwo:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 96) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                f = T.alloc_local((1,), "float32")
                f[0] = T.float32(0)
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=2), 3)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=3), 3)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx < 32:
                    if tx == 0:
                        for k in range(4):
                            T.cuda.mbarrier_wait(
                                bar.access_ptr("r", offset=k % 2 + 2), (k // 2 + 1) % 2
                            )
                            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                                bar.access_ptr("r", offset=k % 2), 256
                            )
                            T.ptx[
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                            ](
                                S.access_ptr("r", offset=k % 2 * 64),
                                A.access_ptr("r", offset=k * 64),
                                256,
                                bar.access_ptr("r", offset=k % 2),
                            )
                else:
                    for k in range(4):
                        T.cuda.mbarrier_wait(bar.access_ptr("r", offset=k % 2), k // 2 % 2)
                        f[0] = f[0] + S[k % 2 * 64 + (tx - 32) % 64]
                        T.ptx["fence.proxy.async.shared::cta"]()
                        T.cuda.warp_sync()
                        if tx % 32 == 0:
                            T.ptx["mbarrier.arrive.shared.b64"](
                                bar.access_ptr("r", offset=k % 2 + 2)
                            )
                if tx >= 32:
                    B[tx - 32] = f[0]


# wrong, divergent barrier: the warp that copies never comes there
# needs sm_90
# A = whole(512)
# B == A[:256].reshape(4, 64).sum(0)
@I.ir_module
class BarrierOfTheBlockWithinARole:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 96) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                f = T.alloc_local((1,), "float32")
                f[0] = T.float32(0)
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=2), 2)
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=3), 2)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx < 32:
                    if tx == 0:
                        for k in range(4):
                            T.cuda.mbarrier_wait(
                                bar.access_ptr("r", offset=k % 2 + 2), (k // 2 + 1) % 2
                            )
                            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                                bar.access_ptr("r", offset=k % 2), 256
                            )
                            T.ptx[
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                            ](
                                S.access_ptr("r", offset=k % 2 * 64),
                                A.access_ptr("r", offset=k * 64),
                                256,
                                bar.access_ptr("r", offset=k % 2),
                            )
                else:
                    for k in range(4):
                        T.cuda.mbarrier_wait(bar.access_ptr("r", offset=k % 2), k // 2 % 2)
                        f[0] = f[0] + S[k % 2 * 64 + (tx - 32) % 64]
                        T.ptx["fence.proxy.async.shared::cta"]()
                        T.tvm_storage_sync("shared")
                        if tx % 32 == 0:
                            T.ptx["mbarrier.arrive.shared.b64"](
                                bar.access_ptr("r", offset=k % 2 + 2)
                            )
                if tx >= 32:
                    B[tx - 32] = f[0]


# wrong, divergent warp instruction: all lanes that the mask names must run it together
# needs sm_90
# A = whole(512)
@I.ir_module
class LaneElectedInAPartOfItsWarp:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx < 16:
                    if T.cuda.elect_sync() != T.uint32(0):
                        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                            bar.access_ptr("r", offset=0), 256
                        )
                        T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                            S.access_ptr("r", offset=0),
                            A.access_ptr("r", offset=0),
                            256,
                            bar.access_ptr("r", offset=0),
                        )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, deadlock: three warpgroups of 240 registers a thread are 92,160, and a multiprocessor has
#   65,536: setmaxnreg waits until there are enough
# needs sm_90
# A = whole(512)
@I.ir_module
class RegistersAskedForThatThereAreNot:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((384,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 384) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                T.ptx["setmaxnreg.inc.sync.aligned.u32"](240)
                S[tx] = A[tx]
                B[tx] = S[tx]


# right: 40 and twice 232 of 128 threads are 64,512
# needs sm_90
# A = whole(512)
# B == A[:384]
@I.ir_module
class RegistersHandedFromOneWarpgroupToTwoOthers:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((384,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 384) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx < 128:
                    T.ptx["setmaxnreg.dec.sync.aligned.u32"](40)
                if tx >= 128:
                    T.ptx["setmaxnreg.inc.sync.aligned.u32"](232)
                S[tx] = A[tx]
                B[tx] = S[tx]


# right: rows outside are zeros, and all of the box's bytes arrive
# needs sm_90
# A = whole(1152)
# B == np.pad(A.reshape(32, 36), ((8, 8), (0, 28)))[-4 + 8:-4 + 16, :32].ravel()
@I.ir_module
class TileThatBeginsFourRowsAboveItsTensor:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1152,), "float32"), B: T.Buffer((256,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, A.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 1024
                    )
                    T.ptx[
                        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                    ](S.access_ptr("r", offset=0), T.address_of(tm), 0, -4, bar.access_ptr("r"))
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                for i in range(4):
                    B[i * 64 + tx] = S[i * 64 + tx]


# wrong, deadlock: zeros outside count, too: 512 bytes more arrive
# needs sm_90
# A = whole(1152)
@I.ir_module
class TileOfWhichTheBytesInsideOfItsTensorAloneAreAnnounced:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1152,), "float32"), B: T.Buffer((256,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, A.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 512
                    )
                    T.ptx[
                        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                    ](S.access_ptr("r", offset=0), T.address_of(tm), 0, -4, bar.access_ptr("r"))
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                for i in range(4):
                    B[i * 64 + tx] = S[i * 64 + tx]


# wrong, tensor map: a box of 8 by 32 halves is 512 bytes, and 1,024 are announced
# needs sm_90
# A = whole(1152)
@I.ir_module
class TensorMapOfHalvesForATensorOfFloats:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1152,), "float32"), B: T.Buffer((256,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, A.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float16", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 1024
                    )
                    T.ptx[
                        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                    ](S.access_ptr("r", offset=0), T.address_of(tm), 0, 0, bar.access_ptr("r"))
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                for i in range(4):
                    B[i * 64 + tx] = S[i * 64 + tx]


# wrong, race: no statement stores to C, and TVM says of every kernel that buffers do not alias:
#   the compiler takes C for constant, and an H100 loaded what was there before
# needs sm_90
# A = whole(512)
# C, B == np.pad(A[:256].reshape(8, 32), ((0, 24), (0, 4)), constant_values=np.nan).ravel(),
#   A[:64]
@I.ir_module
class TileStoredAndReadBackByAllThreads:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(4):
                    S[i * 64 + tx] = A[i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 0, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.wait_group"](0)
                T.tvm_storage_sync("shared")
                B[tx] = C[tx // 32 * 36 + tx % 32]


# right: a kernel begins when all that the one before wrote is there
# needs sm_90
# A = whole(512)
# C, B == np.pad(A[:256].reshape(8, 32), ((0, 24), (0, 4)), constant_values=np.nan).ravel(),
#   A[:64]
@I.ir_module
class TileStoredAndReadInTheNextKernel:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(4):
                    S[i * 64 + tx] = A[i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 0, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.wait_group"](0)
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                B[tx] = C[tx // 32 * 36 + tx % 32]


# wrong, race: wait_group.read is until shared memory was read, not until the tensor is written
# needs sm_90
# A = whole(512)
# C, B == np.pad(A[:256].reshape(8, 32), ((0, 24), (0, 4)), constant_values=np.nan).ravel(),
#   A[:64]
@I.ir_module
class TileStoredAndReadBackBehindAWaitForItsReadingAlone:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(4):
                    S[i * 64 + tx] = A[i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 0, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.wait_group.read"](0)
                T.tvm_storage_sync("shared")
                B[tx] = C[tx // 32 * 36 + tx % 32]


# right: that is what wait_group.read is for
# needs sm_90
# A = whole(512)
# C, B == np.pad(A[:256].reshape(8, 32), ((0, 24), (0, 4)), constant_values=np.nan).ravel(),
#   full(64, 5)
@I.ir_module
class TileStoredAndItsPlaceUsedAgainBehindAWaitForItsReading:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(4):
                    S[i * 64 + tx] = A[i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 0, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.wait_group.read"](0)
                T.tvm_storage_sync("shared")
                S[tx] = T.float32(5)
                B[tx] = S[tx]


# wrong, race: groups are a thread's own: the second one waits for none
# needs sm_90
# A = whole(512)
# C, B == np.pad(A[:256].reshape(8, 32), ((0, 24), (0, 4)), constant_values=np.nan).ravel(),
#   full(64, 5)
@I.ir_module
class WaitForABulkStoreByAnotherThreadThanItsOwn:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(4):
                    S[i * 64 + tx] = A[i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 0, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                if tx == 1:
                    T.ptx["cp.async.bulk.wait_group.read"](0)
                T.tvm_storage_sync("shared")
                S[tx] = T.float32(5)
                B[tx] = S[tx]
                if tx == 0:
                    T.ptx["cp.async.bulk.wait_group.read"](0)


# right: one group may be in flight, and the first is not
# needs sm_90
# A = whole(512)
# C, B == (np.where(np.isnan(np.pad(A[:256].reshape(8, 32), ((0, 24), (0, 4)),
#   constant_values=np.nan)), np.pad(A[256:512].reshape(8, 32), ((8, 16), (0, 4)),
#   constant_values=np.nan), np.pad(A[:256].reshape(8, 32), ((0, 24), (0, 4)),
#   constant_values=np.nan)).ravel(), np.full(64, 5, 'float32'))
@I.ir_module
class PlaceOfTheFirstOfTwoStoresUsedAgainTheSecondInFlight:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(8):
                    S[i * 64 + tx] = A[i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 0, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 8, S.access_ptr("r", offset=256)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.wait_group.read"](1)
                T.tvm_storage_sync("shared")
                S[tx] = T.float32(5)
                B[tx] = S[tx]
                if tx == 0:
                    T.ptx["cp.async.bulk.wait_group.read"](0)


# wrong, race: one group may be in flight, and that is the second
# needs sm_90
# A = whole(512)
@I.ir_module
class PlaceOfTheSecondOfTwoStoresUsedAgainTheSecondInFlight:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(8):
                    S[i * 64 + tx] = A[i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 0, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 8, S.access_ptr("r", offset=256)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.wait_group.read"](1)
                T.tvm_storage_sync("shared")
                S[tx + 256] = T.float32(5)
                B[tx] = S[tx + 256]
                if tx == 0:
                    T.ptx["cp.async.bulk.wait_group.read"](0)


# wrong, uninitialized read: what nobody wrote is stored to the tensor
# needs sm_90
# A = whole(512)
@I.ir_module
class TileStoredOfWhichHalfWasWritten:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(2):
                    S[i * 64 + tx] = A[i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 0, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.wait_group"](0)
                B[tx] = T.float32(0)


# wrong, unfinished bulk store: shared memory may be another block's before it is read
# needs sm_90
# A = whole(512)
@I.ir_module
class TileStoredForWhichNobodyWaits:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(4):
                    S[i * 64 + tx] = A[i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, 0, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                B[tx] = T.float32(0)


# wrong, race: rows 4 to 7 are both blocks'
# needs sm_90
# A = whole(512)
@I.ir_module
class TwoGPUBlocksStoreTilesThatShareRows:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((1152,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.evaluate(
            T.tensormap_encode_tiled(
                tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
            )
        )
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                for i in range(4):
                    S[i * 64 + tx] = A[bx * 256 + i * 64 + tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
                        T.address_of(tm), 0, bx * 4, S.access_ptr("r", offset=0)
                    )
                    T.ptx["cp.async.bulk.commit_group"]()
                    T.ptx["cp.async.bulk.wait_group"](0)
                B[tx] = T.float32(0)


# right: each makes its store visible to the asynchronous proxy, and the barrier to the first
# needs sm_90
# A = whole(512)
# C, B == np.pad(A[:64], (0, 448), constant_values=np.nan), A[:64]
@I.ir_module
class BulkCopyOfWhatThreadsStoredBehindTheirFences:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((512,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                C[tx] = A[tx]
                T.ptx["fence.proxy.async"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        C.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, missing proxy fence: a bulk copy does not see what threads stored without a fence of the
#   asynchronous proxy
# needs sm_90
# A = whole(512)
# C, B == np.pad(A[:64], (0, 448), constant_values=np.nan), A[:64]
@I.ir_module
class BulkCopyOfWhatThreadsStoredBehindABarrierAlone:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((512,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                C[tx] = A[tx]
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        C.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# wrong, missing proxy fence: those are of stores to shared memory, and these went to global
#   memory
# needs sm_90
# A = whole(512)
# C, B == np.pad(A[:64], (0, 448), constant_values=np.nan), A[:64]
@I.ir_module
class BulkCopyOfWhatThreadsStoredBehindFencesOfSharedMemory:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((512,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                C[tx] = A[tx]
                T.ptx["fence.proxy.async.shared::cta"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        C.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]


# right: a launch begins when the one before it has ended
# needs sm_90
# A = whole(512)
# C, B == np.pad(A[:64], (0, 448), constant_values=np.nan), A[:64]
@I.ir_module
class BulkCopyOfWhatAnEarlierKernelStored:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float32"),
        C: T.Buffer((512,), "float32"),
        B: T.Buffer((64,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                C[tx] = A[tx]
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                if tx == 0:
                    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                    T.ptx["fence.mbarrier_init.release.cluster"]()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                        bar.access_ptr("r", offset=0), 256
                    )
                    T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                        S.access_ptr("r", offset=0),
                        C.access_ptr("r", offset=0),
                        256,
                        bar.access_ptr("r", offset=0),
                    )
                T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                B[tx] = S[tx]
