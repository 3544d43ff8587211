"""Numbers that leave their type on the way, not at the end."""

from tvm.script import tirx as T


# right: softmax as it should be
@T.prim_func(s_tir=True)
def softmax(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    m = T.alloc_buffer((4,))
    s = T.alloc_buffer((4,))
    for i in range(4):
        m[i] = A[i, 0]
        for k in range(64):
            m[i] = T.max(m[i], A[i, k])
        s[i] = T.float32(0)
        for k in range(64):
            s[i] = s[i] + T.exp(A[i, k] - m[i])
        for k in range(64):
            B[i, k] = T.exp(A[i, k] - m[i]) / s[i]


# wrong, wrong numbers: nothing is taken off, and exp(89) is infinite
# reference: softmax
@T.prim_func(s_tir=True)
def softmax_without_its_maximum(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 4) as tx:
            r = T.alloc_local((1,))
            r[0] = T.float32(0)
            for k in range(64):
                r[0] = r[0] + T.exp(A[tx, k])
            for k in range(64):
                B[tx, k] = T.exp(A[tx, k]) / r[0]


# right: 1 / (1 + inf) is zero
@T.prim_func(s_tir=True)
def logistic(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for i in range(64):
        y[i] = T.float32(1) / (T.float32(1) + T.exp(T.float32(0) - x[i]))


# right: softplus, which is the element itself where that is large
@T.prim_func(s_tir=True)
def softplus(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for i in range(64):
        y[i] = T.max(x[i], T.float32(0)) + T.log(T.float32(1) + T.exp(T.float32(0) - T.fabs(x[i])))


# right: squares of half precision are added up in single
@T.prim_func(s_tir=True)
def norms(x: T.Buffer((8, 16), "float16"), y: T.Buffer((8, 16), "float16")):
    total = T.alloc_buffer((8,))
    for i in range(8):
        total[i] = T.float32(0)
        for k in range(16):
            total[i] = total[i] + T.Cast("float32", x[i, k]) * T.Cast("float32", x[i, k])
        for k in range(16):
            y[i, k] = T.Cast(
                "float16", T.Cast("float32", x[i, k]) / T.sqrt(total[i] + T.float32(0.001))
            )


# right: bytes are added up in 32 bits
@T.prim_func(s_tir=True)
def byte_sums(x: T.Buffer((8, 16), "int8"), y: T.Buffer((8,), "int32")):
    for i in range(8):
        y[i] = 0
        for k in range(16):
            y[i] = y[i] + T.Cast("int32", x[i, k]) * T.Cast("int32", x[i, k])


# right: what is infinite on the way is as the compiler has it
@T.prim_func(s_tir=True)
def scaled_products(
    A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "float16"), C: T.Buffer((64,), "float16")
):
    for i in range(64):
        C[i] = A[i] * B[i] * T.float16(0.01)


# right: the same of a root
@T.prim_func(s_tir=True)
def lengths(A: T.Buffer((64,), "float16"), C: T.Buffer((64,), "float16")):
    for i in range(64):
        C[i] = T.sqrt(A[i] * A[i] + T.float16(1))


# right: partial sums leave half precision where the sum does not
@T.prim_func(s_tir=True)
def half_products(
    A: T.Buffer((8, 32), "float16"), B: T.Buffer((32, 8), "float16"), C: T.Buffer((8, 8), "float16")
):
    for i, j in T.grid(8, 8):
        C[i, j] = T.float16(0)
        for k in range(32):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]


# right: squares of exponentials leave single precision where their logarithm does not
@T.prim_func(s_tir=True)
def doubled_log_sums(A: T.Buffer((8, 64), "float32"), C: T.Buffer((8,), "float32")):
    total = T.alloc_buffer((8,))
    for i in range(8):
        total[i] = T.float32(0)
        for k in range(64):
            total[i] = total[i] + T.exp(A[i, k]) * T.exp(A[i, k])
        C[i] = T.log(total[i])
