"""Global memory that threads of several blocks, or several launches, share."""

from tvm.script import ir as I
from tvm.script import tirx as T


# wrong, race: block 0 loads C[32], which block 1 stores, and blocks have no order
# A = whole(65)
@I.ir_module
class StencilInPlaceOverBlocksNeighbourFirst:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((65,), "float32"), C: T.Buffer((65,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
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


# right: all loads are before the barrier and all stores behind it
# A = whole(65)
# C == np.append(A[:64] + A[1:], A[64])
@I.ir_module
class StencilInPlaceInOneBlock:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((65,), "float32"), C: T.Buffer((65,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 65) as tx:
                C[tx] = A[tx]
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                r = T.alloc_local((1,))
                r[0] = C[tx]
                r[0] = r[0] + C[tx + 1]
                T.tvm_storage_sync("shared")
                C[tx] = r[0]


# wrong, race: a thread loads its neighbour's cell, which that one stores
# A = whole(65)
@I.ir_module
class StencilInPlaceInOneBlockNoBarrier:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((65,), "float32"), C: T.Buffer((65,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 65) as tx:
                C[tx] = A[tx]
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                C[tx] = C[tx] + C[tx + 1]


# wrong, race: block 0 may load after block 1 has stored: a barrier orders one block
# A = whole(65)
@I.ir_module
class CellThatBothBlocksLoadAndOneStoresBehindABarrier:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((65,), "float32"), C: T.Buffer((65,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 65) as tx:
                C[tx] = A[tx]
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                r = T.alloc_local((1,))
                r[0] = C[tx]
                T.tvm_storage_sync("shared")
                if bx == 1:
                    C[tx] = r[0] * T.float32(9)


# right: no other value is ever there
# A = whole(64)
# C == np.tile(A[:32], 2)
@I.ir_module
class BlocksStoreTheSameValuesAndLoadTheirOwn:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                C[tx] = A[tx]
                T.tvm_storage_sync("shared")
                C[tx + 32] = C[tx]


# wrong, race: blocks have no order
# A = whole(64)
@I.ir_module
class BlockStoresIntoAnInputThatAnotherBlockLoads:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                A[bx * 32 + tx] = T.float32(5)
                B[bx * 32 + tx] = A[63 - bx * 32 - tx]


# wrong, race: whichever block comes last wins
# A = whole(64)
@I.ir_module
class BlocksStoreOtherValuesToOneCell:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[tx] = A[bx * 32 + tx]


# wrong, race: blocks far apart have no order either
# A = np.arange(64064)
@I.ir_module
class Blocks0And2000StoreToOneCell:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64064,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 2002) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                if bx == 0 or bx == 2000:
                    B[tx] = A[bx * 32 + tx]


# wrong, race: the additions are not atomic: sums are lost
# A = whole(64)
# B == A.sum(keepdims=True)
@I.ir_module
class AllThreadsAddToOneCell:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 1) as tx:
                B[0] = T.float32(0)
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                B[0] = B[0] + A[tx]


# wrong, uninitialized read: B holds what was there before the launch
# A = whole(32)
@I.ir_module
class OutputLoadedBeforeAnythingStoredToIt:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[tx] = B[tx] + A[tx]


# wrong, input changed: the caller's A is gone
# A = whole(32)
# B == A
@I.ir_module
class KernelOverwritesItsInput:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[tx] = A[tx]
                A[tx] = T.float32(0)
