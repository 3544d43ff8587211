"""Global memory that threads of several blocks, or several launches, share."""

from tvm.script import tirx as T


# wrong, race: block 0 loads C[32], which block 1 stores, and blocks have no order
@T.prim_func(s_tir=True)
def StencilInPlaceOverBlocksNeighbourFirst(A: T.Buffer(65), C: T.Buffer(65)):
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 65) as tx:
            C[tx] = A[tx]
    with T.launch_thread("blockIdx.x", 2) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            r = T.alloc_local((1,))
            r[0] = C[bx * 32 + tx + 1]
            r[0] = r[0] + C[bx * 32 + tx]
            T.tvm_storage_sync("shared")
            C[bx * 32 + tx] = r[0]


# wrong, race: a thread loads its neighbour's cell, which that one stores
@T.prim_func(s_tir=True)
def StencilInPlaceInOneBlockNoBarrier(A: T.Buffer(65), C: T.Buffer(65)):
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 65) as tx:
            C[tx] = A[tx]
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 64) as tx:
            C[tx] = C[tx] + C[tx + 1]


# right: no other value is ever there
# C == np.tile(A[:32], 2)
@T.prim_func(s_tir=True)
def BlocksStoreTheSameValuesAndLoadTheirOwn(A: T.Buffer(64), C: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    C[tx] = A[tx]
    T.tvm_storage_sync("shared")
    C[tx + 32] = C[tx]


# wrong, race: blocks have no order
@T.prim_func(s_tir=True)
def BlockStoresIntoAnInputThatAnotherBlockLoads(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    A[bx * 32 + tx] = T.float32(5)
    B[bx * 32 + tx] = A[63 - bx * 32 - tx]


# wrong, race: whichever block comes last wins
@T.prim_func(s_tir=True)
def BlocksStoreOtherValuesToOneCell(A: T.Buffer(64), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[bx * 32 + tx]


# wrong, race: blocks far apart have no order either
# A = np.arange(64064)
@T.prim_func(s_tir=True)
def Blocks0And2000StoreToOneCell(A: T.Buffer(64064), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 2002)
    tx = T.launch_thread("threadIdx.x", 32)
    if bx == 0 or bx == 2000:
        B[tx] = A[bx * 32 + tx]


# wrong, race: the additions are not atomic: sums are lost
# B == A.sum(keepdims=True)
@T.prim_func(s_tir=True)
def AllThreadsAddToOneCell(A: T.Buffer(64), B: T.Buffer(1)):
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 1) as tx:
            B[0] = T.float32(0)
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 64) as tx:
            B[0] = B[0] + A[tx]


# wrong, uninitialized read: B holds what was there before the launch
@T.prim_func(s_tir=True)
def OutputLoadedBeforeAnythingStoredToIt(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = B[tx] + A[tx]


# wrong, input changed: the caller's A is gone
# B == A
@T.prim_func(s_tir=True)
def KernelOverwritesItsInput(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx]
    A[tx] = T.float32(0)
