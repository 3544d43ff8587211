"""Vectors and narrow types: where they begin, and which cells they touch."""

from tvm.script import tirx as T


# right: two bytes are a cell of their own
# B == A
@T.prim_func(s_tir=True)
def AdjacentHalvesByAdjacentThreads(A: T.Buffer(64, "float16"), B: T.Buffer(64, "float16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,), "float16")
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[63 - tx] = S[63 - tx]


# right: each pair begins at an even element
# B == A
@T.prim_func(s_tir=True)
def PackedPairsOfHalves(A: T.Buffer(64, "float16"), B: T.Buffer(64, "float16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_shared((64,), "float16")
    S[T.Ramp(tx * 2, 1, 2)] = A[T.Ramp(tx * 2, 1, 2)]
    T.tvm_storage_sync("shared")
    B[T.Ramp(62 - tx * 2, 1, 2)] = S[T.Ramp(62 - tx * 2, 1, 2)]


# wrong, misaligned access: every other pair begins at an odd element, and pairs race for their
#   cells
@T.prim_func(s_tir=True)
def PairsOfHalvesThatOverlap(A: T.Buffer(66, "float16"), B: T.Buffer(66, "float16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    B[T.Ramp(tx, 1, 2)] = A[T.Ramp(tx, 1, 2)]


# right: a byte is a cell of its own
# B == A[::-1]
@T.prim_func(s_tir=True)
def AdjacentBytesByAdjacentThreads(A: T.Buffer(64, "int8"), B: T.Buffer(64, "int8")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((64,), "int8")
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = S[63 - tx]


# right: TVM generates four loads where it cannot prove the alignment: make_float4(A[i], ...)
# B == A[2:66]
@T.prim_func(s_tir=True)
def VectorLoadFromElement2(A: T.Buffer(80), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 16)
    B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4 + 2, 1, 4)]


# wrong, misaligned access: TVM generates *(float4*), whatever the alignment
@T.prim_func(s_tir=True)
def VectorStoreToElement2(A: T.Buffer(80), B: T.Buffer(66)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 16)
    B[T.Ramp(tx * 4 + 2, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]


# wrong, misaligned access: row 1 begins at element 65, which is not a multiple of 4
# B == A[:64]
@T.prim_func(s_tir=True)
def VectorStoresToSharedRowsOf65(A: T.Buffer(80), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 16)
    S = T.alloc_shared((1040,))
    S[T.Ramp(tx * 65, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
    T.tvm_storage_sync("shared")
    B[T.Ramp(tx * 4, 1, 4)] = S[T.Ramp(tx * 65, 1, 4)]


# right: TVM generates four loads
# B == A[::2]
@T.prim_func(s_tir=True)
def VectorLoadOfStride2(A: T.Buffer(128), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 16)
    B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 8, 2, 4)]


# right: TVM generates four loads
# B == np.ravel(A.reshape(16, 4)[:, ::-1])
@T.prim_func(s_tir=True)
def VectorLoadOfStrideMinus1(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 16)
    B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4 + 3, -1, 4)]


# right: all vectors begin at multiples of 4
# n = np.array([0])
# B == A
@T.prim_func(s_tir=True)
def VectorStoreToALoadedPlace0(A: T.Buffer(64), n: T.Buffer(1, "int32"), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 16)
    B[T.Ramp(n[0] + tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]


# right: 8 bytes go to multiples of 8
# B == np.ravel(A.reshape(32, 2)[::-1])
@T.prim_func(s_tir=True)
def StoresOfTwoFloatsToEvenElements(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[T.Ramp(62 - tx * 2, 1, 2)] = A[T.Ramp(tx * 2, 1, 2)]


# wrong, misaligned access: 8 bytes go to a multiple of 8
@T.prim_func(s_tir=True)
def StoresOfFourHalvesToEvenElements(A: T.Buffer(64, "float16"), B: T.Buffer(94, "float16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 16)
    B[T.Ramp(tx * 6, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]


# wrong, misaligned access: 4 bytes go to a multiple of 4
@T.prim_func(s_tir=True)
def StoresOfFourBytesToOddElements(A: T.Buffer(64, "int8"), B: T.Buffer(79, "int8")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 16)
    B[T.Ramp(tx * 5, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
