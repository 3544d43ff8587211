"""Bulk copies, mbarriers and roles of warps: who waits for whom, and what a wait is good for."""

from tvm.script import tirx as T


# right: each thread's wait makes the copy's bytes visible to it
# needs sm_90
# B == A[:64]
@T.prim_func(s_tir=True)
def BulkCopyForWhichAllThreadsWait(A: T.Buffer(512), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
    if tx == 0:
        T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
        T.ptx["fence.mbarrier_init.release.cluster"]()
    T.tvm_storage_sync("shared")
    if tx == 0:
        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](bar.access_ptr("r", offset=0), 256)
        T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
            S.access_ptr("r", offset=0),
            A.access_ptr("r", offset=0),
            256,
            bar.access_ptr("r", offset=0),
        )
    T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
    B[tx] = S[tx]


# wrong, race: a round ends in the middle of the stages: the second one's waits are for phases
#   long past
# needs sm_90
# B == 2 * (A[:64] + A[64:128] + A[128:192])
@T.prim_func(s_tir=True)
def TwoRoundsOfThreeTilesInTwoStagesParitiesCountedAnew(A: T.Buffer(512), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
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
                T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
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


# wrong, divergent warp instruction: all lanes that the mask names must run it together
# needs sm_90
@T.prim_func(s_tir=True)
def LaneElectedInAPartOfItsWarp(A: T.Buffer(512), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
    if tx == 0:
        T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
        T.ptx["fence.mbarrier_init.release.cluster"]()
    T.tvm_storage_sync("shared")
    if tx < 16:
        if T.cuda.elect_sync() != T.uint32(0):
            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](bar.access_ptr("r", offset=0), 256)
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
@T.prim_func(s_tir=True)
def RegistersAskedForThatThereAreNot(A: T.Buffer(512), B: T.Buffer(384)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 384)
    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
    T.ptx["setmaxnreg.inc.sync.aligned.u32"](240)
    S[tx] = A[tx]
    B[tx] = S[tx]


# right: rows outside are zeros, and all of the box's bytes arrive
# needs sm_90
# B == np.pad(A.reshape(32, 36), ((8, 8), (0, 28)))[-4 + 8:-4 + 16, :32].ravel()
@T.prim_func(s_tir=True)
def TileThatBeginsFourRowsAboveItsTensor(A: T.Buffer(1152), B: T.Buffer(256)):
    tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
    T.evaluate(
        T.tensormap_encode_tiled(
            tm, A.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
        )
    )
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
    bar = T.alloc_buffer((16,), "uint64", scope="shared.dyn")
    if tx == 0:
        T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
        T.ptx["fence.mbarrier_init.release.cluster"]()
    T.tvm_storage_sync("shared")
    if tx == 0:
        T.ptx["mbarrier.arrive.expect_tx.shared.b64"](bar.access_ptr("r", offset=0), 1024)
        T.ptx["cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"](
            S.access_ptr("r", offset=0), T.address_of(tm), 0, -4, bar.access_ptr("r")
        )
    T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
    for i in range(4):
        B[i * 64 + tx] = S[i * 64 + tx]


# wrong, unfinished bulk store: shared memory may be another block's before it is read
# needs sm_90
@T.prim_func(s_tir=True)
def TileStoredForWhichNobodyWaits(A: T.Buffer(512), C: T.Buffer(1152), B: T.Buffer(64)):
    tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
    T.evaluate(
        T.tensormap_encode_tiled(
            tm, C.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2
        )
    )
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
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


# right: a kernel begins when all that the one before wrote is there
# needs sm_90
# C, B == np.pad(A[:256].reshape(8, 32), ((0, 24), (0, 4)), constant_values=np.nan).ravel(),
#   A[:64]
@T.prim_func(s_tir=True)
def TileStoredAndReadInTheNextKernel(A: T.Buffer(512), C: T.Buffer(1152), B: T.Buffer(64)):
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


# right: a launch begins when the one before it has ended
# needs sm_90
# C, B == np.pad(A[:64], (0, 448), constant_values=np.nan), A[:64]
@T.prim_func(s_tir=True)
def BulkCopyOfWhatAnEarlierKernelStored(A: T.Buffer(512), C: T.Buffer(512), B: T.Buffer(64)):
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
                T.ptx["mbarrier.arrive.expect_tx.shared.b64"](bar.access_ptr("r", offset=0), 256)
                T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                    S.access_ptr("r", offset=0),
                    C.access_ptr("r", offset=0),
                    256,
                    bar.access_ptr("r", offset=0),
                )
            T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), 0)
            B[tx] = S[tx]
