"""Functions with products: matmul with what stands around it, quantized weights, convolutions.

Forms of TVM's tests of reductions, of padding and of dlight's rules; the programs are ours.
"""

from tvm.script import tirx as T

# mypy: disable-error-code="no-untyped-def, valid-type"


@T.prim_func(s_tir=True)
def product(
    A: T.Buffer((32, 16), "float32"),
    B: T.Buffer((16, 24), "float32"),
    C: T.Buffer((32, 24), "float32"),
):
    for i, j, k in T.grid(32, 24, 16):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def product_after_zeros(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    for i, j in T.grid(16, 16):
        with T.sblock("zeros"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.float32(0)
    for i, j, k in T.grid(16, 16, 16):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def product_with_bias(
    A: T.Buffer((16, 24), "int32"),
    B: T.Buffer((20, 24), "int32"),
    bias: T.Buffer((20,), "int32"),
    D: T.Buffer((16, 20), "int32"),
):
    C = T.sblock_alloc_buffer((16, 20), "int32")
    for i, j, k in T.grid(16, 20, 24):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
    for i, j in T.grid(16, 20):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + bias[vj]


@T.prim_func(s_tir=True)
def product_cut_at_bounds(
    A: T.Buffer((16, 24), "float32"),
    B: T.Buffer((24, 20), "float32"),
    bias: T.Buffer((20,), "float32"),
    E: T.Buffer((16, 20), "float32"),
):
    C = T.sblock_alloc_buffer((16, 20))
    D = T.sblock_alloc_buffer((16, 20))
    for i, j, k in T.grid(16, 20, 24):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(16, 20):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + bias[vj]
    for i, j in T.grid(16, 20):
        with T.sblock("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.min(T.max(D[vi, vj], T.float32(-9)), T.float32(9))


@T.prim_func(s_tir=True)
def product_of_two_types(
    A: T.Buffer((T.int64(16), 24), "float16"),
    B: T.Buffer((T.int64(20), 24), "float16"),
    C: T.Buffer((T.int64(16), T.int64(20)), "float32"),
):
    for i, j, k in T.grid(T.int64(16), T.int64(20), 24):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vj, vk])


@T.prim_func(s_tir=True)
def product_of_one_row(
    A: T.Buffer((1, 1, 32), "float32"),
    B: T.Buffer((32, 40), "float32"),
    C: T.Buffer((1, 1, 40), "float32"),
):
    for b, i, j, k in T.grid(1, 1, 40, 32):
        with T.sblock("C"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                C[vb, vi, vj] = T.float32(0)
            C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def batch_with_a_scale(
    Q: T.Buffer((3, 18, 8), "float32"),
    K: T.Buffer((3, 22, 8), "float32"),
    S: T.Buffer((3, 18, 22), "float32"),
):
    P = T.sblock_alloc_buffer((3, 18, 22))
    for b, i, j, k in T.grid(3, 18, 22, 8):
        with T.sblock("P"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                P[vb, vi, vj] = T.float32(0)
            P[vb, vi, vj] = P[vb, vi, vj] + Q[vb, vi, vk] * K[vb, vj, vk]
    for b, i, j in T.grid(3, 18, 22):
        with T.sblock("S"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            S[vb, vi, vj] = P[vb, vi, vj] * T.float32(0.25)


@T.prim_func(s_tir=True)
def product_of_bytes(
    A: T.Buffer((32, 32), "int8"), B: T.Buffer((16, 32), "int8"), C: T.Buffer((32, 16), "int32")
):
    for i, j, k in T.grid(32, 16, 32):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj, vk])


@T.prim_func(s_tir=True)
def halves_to_halves(
    A: T.Buffer((32, 32), "float16"),
    B: T.Buffer((32, 16), "float16"),
    D: T.Buffer((32, 16), "float16"),
):
    C = T.sblock_alloc_buffer((32, 16), "float32")
    for i, j, k in T.grid(32, 16, 32):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
    for i, j in T.grid(32, 16):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.Cast("float16", C[vi, vj])


@T.prim_func(s_tir=True)
def product_of_nibbles(
    A: T.Buffer((6, 32), "float32"),
    W: T.Buffer((20, 4), "uint32"),
    scales: T.Buffer((20, 2), "float32"),
    C: T.Buffer((6, 20), "float32"),
):
    F = T.sblock_alloc_buffer((20, 32))
    for j, k in T.grid(20, 32):
        with T.sblock("F"):
            vj, vk = T.axis.remap("SS", [j, k])
            F[vj, vk] = (
                T.Cast(
                    "float32",
                    T.bitwise_and(
                        T.shift_right(W[vj, vk // 8], T.Cast("uint32", vk % 8 * 4)), T.uint32(15)
                    ),
                )
                - T.float32(7)
            ) * scales[vj, vk // 16]
    for i, j, k in T.grid(6, 20, 32):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * F[vj, vk]


@T.prim_func(s_tir=True)
def nibbles_along_the_rows(
    W: T.Buffer((4, 24), "uint32"),
    scales: T.Buffer((2, 24), "float32"),
    x: T.Buffer((32,), "float32"),
    y: T.Buffer((24,), "float32"),
):
    F = T.sblock_alloc_buffer((32, 24))
    for k, j in T.grid(32, 24):
        with T.sblock("F"):
            vk, vj = T.axis.remap("SS", [k, j])
            F[vk, vj] = (
                T.Cast(
                    "float32",
                    T.bitwise_and(
                        T.shift_right(W[vk // 8, vj], T.Cast("uint32", vk % 8 * 4)), T.uint32(15)
                    ),
                )
                - T.float32(7)
            ) * scales[vk // 16, vj]
    for j, k in T.grid(24, 32):
        with T.sblock("y"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                y[vj] = T.float32(0)
            y[vj] = y[vj] + x[vk] * F[vk, vj]


@T.prim_func(s_tir=True)
def product_of_open_rows(a: T.handle, B: T.Buffer((16, 24), "float32"), c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(24)), "float32")
    C = T.match_buffer(c, (n, T.int64(16)), "float32")
    for i, j, k in T.grid(n, T.int64(16), T.int64(24)):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


@T.prim_func(s_tir=True)
def product_divided_and_added(
    A: T.Buffer((16, 24), "float32"),
    B: T.Buffer((24, 20), "float32"),
    R: T.Buffer((16, 20), "float32"),
    E: T.Buffer((16, 20), "float32"),
):
    C = T.sblock_alloc_buffer((16, 20))
    H = T.sblock_alloc_buffer((16, 20))
    D = T.sblock_alloc_buffer((16, 20))
    for i, j, k in T.grid(16, 20, 24):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(16, 20):
        with T.sblock("H"):
            vi, vj = T.axis.remap("SS", [i, j])
            H[vi, vj] = R[vi, vj] * T.float32(0.5)
    for i, j in T.grid(16, 20):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + H[vi, vj]
    for i, j in T.grid(16, 20):
        with T.sblock("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = D[vi, vj] * T.float32(2)


@T.prim_func(s_tir=True)
def product_on_threads(
    A: T.Buffer((16, 8), "float32"),
    B: T.Buffer((8, 32), "float32"),
    C: T.Buffer((16, 32), "float32"),
):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            for ii, ji, k in T.grid(4, 4, 8):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, bx * 4 + ii)
                    vj = T.axis.spatial(32, tx * 4 + ji)
                    vk = T.axis.reduce(8, k)
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def odd_product(
    A: T.Buffer((13, 19), "float32"),
    B: T.Buffer((19, 11), "float32"),
    C: T.Buffer((13, 11), "float32"),
):
    for i, j, k in T.grid(13, 11, 19):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def matrix_times_vector(
    A: T.Buffer((24, 40), "float32"), x: T.Buffer((40,), "float32"), y: T.Buffer((24,), "float32")
):
    for i, k in T.grid(24, 40):
        with T.sblock("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + A[vi, vk] * x[vk]


@T.prim_func(s_tir=True)
def product_of_three(
    A: T.Buffer((6, 8), "int32"),
    B: T.Buffer((8, 10), "int32"),
    w: T.Buffer((8,), "int32"),
    C: T.Buffer((6, 10), "int32"),
):
    for i, j, k in T.grid(6, 10, 8):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * w[vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def two_products(
    A: T.Buffer((12, 8), "float32"),
    B: T.Buffer((8, 16), "float32"),
    D: T.Buffer((16, 10), "float32"),
    E: T.Buffer((12, 10), "float32"),
):
    C = T.sblock_alloc_buffer((12, 16))
    for i, j, k in T.grid(12, 16, 8):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j, k in T.grid(12, 10, 16):
        with T.sblock("E"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                E[vi, vj] = T.float32(0)
            E[vi, vj] = E[vi, vj] + C[vi, vk] * D[vk, vj]


@T.prim_func(s_tir=True)
def picture_with_taps(
    X: T.Buffer((1, 8, 9, 4), "float32"),
    W: T.Buffer((3, 3, 4, 6), "float32"),
    Y: T.Buffer((1, 6, 7, 6), "float32"),
):
    for n, y, x, o, r, s, c in T.grid(1, 6, 7, 6, 3, 3, 4):
        with T.sblock("Y"):
            vn, vy, vx, vo, vr, vs, vc = T.axis.remap("SSSSRRR", [n, y, x, o, r, s, c])
            with T.init():
                Y[vn, vy, vx, vo] = T.float32(0)
            Y[vn, vy, vx, vo] = Y[vn, vy, vx, vo] + X[vn, vy + vr, vx + vs, vc] * W[vr, vs, vc, vo]


@T.prim_func(s_tir=True)
def padded_picture_with_taps(
    X: T.Buffer((1, 2, 6, 6), "float32"),
    W: T.Buffer((4, 2, 3, 3), "float32"),
    Y: T.Buffer((1, 4, 3, 3), "float32"),
):
    P = T.sblock_alloc_buffer((1, 2, 8, 8))
    for n, c, y, x in T.grid(1, 2, 8, 8):
        with T.sblock("P"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(
                vy >= 1 and vy < 7 and vx >= 1 and vx < 7, X[vn, vc, vy - 1, vx - 1], T.float32(0)
            )
    for n, o, y, x, c, r, s in T.grid(1, 4, 3, 3, 2, 3, 3):
        with T.sblock("Y"):
            vn, vo, vy, vx, vc, vr, vs = T.axis.remap("SSSSRRR", [n, o, y, x, c, r, s])
            with T.init():
                Y[vn, vo, vy, vx] = T.float32(0)
            Y[vn, vo, vy, vx] = (
                Y[vn, vo, vy, vx] + P[vn, vc, vy * 2 + vr, vx * 2 + vs] * W[vo, vc, vr, vs]
            )


@T.prim_func(s_tir=True)
def taps_of_each_channel(
    X: T.Buffer((5, 10, 10), "int32"),
    W: T.Buffer((5, 3, 3), "int32"),
    Y: T.Buffer((5, 8, 8), "int32"),
):
    for c, y, x, r, s in T.grid(5, 8, 8, 3, 3):
        with T.sblock("Y"):
            vc, vy, vx, vr, vs = T.axis.remap("SSSRR", [c, y, x, r, s])
            with T.init():
                Y[vc, vy, vx] = 0
            Y[vc, vy, vx] = Y[vc, vy, vx] + X[vc, vy + vr, vx + vs] * W[vc, vr, vs]


@T.prim_func(s_tir=True)
def patches(
    X: T.Buffer((2, 2, 4, 4), "float32"),
    W: T.Buffer((6, 2, 2, 2), "float32"),
    Y: T.Buffer((2, 6, 2, 2), "float32"),
):
    for n, o, y, x, c, r, s in T.grid(2, 6, 2, 2, 2, 2, 2):
        with T.sblock("Y"):
            vn, vo, vy, vx, vc, vr, vs = T.axis.remap("SSSSRRR", [n, o, y, x, c, r, s])
            with T.init():
                Y[vn, vo, vy, vx] = T.float32(0)
            Y[vn, vo, vy, vx] = (
                Y[vn, vo, vy, vx] + X[vn, vc, vy * 2 + vr, vx * 2 + vs] * W[vo, vc, vr, vs]
            )
