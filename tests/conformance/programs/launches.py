"""Several kernels in a row, and blocks that would need one another within a launch."""

from tvm.script import tirx as T


# wrong, race: a barrier orders the threads of one block
# C, B == (2 * A, 2 * A[::-1])
@T.prim_func(s_tir=True)
def LoadOfWhatOtherBlocksOfTheLaunchStoredBehindABarrier(
    A: T.Buffer(128), C: T.Buffer(128), B: T.Buffer(128)
):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 32)
    C[bx * 32 + tx] = A[bx * 32 + tx] * T.float32(2)
    T.tvm_storage_sync("shared")
    B[bx * 32 + tx] = C[127 - bx * 32 - tx]


# wrong, uninitialized read: shared memory does not survive its block
@T.prim_func(s_tir=True)
def LaunchThatLoadsSharedMemoryOfTheOneBefore(A: T.Buffer(32), B: T.Buffer(64)):
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            S = T.alloc_shared((32,))
            S[tx] = A[tx]
            T.tvm_storage_sync("shared")
            B[tx] = S[31 - tx]
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            S = T.alloc_shared((32,))
            B[tx + 32] = S[31 - tx]


# wrong, race: the last block by number need not be the last by time
# P, B == (A.reshape(4, 32).sum(1), A.sum(keepdims=True))
@T.prim_func(s_tir=True)
def SumsOfBlocksAddedUpByTheLastBlock(A: T.Buffer(128), P: T.Buffer(4), B: T.Buffer(1)):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 1)
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(32):
        r[0] = r[0] + A[bx * 32 + k]
    P[bx] = r[0]
    if bx == 3:
        B[0] = P[0] + P[1] + P[2] + P[3]


# wrong, race: a plain load and store of a flag order nothing
@T.prim_func(s_tir=True)
def BlockThatTestsAFlagOfAnotherBlock(A: T.Buffer(128), P: T.Buffer(4), B: T.Buffer(1)):
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 4) as tx:
            P[tx] = T.float32(0)
    with T.launch_thread("blockIdx.x", 2) as bx:
        with T.launch_thread("threadIdx.x", 1) as tx:
            if bx == 0:
                P[1] = A[0]
                P[0] = T.float32(1)
            if bx == 1:
                if P[0] > T.float32(0):
                    B[0] = P[1]
                else:
                    B[0] = T.float32(0)


# wrong, race: a thread stores the cell that another loads
@T.prim_func(s_tir=True)
def EachBlockReversesItsPartInPlaceNoBarrier(A: T.Buffer(128), C: T.Buffer(128)):
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            C[bx * 32 + tx] = A[bx * 32 + tx]
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            C[bx * 32 + tx] = C[bx * 32 + 31 - tx]


# right: no other thread touches the pair
# C == A[::-1]
@T.prim_func(s_tir=True)
def PairsSwappedInPlaceAPairAThread(A: T.Buffer(128), C: T.Buffer(128)):
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            C[bx * 32 + tx] = A[bx * 32 + tx]
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 64) as tx:
            r = T.alloc_local((1,))
            r[0] = C[tx]
            C[tx] = C[127 - tx]
            C[127 - tx] = r[0]


# right: launches are in order, and all of the first is over
# C, B == (2 * A, 2 * A[::-1])
@T.prim_func(s_tir=True)
def LaunchThatLoadsWhatOtherBlocksOfTheOneBeforeStored(
    A: T.Buffer(128), C: T.Buffer(128), B: T.Buffer(128)
):
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            C[bx * 32 + tx] = A[bx * 32 + tx] * T.float32(2)
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            B[bx * 32 + tx] = C[127 - bx * 32 - tx]


# right: all sums are there
# P, B == (A.reshape(4, 32).sum(1), A.sum(keepdims=True))
@T.prim_func(s_tir=True)
def SumsOfBlocksAddedUpByASecondLaunch(A: T.Buffer(128), P: T.Buffer(4), B: T.Buffer(1)):
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 1) as tx:
            r = T.alloc_local((1,))
            r[0] = T.float32(0)
            for k in range(32):
                r[0] = r[0] + A[bx * 32 + k]
            P[bx] = r[0]
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 1) as tx:
            B[0] = P[0] + P[1] + P[2] + P[3]
