"""Integers that overflow, promote or divide by zero; floats out of range, NaN."""

from tvm.script import tirx as T


# wrong, wrong numbers: (k + 2) * 2**30 wraps
# B == np.concatenate([np.arange(32) + 8, np.arange(32) + 12])
@T.prim_func(s_tir=True)
def Int32OverflowOfAnIndexThatAllThreadsShare(A: T.Buffer(64), B: T.Buffer(64, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    for k in range(2):
        B[k * 32 + tx] = T.shift_right((k + 2) * 1073741824, 28) + tx


# wrong, wrong numbers: tx * 2**30 wraps from lane 2 on
# B == np.arange(32) * 4
@T.prim_func(s_tir=True)
def Int32OverflowOfAThreadsIndex(A: T.Buffer(32), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.shift_right(tx * 1073741824, 28)


# wrong, wrong numbers: TIR's product wraps to 16; C promotes, and a GPU stores 10000
# A = full(32, 100)
# B == np.full(32, 16)
@T.prim_func(s_tir=True)
def Int8TimesInt8Widened(A: T.Buffer(32, "int8"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", A[tx] * A[tx])


# wrong, wrong numbers: TIR's sum wraps to -56; C promotes, and a GPU compares 200
# A = full(32, 100)
# B == np.zeros(32)
@T.prim_func(s_tir=True)
def Int8PlusInt8Compared(A: T.Buffer(32, "int8"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    if A[tx] + A[tx] > T.int8(100):
        B[tx] = 1
    else:
        B[tx] = 0


# wrong, wrong numbers: TIR's difference wraps to 255; C promotes, and a GPU stores -1
# A = full(32, 1)
# B == np.full(32, 255)
@T.prim_func(s_tir=True)
def Uint8MinusUint8Widened(A: T.Buffer(32, "uint8"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", A[tx] - T.uint8(2))


# wrong, wrong numbers: 300 does not fit
# A = full(32, 100)
# B == np.full(32, 300)
@T.prim_func(s_tir=True)
def SumOfInt8Beyond127(A: T.Buffer(32, "int8"), B: T.Buffer(32, "int8")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,), "int8")
    r[0] = T.int8(0)
    for k in range(3):
        r[0] = r[0] + A[tx]
    B[tx] = r[0]


# wrong, division by zero: no quotient is right
# n = np.array([0])
@T.prim_func(s_tir=True)
def FloorDivisionByALoadedZero(n: T.Buffer(1, "int32"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = tx // n[0]


# wrong, division by zero: no remainder is right
# n = np.array([0])
@T.prim_func(s_tir=True)
def RemainderByALoadedZero(n: T.Buffer(1, "int32"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = tx % n[0]


# right: TIR's // and % are those of Python
# A = np.arange(32) - 16
# B == A // 4 + A % 4 * 100
@T.prim_func(s_tir=True)
def FloorDivisionAndRemainderOfNegatives(A: T.Buffer(32, "int32"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx] // 4 + A[tx] % 4 * 100


# right: CUDA's max returns the number
# A = full(32, np.nan)
# B == np.zeros_like(A)
@T.prim_func(s_tir=True)
def MaxNaN0(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.max(A[tx], T.float32(0))


# right: both factors are int64
# B == A.astype('int64') * 2 ** 30
@T.prim_func(s_tir=True)
def ProductOfInt64WidenedBefore(A: T.Buffer(32, "int32"), B: T.Buffer(32, "int64")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int64", A[tx]) * T.int64(1073741824)


# right: (k + 2) * 2**30 fits
# B == np.repeat([8, 12], 32)
@T.prim_func(s_tir=True)
def Int64IndexThatAllThreadsShare(A: T.Buffer(32, "int32"), B: T.Buffer(64, "int64")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    for k in range(2):
        B[k * 32 + tx] = T.shift_right(
            (T.Cast("int64", k) + T.int64(2)) * T.int64(1073741824), T.int64(28)
        )


# right: unsigned numbers wrap, in TIR as in C
# A = full(32, 1)
# B == np.full(32, 2 ** 32 - 1)
@T.prim_func(s_tir=True)
def Uint32BelowZero(A: T.Buffer(32, "uint32"), B: T.Buffer(32, "uint32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx] - T.uint32(2)


# wrong, wrong numbers: TIR's product wraps to -25536; C promotes, and a GPU stores 40000
# A = full(32, 200)
# B == np.full(32, -25536)
@T.prim_func(s_tir=True)
def Int16TimesInt16Widened(A: T.Buffer(32, "int16"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", A[tx] * A[tx])


# right: both factors are int32
# A = full(32, 100)
# B == np.full(32, 10000)
@T.prim_func(s_tir=True)
def Int8TimesInt8WidenedBefore(A: T.Buffer(32, "int8"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", A[tx]) * T.Cast("int32", A[tx])


# right: the low byte stays: 300 becomes 44
# A = full(32, 300)
# B == np.full(32, 44)
@T.prim_func(s_tir=True)
def Int32ToInt8(A: T.Buffer(32, "int32"), B: T.Buffer(32, "int8")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int8", A[tx])


# right: they round to zero, as in C
# A = np.arange(32) - 16
# B == np.trunc(A / 3) * 100 + np.fmod(A, 3)
@T.prim_func(s_tir=True)
def TruncatingDivisionAndRemainderOfNegatives(A: T.Buffer(32, "int32"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.truncdiv(A[tx], 3) * 100 + T.truncmod(A[tx], 3)


# right: the sign stays: -1 >> 1 is -1
# A = np.arange(32) - 16
# B == A >> 1
@T.prim_func(s_tir=True)
def RightShiftOfNegatives(A: T.Buffer(32, "int32"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.shift_right(A[tx], 1)


# wrong, wrong numbers: TVM's simplifier takes what was unsigned for positive, and rounds to zero
# A = full(32, 236)
# B == np.full(32, -3)
@T.prim_func(s_tir=True)
def FloorDivisionOfANegativeInt8ThatWasAUint32(A: T.Buffer(32, "uint32"), B: T.Buffer(32, "int8")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.floordiv(T.Cast("int8", A[tx]), T.int8(7))


# wrong, undefined operation: the quotient does not fit, and x86 traps
# A = full(32, -2147483648)
# n = np.array([-1])
@T.prim_func(s_tir=True)
def SmallestInt32DividedByALoadedMinus1(
    A: T.Buffer(32, "int32"), n: T.Buffer(1, "int32"), B: T.Buffer(32, "int32")
):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.truncdiv(A[tx], n[0])


# right: NaN is neither more than 0 nor equal to NaN
# A = np.tile([np.nan, np.inf, -np.inf, 1], 8)
# C = np.tile([np.nan, np.inf, -np.inf, 1], 8)
# B == np.tile([2, 1, 3, 1], 8)
@T.prim_func(s_tir=True)
def ComparisonsWithNaNAndInfinity(A: T.Buffer(32), C: T.Buffer(32), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    if A[tx] > T.float32(0):
        B[tx] = 1
    else:
        if A[tx] != C[tx]:
            B[tx] = 2
        else:
            B[tx] = 3


# right: that is NaN, as NaN minus NaN is
# A = np.tile([np.nan, np.inf, -np.inf, 1], 8)
# C = np.tile([np.nan, np.inf, -np.inf, 1], 8)
# B == np.tile([0, 0, 0, 1], 8)
@T.prim_func(s_tir=True)
def InfinityMinusInfinity(A: T.Buffer(32), C: T.Buffer(32), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,))
    r[0] = A[tx] - C[tx]
    if r[0] == T.float32(0):
        B[tx] = 1
    else:
        B[tx] = 0


# wrong, wrong numbers: TVM's simplifier takes x == x for true, also where x is NaN
# A = np.tile([np.nan, np.inf, -np.inf, 1], 8)
# B == np.tile([0, 1, 1, 1], 8)
@T.prim_func(s_tir=True)
def NumbersFoundByXX(A: T.Buffer(32), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    if A[tx] == A[tx]:
        B[tx] = 1
    else:
        B[tx] = 0


# wrong, wrong numbers: TVM's simplifier takes x * 0 for 0, which hides what has overflowed
# A = np.tile([np.nan, np.inf, -np.inf, 1], 8)
# B == np.tile(np.array([np.nan, np.nan, np.nan, 0], 'float32'), 8)
@T.prim_func(s_tir=True)
def NaNAndInfinitiesTimesZero(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx] * T.float32(0)


# wrong, wrong numbers: TVM's simplifier takes 0 / x for 0, and a row without weights is none of
#   NaN
# A = full(32, 0)
# B == np.full(32, np.nan)
@T.prim_func(s_tir=True)
def ZeroDividedByZero(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.float32(0) / A[tx]


# wrong, wrong numbers: TVM's simplifier takes x + 0 for x, and one divided by that is minus
#   infinity
# A = full(32, -0.0)
# B == np.full(32, np.inf)
@T.prim_func(s_tir=True)
def NegativeZeroPlusZero(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.float32(1) / (A[tx] + T.float32(0))


# wrong, wrong numbers: TVM's simplifier takes what was unsigned for positive: the remainder is
#   negative
# A = full(32, 65516)
# B == np.full(32, 1)
@T.prim_func(s_tir=True)
def RemainderOfANegativeInt16ThatWasAUint32(A: T.Buffer(32, "uint32"), B: T.Buffer(32, "int16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.floormod(T.Cast("int16", A[tx]), T.int16(7))


# right: CUDA's min returns the number, on whichever side
# A = full(32, np.nan)
# B == np.full(32, 6)
@T.prim_func(s_tir=True)
def MinNaN3AndMin3NaN(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.min(A[tx], T.float32(3)) + T.min(T.float32(3), A[tx])


# right: a GPU makes 0 of NaN and of what is negative
# A = np.tile([np.nan, np.inf, -np.inf, 1], 8)
# B == np.tile([0, 2 ** 32 - 1, 0, 1], 8)
@T.prim_func(s_tir=True)
def NaNAndInfinitiesToUint32(A: T.Buffer(32), B: T.Buffer(32, "uint32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("uint32", A[tx])


# right: of a float64's NaN a GPU makes the smallest int32, as the PTX ISA says
# A = np.tile([np.nan, np.inf, -np.inf, 1], 8)
# B == np.tile([-2 ** 31, 2 ** 31 - 1, -2 ** 31, 1], 8)
@T.prim_func(s_tir=True)
def NaNAndInfinitiesOfFloat64ToInt32(A: T.Buffer(32, "float64"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", A[tx])


# right: of a float64's NaN a GPU makes 2**31, as the PTX ISA says
# A = np.tile([np.nan, np.inf, -np.inf, 1], 8)
# B == np.tile([2 ** 31, 2 ** 32 - 1, 0, 1], 8)
@T.prim_func(s_tir=True)
def NaNAndInfinitiesOfFloat64ToUint32(A: T.Buffer(32, "float64"), B: T.Buffer(32, "uint32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("uint32", A[tx])


# right: what is beyond 65504 becomes infinity
# A = np.tile([70000, -70000], 16)
# B == np.tile([np.inf, -np.inf], 16)
@T.prim_func(s_tir=True)
def Float70000ToFloat16(A: T.Buffer(32), B: T.Buffer(32, "float16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("float16", A[tx])


# right: to the nearest, ties to even
# A = np.arange(32) * 0.00390625 + 1
# B == A.astype('bfloat16')
@T.prim_func(s_tir=True)
def Float32ToBfloat16(A: T.Buffer(32), B: T.Buffer(32, "bfloat16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("bfloat16", A[tx])


# right: to zero
# A = np.arange(32) - 15.25
# B == np.trunc(A)
@T.prim_func(s_tir=True)
def Float32ToInt32(A: T.Buffer(32), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", A[tx])


# wrong, wrong numbers: 2049 is no float16: the sum stays at 2048
# B == np.full(32, 2060)
@T.prim_func(s_tir=True)
def Float16CountsOnFrom2040(A: T.Buffer(32), B: T.Buffer(32, "float16")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((1,), "float16")
    r[0] = T.float16(2040)
    for k in range(20):
        r[0] = r[0] + T.float16(1)
    B[tx] = r[0]


# wrong, wrong numbers: 2**24 + 1 is no float32
# A = np.arange(32) * 0 + 16777217.0
# B == A
@T.prim_func(s_tir=True)
def Of2ToThe24Plus1ThroughFloat32(A: T.Buffer(32, "int32"), B: T.Buffer(32, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.Cast("int32", T.Cast("float32", A[tx]))


# right: a copy rounds nothing
# A = full(32, 9.99994610111476e-41)
# B == A
@T.prim_func(s_tir=True)
def SubnormalFloat32Copied(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx]


# wrong, wrong numbers: TVM compiles with --use_fast_math, which flushes subnormals to zero
# missed by the simulator: it rounds as IEEE says, and NVIDIA's compiler is told --use_fast_math
# A = full(32, 9.99994610111476e-41)
# B == 2 * A
@T.prim_func(s_tir=True)
def SubnormalFloat32Doubled(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx] * T.float32(2)


# wrong, wrong numbers: nvcc contracts the product with the subtraction, so that 2**-24 is left,
#   and not 0
# missed by the simulator: it rounds as IEEE says, and NVIDIA's compiler is told --use_fast_math
# A = full(32, 1.000244140625)
# C = full(32, 1.00048828125)
# B == A * A - C
@T.prim_func(s_tir=True)
def RoundingErrorOfAProductBySubtraction(A: T.Buffer(32), C: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = A[tx] * A[tx] - C[tx]
