"""Clusters of thread blocks: barriers of theirs, each other's shared memory, multicast.

Two thread blocks are a cluster, unless a program says otherwise; `cx` is a block's rank in it.
"""

from tvm.script import ir as I
from tvm.script import tirx as T


# wrong, undefined operation: its shared memory begins when it does, and nothing waits for that
# needs sm_90
# A = whole(512)
@I.ir_module
class StoresToABlockThatMayNotHaveBegun:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                with T.launch_thread("clusterCtaIdx.x", 2) as cx:
                    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                    place = T.alloc_buffer((1,), "uint32", scope="local")
                    value = T.alloc_buffer((1,), "float32", scope="local")
                    T.evaluate(
                        T.ptx["mapa.shared::cluster.u32"](
                            place[0],
                            T.cuda.cvta_generic_to_shared(S.access_ptr("r", offset=tx)),
                            T.cast(1 - cx, "uint32"),
                        )
                    )
                    T.evaluate(T.ptx["st.shared::cluster.f32"](place[0], A[bx * 64 + tx]))
                    T.cuda.cluster_sync()
                    B[bx * 64 + tx] = S[tx]


# wrong, undefined operation: one block ends behind the first barrier, and the other one stores to
#   it
# needs sm_90
# A = whole(512)
@I.ir_module
class BlockThatEndsWhileTheOtherOneStoresToItsMemory:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                with T.launch_thread("clusterCtaIdx.x", 2) as cx:
                    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                    place = T.alloc_buffer((1,), "uint32", scope="local")
                    value = T.alloc_buffer((1,), "float32", scope="local")
                    T.cuda.cluster_sync()
                    if cx == 0:
                        T.evaluate(
                            T.ptx["mapa.shared::cluster.u32"](
                                place[0],
                                T.cuda.cvta_generic_to_shared(S.access_ptr("r", offset=tx)),
                                T.cast(1 - cx, "uint32"),
                            )
                        )
                        T.evaluate(T.ptx["st.shared::cluster.f32"](place[0], A[bx * 64 + tx]))
                    B[bx * 64 + tx] = A[tx]


# wrong, race: a relaxed arrival orders no store in front of it, and there is no fence
# needs sm_90
# A = whole(512)
@I.ir_module
class ArrivalsAtAClustersBarrierThatReleaseNothing:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                with T.launch_thread("clusterCtaIdx.x", 2) as cx:
                    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                    place = T.alloc_buffer((1,), "uint32", scope="local")
                    value = T.alloc_buffer((1,), "float32", scope="local")
                    S[tx] = A[bx * 64 + tx]
                    T.ptx["barrier.cluster.arrive.relaxed"]()
                    T.ptx["barrier.cluster.wait"]()
                    T.evaluate(
                        T.ptx["mapa.shared::cluster.u32"](
                            place[0],
                            T.cuda.cvta_generic_to_shared(S.access_ptr("r", offset=tx)),
                            T.cast(1 - cx, "uint32"),
                        )
                    )
                    T.evaluate(T.ptx["ld.shared::cluster.f32"](value[0], place[0]))
                    B[bx * 64 + tx] = value[0]
                    T.cuda.cluster_sync()


# wrong, deadlock: all threads of the cluster must
# needs sm_90
# A = whole(512)
@I.ir_module
class ClustersBarrierAtWhichOneWarpDoesNotArrive:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                with T.launch_thread("clusterCtaIdx.x", 2) as cx:
                    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                    place = T.alloc_buffer((1,), "uint32", scope="local")
                    value = T.alloc_buffer((1,), "float32", scope="local")
                    S[tx] = A[bx * 64 + tx]
                    if tx < 32:
                        T.ptx["barrier.cluster.arrive"]()
                    T.ptx["barrier.cluster.wait"]()
                    B[bx * 64 + tx] = S[tx]


# right: a kernel without clusters has those, and their barrier is one of the block
# needs sm_90
# A = whole(512)
# B == A[:128].reshape(2, 64)[:, ::-1].reshape(-1)
@I.ir_module
class ClusterOfOneBlock:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                place = T.alloc_buffer((1,), "uint32", scope="local")
                value = T.alloc_buffer((1,), "float32", scope="local")
                S[tx] = A[bx * 64 + tx]
                T.cuda.cluster_sync()
                B[bx * 64 + tx] = S[63 - tx]


# wrong, mbarrier: the barrier behind the initialization is one of a block
# needs sm_90
# A = whole(512)
@I.ir_module
class MulticastToABlockThatMayNotHaveMadeItsMbarrier:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                with T.launch_thread("clusterCtaIdx.x", 2) as cx:
                    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                    place = T.alloc_buffer((1,), "uint32", scope="local")
                    value = T.alloc_buffer((1,), "float32", scope="local")
                    if tx == 0:
                        T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
                        T.ptx["fence.mbarrier_init.release.cluster"]()
                    T.tvm_storage_sync("shared")
                    if tx == 0:
                        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](
                            bar.access_ptr("r", offset=0), 256
                        )
                    if cx == 0:
                        if tx == 0:
                            T.ptx[
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                            ](
                                S.access_ptr("r"),
                                A.access_ptr("r"),
                                256,
                                bar.access_ptr("r"),
                                T.uint16(3),
                            )
                    T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                    B[bx * 64 + tx] = S[tx]
                    T.cuda.cluster_sync()


# wrong, deadlock: each has one
# needs sm_90
# A = whole(512)
@I.ir_module
class MbarrierOfTwoArrivalsAtWhichEachBlockArrivesForItself:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                with T.launch_thread("clusterCtaIdx.x", 2) as cx:
                    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
                    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
                    place = T.alloc_buffer((1,), "uint32", scope="local")
                    value = T.alloc_buffer((1,), "float32", scope="local")
                    if tx == 0:
                        T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 2)
                        T.ptx["fence.mbarrier_init.release.cluster"]()
                    T.tvm_storage_sync("shared")
                    T.cuda.cluster_sync()
                    if tx == 0:
                        T.evaluate(
                            T.ptx["mapa.shared::cluster.u32"](
                                place[0],
                                T.cuda.cvta_generic_to_shared(bar.access_ptr("r", offset=0)),
                                T.cast(cx, "uint32"),
                            )
                        )
                        T.evaluate(
                            T.ptx["mbarrier.arrive.release.cluster.shared::cluster.b64"](place[0])
                        )
                    T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
                    B[bx * 64 + tx] = A[tx]
                    T.cuda.cluster_sync()
