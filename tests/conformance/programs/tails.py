"""Registers, fetches and tails: what was never written, and what lies beyond an end."""

from tvm.script import ir as I
from tvm.script import tirx as T


# wrong, uninitialized read: lanes 16 to 31 never wrote it
# A = whole(32)
@I.ir_module
class RegisterWrittenInOneArmAndReadByAll:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                r = T.alloc_local((1,))
                if tx < 16:
                    r[0] = A[tx]
                B[tx] = r[0]


# wrong, out of bounds: r has 4 elements, and r[4] is stored
# A = whole(32)
@I.ir_module
class RegisterArrayBeyondItsEnd:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                r = T.alloc_local((4,))
                for k in range(5):
                    r[k] = A[tx]
                B[tx] = r[tx % 4]


# wrong, uninitialized read: S[64] and S[65] are never stored
# A = whole(66)
@I.ir_module
class Of66ElementsFetchedBy64ThreadsInOneRound:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((66,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_shared((66,))
                S[tx] = A[tx]
                T.tvm_storage_sync("shared")
                B[tx] = S[tx] + S[tx + 2]


# right: the load beyond the end is not evaluated
# A = whole(30)
# B == np.append(A, [0, 0])
@I.ir_module
class LoadBehindIfThenElse:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((30,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[tx] = T.if_then_else(tx < 30, A[tx], T.float32(0))


# right: the bound is evaluated before the load
# A = whole(30)
# B == np.append(A > 50, [0, 0])
@I.ir_module
class LoadBehindAShortCircuit:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((30,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                if tx < 30 and A[tx] > T.float32(50):
                    B[tx] = T.float32(1)
                else:
                    B[tx] = T.float32(0)


# wrong, out of bounds: 27 threads of block 1 are beyond the end
# A = whole(37)
@I.ir_module
class Of37OfAnOpenSizeNoGuard:
    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        n = T.int32()
        A = T.match_buffer(a, (n,))
        B = T.match_buffer(b, (n,))
        with T.launch_thread("blockIdx.x", (n + 31) // 32) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[bx * 32 + tx] = A[bx * 32 + tx]


# right: they run the body no time
# A = whole(32)
# B == A * np.maximum(0, np.arange(32) - 16)
@I.ir_module
class NegativeTripCountsOfSomeThreads:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                r = T.alloc_local((1,))
                r[0] = T.float32(0)
                for k in range(tx - 16):
                    r[0] = r[0] + A[tx]
                B[tx] = r[0]


# wrong, out of bounds: thread 30 loads A[30] of 30 elements
# A = whole(30)
@I.ir_module
class GuardOneTooWide:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((30,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[tx] = T.float32(0)
                if tx <= 30:
                    B[tx] = A[tx]


# right: min keeps it within
# A = whole(30)
# B == np.append(A, [A[29], A[29]])
@I.ir_module
class IndexClampedToTheLastElement:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((30,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[tx] = A[T.min(tx, 29)]


# wrong, out of bounds: thread 0 loads A[-1]
# A = whole(32)
@I.ir_module
class LeftNeighbourOfTheFirstElement:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[tx] = A[tx - 1]


# right: the load of A[-1] is not evaluated
# A = whole(32)
# B == A + np.append([0], A[:-1])
@I.ir_module
class LeftNeighbourZeroWhereThereIsNone:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[tx] = A[tx] + T.if_then_else(tx > 0, A[tx - 1], T.float32(0))


# wrong, wrong numbers: the last column's neighbour is the next row's first element, within the
#   buffer
# A = whole(33)
# B == np.ravel(A[:32].reshape(4, 8) + np.pad(A[:32].reshape(4, 8)[:, 1:], ((0, 0), (0, 1))))
@I.ir_module
class RightNeighbourOverARowsEnd:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((33,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[tx] = A[tx] + A[tx + 1]


# wrong, out of bounds: thread 7 loads elements 28 to 31 of 30
# A = whole(30)
@I.ir_module
class VectorOverTheEnd:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((30,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 8) as tx:
                B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]


# right: the vector's last element is in the guard
# A = whole(30)
# B == A
@I.ir_module
class VectorsAndSingleElementsAtTheEnd:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 8) as tx:
                if tx * 4 + 3 < 30:
                    B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
                else:
                    for k in range(4):
                        if tx * 4 + k < 30:
                            B[tx * 4 + k] = A[tx * 4 + k]


# wrong, out of bounds: n[0] is 4, and r has 4 elements
# A = whole(32)
# n = np.array([4])
@I.ir_module
class RegisterArrayAtALoadedIndexBeyondItsEnd:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((32,), "float32"), n: T.Buffer((1,), "int32"), B: T.Buffer((32,), "float32")
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                r = T.alloc_local((4,))
                for k in range(4):
                    r[k] = A[tx] + T.Cast("float32", k)
                B[tx] = r[n[0]]


# right: the indices are a permutation
# A = whole(32)
# n = np.arange(32) * 5 % 32
# B == A[np.argsort(n)]
@I.ir_module
class ScatterToLoadedIndicesEachOnce:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((32,), "float32"), n: T.Buffer((32,), "int32"), B: T.Buffer((32,), "float32")
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[n[tx]] = A[tx]
