"""Clusters of thread blocks: barriers of theirs, each other's shared memory, multicast.

Two thread blocks are a cluster, unless a program says otherwise; `cx` is a block's rank in it.
"""

from tvm.script import tirx as T


# wrong, undefined operation: its shared memory begins when it does, and nothing waits for that
# needs sm_90
@T.prim_func(s_tir=True)
def StoresToABlockThatMayNotHaveBegun(A: T.Buffer(512), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 64)
    cx = T.launch_thread("clusterCtaIdx.x", 2)
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
@T.prim_func(s_tir=True)
def BlockThatEndsWhileTheOtherOneStoresToItsMemory(A: T.Buffer(512), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 64)
    cx = T.launch_thread("clusterCtaIdx.x", 2)
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


# wrong, deadlock: all threads of the cluster must
# needs sm_90
@T.prim_func(s_tir=True)
def ClustersBarrierAtWhichOneWarpDoesNotArrive(A: T.Buffer(512), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 64)
    cx = T.launch_thread("clusterCtaIdx.x", 2)
    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
    place = T.alloc_buffer((1,), "uint32", scope="local")
    value = T.alloc_buffer((1,), "float32", scope="local")
    S[tx] = A[bx * 64 + tx]
    if tx < 32:
        T.ptx["barrier.cluster.arrive"]()
    T.ptx["barrier.cluster.wait"]()
    B[bx * 64 + tx] = S[tx]


# wrong, mbarrier: the barrier behind the initialization is one of a block
# needs sm_90
@T.prim_func(s_tir=True)
def MulticastToABlockThatMayNotHaveMadeItsMbarrier(A: T.Buffer(512), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 64)
    cx = T.launch_thread("clusterCtaIdx.x", 2)
    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
    place = T.alloc_buffer((1,), "uint32", scope="local")
    value = T.alloc_buffer((1,), "float32", scope="local")
    if tx == 0:
        T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
        T.ptx["fence.mbarrier_init.release.cluster"]()
    T.tvm_storage_sync("shared")
    if tx == 0:
        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](bar.access_ptr("r", offset=0), 256)
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


# wrong, race: a barrier of one's own block orders nothing of the other one's
# needs sm_90
@T.prim_func(s_tir=True)
def LoadsOfTheOtherBlocksResultsBehindABarrierOfOnesOwnBlock(A: T.Buffer(512), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 32)
    cx = T.launch_thread("clusterCtaIdx.x", 2)
    value = T.alloc_buffer((1,), "float32", scope="local")
    B[bx * 32 + tx] = A[bx * 32 + tx]
    T.tvm_storage_sync("shared")
    value[0] = B[(bx + 1 - 2 * cx) * 32 + tx]
    T.cuda.cluster_sync()
    B[bx * 32 + tx] = value[0]
