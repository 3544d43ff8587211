"""Vectors and narrow types: where they begin, and which cells they touch."""

from tvm.script import ir as I
from tvm.script import tirx as T


# right: two bytes are a cell of their own
# A = whole(64)
# B == A
@I.ir_module
class AdjacentHalvesByAdjacentThreads:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_shared((64,), "float16")
                S[tx] = A[tx]
                T.tvm_storage_sync("shared")
                B[63 - tx] = S[63 - tx]


# right: each pair begins at an even element
# A = whole(64)
# B == A
@I.ir_module
class PackedPairsOfHalves:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((64,), "float16")
                S[T.Ramp(tx * 2, 1, 2)] = A[T.Ramp(tx * 2, 1, 2)]
                T.tvm_storage_sync("shared")
                B[T.Ramp(62 - tx * 2, 1, 2)] = S[T.Ramp(62 - tx * 2, 1, 2)]


# wrong, misaligned access: every other pair begins at an odd element, and pairs race for their
#   cells
# A = whole(66)
@I.ir_module
class PairsOfHalvesThatOverlap:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((66,), "float16"), B: T.Buffer((66,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                B[T.Ramp(tx, 1, 2)] = A[T.Ramp(tx, 1, 2)]


# right: a byte is a cell of its own
# A = whole(64)
# B == A[::-1]
@I.ir_module
class AdjacentBytesByAdjacentThreads:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "int8"), B: T.Buffer((64,), "int8")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_shared((64,), "int8")
                S[tx] = A[tx]
                T.tvm_storage_sync("shared")
                B[tx] = S[63 - tx]


# right: TVM generates four loads where it cannot prove the alignment: make_float4(A[i], ...)
# A = whole(80)
# B == A[2:66]
@I.ir_module
class VectorLoadFromElement2:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((80,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 16) as tx:
                B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4 + 2, 1, 4)]


# wrong, misaligned access: TVM generates *(float4*), whatever the alignment
# A = whole(80)
@I.ir_module
class VectorStoreToElement2:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((80,), "float32"), B: T.Buffer((66,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 16) as tx:
                B[T.Ramp(tx * 4 + 2, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]


# wrong, misaligned access: row 1 begins at element 65, which is no multiple of 4
# A = whole(80)
# B == A[:64]
@I.ir_module
class VectorStoresToSharedRowsOf65:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((80,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 16) as tx:
                S = T.alloc_shared((1040,))
                S[T.Ramp(tx * 65, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
                T.tvm_storage_sync("shared")
                B[T.Ramp(tx * 4, 1, 4)] = S[T.Ramp(tx * 65, 1, 4)]


# right: TVM generates four loads
# A = whole(128)
# B == A[::2]
@I.ir_module
class VectorLoadOfStride2:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 16) as tx:
                B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 8, 2, 4)]


# right: TVM generates four loads
# A = whole(64)
# B == np.ravel(A.reshape(16, 4)[:, ::-1])
@I.ir_module
class VectorLoadOfStrideMinus1:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 16) as tx:
                B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4 + 3, -1, 4)]


# right: all vectors begin at multiples of 4
# A = whole(64)
# n = np.array([0])
# B == A
@I.ir_module
class VectorStoreToALoadedPlace0:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((64,), "float32"), n: T.Buffer((1,), "int32"), B: T.Buffer((64,), "float32")
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 16) as tx:
                B[T.Ramp(n[0] + tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]


# right: 8 bytes go to multiples of 8
# A = whole(64)
# B == np.ravel(A.reshape(32, 2)[::-1])
@I.ir_module
class StoresOfTwoFloatsToEvenElements:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[T.Ramp(62 - tx * 2, 1, 2)] = A[T.Ramp(tx * 2, 1, 2)]


# wrong, misaligned access: 8 bytes go to a multiple of 8
# A = whole(64)
@I.ir_module
class StoresOfFourHalvesToEvenElements:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float16"), B: T.Buffer((94,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 16) as tx:
                B[T.Ramp(tx * 6, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]


# wrong, misaligned access: 4 bytes go to a multiple of 4
# A = whole(64)
@I.ir_module
class StoresOfFourBytesToOddElements:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "int8"), B: T.Buffer((79,), "int8")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 16) as tx:
                B[T.Ramp(tx * 5, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
