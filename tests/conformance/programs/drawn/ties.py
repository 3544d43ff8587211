"""Elements that are equal, zero, or far out."""

from tvm.script import tirx as T


# right: backwards
@T.prim_func(s_tir=True)
def backwards(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = A[63 - i]


# right: through shared memory
# reference: backwards
@T.prim_func(s_tir=True)
def backwards_through_shared(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    with T.launch_thread("blockIdx.x", 1) as bx:
        with T.launch_thread("threadIdx.x", 64) as tx:
            S = T.alloc_shared((64,))
            S[tx] = A[tx]
            T.tvm_storage_sync("shared")
            B[tx] = S[63 - tx]


# right: where the maximum is, the first one of several
@T.prim_func(s_tir=True)
def first_highest(x: T.Buffer((6, 10), "float32"), at: T.Buffer((6,), "int32")):
    high = T.alloc_buffer((6,))
    for i in range(6):
        high[i] = x[i, 0]
        at[i] = 0
        for j in range(9):
            if x[i, j + 1] > high[i]:
                high[i] = x[i, j + 1]
                at[i] = j + 1


# right: elements in order, equal ones as they stand
@T.prim_func(s_tir=True)
def ranked(x: T.Buffer((12,), "int32"), y: T.Buffer((12,), "int32")):
    rank = T.alloc_buffer((12,), "int32")
    for i in range(12):
        y[i] = -1
    for i in range(12):
        rank[i] = 0
        for j in range(12):
            if x[j] < x[i] or (x[j] == x[i] and j < i):
                rank[i] = rank[i] + 1
        y[rank[i]] = i


# right: 1, 0 or -1
@T.prim_func(s_tir=True)
def signs(x: T.Buffer((40,), "float32"), y: T.Buffer((40,), "float32")):
    for i in range(40):
        y[i] = T.if_then_else(
            x[i] > T.float32(0),
            T.float32(1),
            T.if_then_else(x[i] < T.float32(0), T.float32(-1), T.float32(0)),
        )


# right: values above six are cut off
@T.prim_func(s_tir=True)
def clipped(x: T.Buffer((40,), "float32"), y: T.Buffer((40,), "float32")):
    for i in range(40):
        y[i] = T.min(x[i], T.float32(500))


# right: half precision keeps what is below its smallest normal number
@T.prim_func(s_tir=True)
def grown(x: T.Buffer((40,), "float16"), y: T.Buffer((40,), "float32")):
    for i in range(40):
        y[i] = T.Cast("float32", x[i]) * T.float32(1000)


# right: of boxes that overlap by more than half, the first one is kept
@T.prim_func(s_tir=True)
def suppressed(x: T.Buffer((12, 4), "float32"), keep: T.Buffer((12,), "int32")):
    for i in range(12):
        keep[i] = 1
    for i, j in T.grid(12, 12):
        if i < j and keep[i] == 1:
            wide: T.let[T.float32] = T.max(T.min(x[i, 2], x[j, 2]) - T.max(x[i, 0], x[j, 0]), 0.0)
            high: T.let[T.float32] = T.max(T.min(x[i, 3], x[j, 3]) - T.max(x[i, 1], x[j, 1]), 0.0)
            one: T.let[T.float32] = T.max(x[i, 2] - x[i, 0], 0.0) * T.max(x[i, 3] - x[i, 1], 0.0)
            other: T.let[T.float32] = T.max(x[j, 2] - x[j, 0], 0.0) * T.max(x[j, 3] - x[j, 1], 0.0)
            if wide * high * T.float32(3) > one + other:
                keep[j] = 0
