"""Narrow, unsigned and wide types: bool, float8, uint8, uint32, int64, and indices of these."""

from tvm.script import tirx as T


# wrong, race: the other warp may not have stored its part of the mask
# B == np.where(A[::-1] > 50, A, 0)
@T.prim_func(s_tir=True)
def MaskOfBoolsInSharedMemoryNoBarrier(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    M = T.alloc_shared((64,), "bool")
    M[tx] = A[tx] > T.float32(50)
    B[tx] = T.if_then_else(M[63 - tx], A[tx], T.float32(0))


# right: true is 1
# B == (A[None] > A[:, None]).sum(1).astype('int32')
@T.prim_func(s_tir=True)
def BoolsAddedUpAsIntegers(A: T.Buffer(32), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    n = T.alloc_local((1,), "int32")
    n[0] = 0
    for k in range(32):
        n[0] = n[0] + T.Cast("int32", A[k] > A[tx])
    B[tx] = n[0]


# right: the comparison is of unsigned numbers
# B == np.ones(32, 'int32')
@T.prim_func(s_tir=True)
def Uint32Beyond2ToThe31IsLargerThan5(B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    x: T.let[T.uint32] = T.uint32(2147483648) + T.Cast("uint32", tx)
    B[tx] = T.Cast("int32", x > T.uint32(5))


# wrong, wrong numbers: the sign bit makes it negative
# A = np.arange(32) + 2147483648.0
# B == np.ones(32, 'int32')
@T.prim_func(s_tir=True)
def Uint32Beyond2ToThe31ComparedAsInt32(A: T.Buffer(32, "uint32"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", T.Cast("int32", A[tx]) > 5)


# wrong, out of bounds: 0 - 1 is 4294967295
# B == np.roll(A, 1)
@T.prim_func(s_tir=True)
def IndexOfUint32BelowZero(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[T.Cast("uint32", tx) - T.uint32(1)]


# wrong, out of bounds: its low 32 bits would be within the buffer
# B == A.copy()
@T.prim_func(s_tir=True)
def IndexOfInt64Beyond2ToThe32(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[T.Cast("int64", tx) + T.int64(4294967296)]


# right: 2**40 + tx - 2**40 is tx in int64
# n = np.array([1])
# B == A.copy()
@T.prim_func(s_tir=True)
def IndexOfInt64WhoseTermsCancel(A: T.Buffer(32), n: T.Buffer(1, "int32"), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    j: T.let[T.int64] = T.Cast("int64", n[0]) * T.int64(1099511627776)
    B[tx] = A[j + T.Cast("int64", tx) - j]


# right: 3 * 2**62 fits into uint64, and its upper half is 3 * 2**30
# A = full(32, 3)
# B == np.full(32, 3 * 2 ** 29, 'int32')
@T.prim_func(s_tir=True)
def ProductOfUint64Beyond2ToThe63(A: T.Buffer(32, "uint64"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    p: T.let[T.uint64] = A[tx] * T.uint64(4611686018427387904)
    B[tx] = T.Cast("int32", T.shift_right(p, T.uint64(33)))


# right: the sum of two bytes fits into int32
# B == ((A.astype('int32') + A[::-1]) // 2).astype('int32')
@T.prim_func(s_tir=True)
def MeanOfBytesWidenedBefore(A: T.Buffer(32, "uint8"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = (T.Cast("int32", A[tx]) + T.Cast("int32", A[31 - tx])) // 2


# right: and, or, exclusive or and not, bit by bit
# B == (A & 255 | 2 ** 31) ^ ~A[::-1]
@T.prim_func(s_tir=True)
def BitsOfUint32(A: T.Buffer(32, "uint32"), B: T.Buffer(32, "uint32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.bitwise_xor(
        T.bitwise_or(T.bitwise_and(A[tx], T.uint32(255)), T.uint32(2147483648)),
        T.bitwise_not(A[31 - tx]),
    )


# right: int64 has 64 bits
# B == (4 * A).astype('int32')
@T.prim_func(s_tir=True)
def ShiftOfInt64By40(A: T.Buffer(32, "int64"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", T.shift_right(T.shift_left(A[tx], T.int64(40)), T.int64(38)))


# wrong, undefined operation: C leaves it undefined
# n = np.array([40])
# B == np.zeros(32, 'int32')
@T.prim_func(s_tir=True)
def RightShiftOfInt32ByALoaded40(
    A: T.Buffer(32, "int32"), n: T.Buffer(1, "int32"), B: T.Buffer(32, "int32")
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.shift_right(A[tx], n[0])


# right: a copy rounds nothing
# needs sm_89
# A = np.arange(32) - 16
# B == A.astype('float32')
@T.prim_func(s_tir=True)
def Float8CopiedThroughARegister(A: T.Buffer(32, "float8_e4m3fn"), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,), "float8_e4m3fn")
    r[0] = A[tx]
    B[tx] = T.Cast("float32", r[0])


# wrong, wrong numbers: 17 is no float8: the sum stays at 16
# needs sm_89
# A = full(32, 1)
# B == np.full(32, 24, 'float32')
@T.prim_func(s_tir=True)
def Float8CountsOnFrom16(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,), "float8_e4m3fn")
    r[0] = T.Cast("float8_e4m3fn", T.float32(0))
    for k in range(24):
        r[0] = T.Cast("float8_e4m3fn", T.Cast("float32", r[0]) + A[tx])
    B[tx] = T.Cast("float32", r[0])


# right: only the result is rounded, and 24 is a float8
# needs sm_89
# A = full(32, 1)
# B == np.full(32, 24, 'float32')
@T.prim_func(s_tir=True)
def Float8CountedInFloat32(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(24):
        r[0] = r[0] + A[tx]
    B[tx] = T.Cast("float32", T.Cast("float8_e4m3fn", r[0]))


# wrong, wrong numbers: 300 * 300 is infinite in float16, and widened behind
# A = full(32, 300)
# B == np.full(32, 90000, 'float32')
@T.prim_func(s_tir=True)
def ProductOfFloat16Beyond65504(A: T.Buffer(32, "float16"), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("float32", A[tx] * A[tx])


# right: one of the two is the result
# needs sm_80
# B == np.maximum(A, A[::-1])
@T.prim_func(s_tir=True)
def MaximumOfBfloat16(A: T.Buffer(32, "bfloat16"), B: T.Buffer(32, "bfloat16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.max(A[tx], A[31 - tx])


# wrong, wrong numbers: C's round makes 3 of 2.5; TVM writes T.round as nearbyint, which makes 2
#   of it
# A = np.arange(32) - 15.5
# B == np.sign(A) * np.floor(np.abs(A) + 0.5)
@T.prim_func(s_tir=True)
def HalvesRoundedAwayFromZero(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.round(A[tx])


# right: nearbyint of 2.5 is 2
# A = np.arange(32) - 15.5
# B == np.rint(A)
@T.prim_func(s_tir=True)
def HalvesRoundedToEven(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.nearbyint(A[tx])


# right: fmod(-5.5, 3) is -2.5
# A = np.arange(32) - 15.5
# B == np.fmod(A, np.float32(3))
@T.prim_func(s_tir=True)
def RemainderOfFloatsWithTheDividendsSign(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.fmod(A[tx], T.float32(3))


# right: -2.5 becomes -2, -3 and -2
# A = np.arange(32) - 15.5
# B == np.ceil(A) + 100 * (np.floor(A) + np.trunc(A))
@T.prim_func(s_tir=True)
def CeilingFloorAndTruncationOfNegatives(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.ceil(A[tx]) + T.float32(100) * (T.floor(A[tx]) + T.trunc(A[tx]))


# right: 7 // -3 is -3, as Python's
# B == (A - 50) // -3 * 1000 + (A - 50) % -3
@T.prim_func(s_tir=True)
def FloorDivisionByANegativeConstant(A: T.Buffer(32, "int32"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.floordiv(A[tx] - 50, -3) * 1000 + T.floormod(A[tx] - 50, -3)


# right: popcount counts the ones of a uint32
# A = np.arange(32) * 134480385.0
# B == np.array([bin(a).count('1') for a in A])
@T.prim_func(s_tir=True)
def NumberOfBitsSet(A: T.Buffer(32, "uint32"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", T.popcount(A[tx]))
