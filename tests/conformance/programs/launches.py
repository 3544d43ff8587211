"""Several kernels in a row, and blocks that would need one another within a launch."""

from tvm.script import ir as I
from tvm.script import tirx as T


# wrong, race: a barrier orders the threads of one block
# A = whole(128)
# C, B == (2 * A, 2 * A[::-1])
@I.ir_module
class LoadOfWhatOtherBlocksOfTheLaunchStoredBehindABarrier:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128,), "float32"),
        C: T.Buffer((128,), "float32"),
        B: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                C[bx * 32 + tx] = A[bx * 32 + tx] * T.float32(2)
                T.tvm_storage_sync("shared")
                B[bx * 32 + tx] = C[127 - bx * 32 - tx]


# right: launches are in order
# A = whole(128)
# C, B == (A[::-1] + 2, A + 1)
@I.ir_module
class ThreeLaunchesBackAndForthBetweenTwoBuffers:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128,), "float32"),
        C: T.Buffer((128,), "float32"),
        B: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                C[bx * 32 + tx] = A[127 - bx * 32 - tx]
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[bx * 32 + tx] = C[127 - bx * 32 - tx] + T.float32(1)
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                C[bx * 32 + tx] = B[127 - bx * 32 - tx] + T.float32(1)


# wrong, uninitialized read: shared memory does not survive its block
# A = whole(32)
@I.ir_module
class LaunchThatLoadsSharedMemoryOfTheOneBefore:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
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
# A = whole(128)
# P, B == (A.reshape(4, 32).sum(1), A.sum(keepdims=True))
@I.ir_module
class SumsOfBlocksAddedUpByTheLastBlock:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128,), "float32"), P: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 1) as tx:
                r = T.alloc_local((1,))
                r[0] = T.float32(0)
                for k in range(32):
                    r[0] = r[0] + A[bx * 32 + k]
                P[bx] = r[0]
                if bx == 3:
                    B[0] = P[0] + P[1] + P[2] + P[3]


# wrong, race: a plain load and store of a flag order nothing
# A = whole(128)
@I.ir_module
class BlockThatTestsAFlagOfAnotherBlock:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128,), "float32"), P: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
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


# right: loads and stores of a part are of one block, with a barrier between
# A = whole(128)
# C == np.ravel(A.reshape(4, 32)[:, ::-1])
@I.ir_module
class EachBlockReversesItsOwnPartInPlace:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                C[bx * 32 + tx] = A[bx * 32 + tx]
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                r = T.alloc_local((1,))
                r[0] = C[bx * 32 + 31 - tx]
                T.tvm_storage_sync("shared")
                C[bx * 32 + tx] = r[0]


# wrong, race: a thread stores the cell that another loads
# A = whole(128)
@I.ir_module
class EachBlockReversesItsPartInPlaceNoBarrier:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                C[bx * 32 + tx] = A[bx * 32 + tx]
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                C[bx * 32 + tx] = C[bx * 32 + 31 - tx]


# right: no other thread touches the pair
# A = whole(128)
# C == A[::-1]
@I.ir_module
class PairsSwappedInPlaceAPairAThread:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 4) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                C[bx * 32 + tx] = A[bx * 32 + tx]
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                r = T.alloc_local((1,))
                r[0] = C[tx]
                C[tx] = C[127 - tx]
                C[127 - tx] = r[0]
