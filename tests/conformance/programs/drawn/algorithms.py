"""Programs that compute in another way than their references, and round elsewhere."""

from tvm.script import tirx as T


# right: a convolution with three weights
@T.prim_func(s_tir=True)
def convolved(
    x: T.Buffer((66,), "float32"), w: T.Buffer((3,), "float32"), y: T.Buffer((64,), "float32")
):
    for i in range(64):
        y[i] = x[i] * w[0] + x[i + 1] * w[1] + x[i + 2] * w[2]


# right: Winograd's F(2, 3), which cancels what may be larger than the result
# reference: convolved
@T.prim_func(s_tir=True)
def winograd(
    x: T.Buffer((66,), "float32"), w: T.Buffer((3,), "float32"), y: T.Buffer((64,), "float32")
):
    m = T.alloc_buffer((4,))
    for i in range(32):
        m[0] = (x[i * 2] - x[i * 2 + 2]) * w[0]
        m[1] = (x[i * 2 + 1] + x[i * 2 + 2]) * ((w[0] + w[1] + w[2]) * T.float32(0.5))
        m[2] = (x[i * 2 + 2] - x[i * 2 + 1]) * ((w[0] - w[1] + w[2]) * T.float32(0.5))
        m[3] = (x[i * 2 + 1] - x[i * 2 + 3]) * w[2]
        y[i * 2] = m[0] + m[1] + m[2]
        y[i * 2 + 1] = m[1] - m[2] - m[3]


# right: sums of squares of what is off the mean
@T.prim_func(s_tir=True)
def spread(x: T.Buffer((4, 96), "float32"), y: T.Buffer((4,), "float32")):
    mean = T.alloc_buffer((4,))
    for i in range(4):
        mean[i] = T.float32(0)
        for k in range(96):
            mean[i] = mean[i] + x[i, k] / T.float32(96)
        y[i] = T.float32(0)
        for k in range(96):
            y[i] = y[i] + (x[i, k] - mean[i]) * (x[i, k] - mean[i])


# right: the same by Welford's updates, and shuffles
# reference: spread
@T.prim_func(s_tir=True)
def welford(x: T.Buffer((4, 96), "float32"), y: T.Buffer((4,), "float32")):
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            mean = T.alloc_local((1,))
            total = T.alloc_local((1,))
            mean[0] = T.float32(0)
            total[0] = T.float32(0)
            for k in range(3):
                off: T.let[T.float32] = x[bx, k * 32 + tx] - mean[0]
                mean[0] = mean[0] + off / T.Cast("float32", k + 1)
                total[0] = total[0] + off * (x[bx, k * 32 + tx] - mean[0])
            for s in range(5):
                other: T.let[T.float32] = T.tvm_warp_shuffle_xor(
                    T.uint32(0xFFFFFFFF), mean[0], 1 << s, 32, 32
                )
                more: T.let[T.float32] = T.tvm_warp_shuffle_xor(
                    T.uint32(0xFFFFFFFF), total[0], 1 << s, 32, 32
                )
                apart: T.let[T.float32] = other - mean[0]
                total[0] = total[0] + more + apart * apart * T.Cast("float32", 3 << s) * 0.5
                mean[0] = (mean[0] + other) * T.float32(0.5)
            if tx == 0:
                y[bx] = total[0]


# right: between two elements, at a place that floats say
@T.prim_func(s_tir=True)
def sampled(
    x: T.Buffer((9,), "float32"), at: T.Buffer((32,), "float32"), y: T.Buffer((32,), "float32")
):
    for i in T.thread_binding(32, thread="threadIdx.x"):
        place: T.let[T.float32] = T.max(T.min(at[i] * T.float32(4) + 4.0, 8.0), 0.0)
        left: T.let[T.int32] = T.Cast("int32", T.floor(place))
        share: T.let[T.float32] = place - T.floor(place)
        y[i] = x[left] * (T.float32(1) - share) + x[T.min(left + 1, 8)] * share


# right: the first element above a limit
@T.prim_func(s_tir=True)
def first_above(x: T.Buffer((8, 12)), limit: T.float32, at: T.Buffer((8,), "int32")):
    for i in range(8):
        at[i] = 0
        while at[i] < 12 and x[i, at[i]] <= limit:
            at[i] = at[i] + 1
