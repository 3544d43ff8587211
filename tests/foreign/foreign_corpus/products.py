"""Functions with products: matmul with what stands around it, quantized weights, convolutions.

Forms of TVM's tests of reductions, of padding and of dlight's rules; the programs are ours.
"""

from kernels import parse_functions
from tvm.script import tirx as T

# mypy: disable-error-code="no-untyped-def, valid-type"

FUNCTIONS = parse_functions("""
product: A (32, 16), B (16, 24), C (32, 24)
    i:32 j:24 k:16  C[i, j] += A[i, k] * B[k, j]

product_with_bias: A (16, 24) int32, B (20, 24) int32, bias (20,) int32, D (16, 20) int32
    C (16, 20) int32
    i:16 j:20 k:24  C[i, j] += A[i, k] * B[j, k]
    i:16 j:20  D[i, j] = C[i, j] + bias[j]

product_cut_at_bounds: A (16, 24), B (24, 20), bias (20,), E (16, 20)
    C (16, 20), D (16, 20)
    i:16 j:20 k:24  C[i, j] += A[i, k] * B[k, j]
    i:16 j:20  D[i, j] = C[i, j] + bias[j]
    i:16 j:20  E[i, j] = T.min(T.max(D[i, j], T.float32(-9)), T.float32(9))

product_of_two_types: A (T.int64(16), 24) float16, B (T.int64(20), 24) float16, C (T.int64(16),
        T.int64(20))
    i:T.int64(16) j:T.int64(20) k:24  C[i, j] += T.Cast("float32", A[i, k]) * T.Cast("float32",
        B[j, k])

product_of_one_row: A (1, 1, 32), B (32, 40), C (1, 1, 40)
    b:1 i:1 j:40 k:32  C[b, i, j] += A[b, i, k] * B[k, j]

batch_with_a_scale: Q (3, 18, 8), K (3, 22, 8), S (3, 18, 22)
    P (3, 18, 22)
    b:3 i:18 j:22 k:8  P[b, i, j] += Q[b, i, k] * K[b, j, k]
    b:3 i:18 j:22  S[b, i, j] = P[b, i, j] * T.float32(0.25)

product_of_bytes: A (32, 32) int8, B (16, 32) int8, C (32, 16) int32
    i:32 j:16 k:32  C[i, j] += T.Cast("int32", A[i, k]) * T.Cast("int32", B[j, k])

halves_to_halves: A (32, 32) float16, B (32, 16) float16, D (32, 16) float16
    C (32, 16)
    i:32 j:16 k:32  C[i, j] += T.Cast("float32", A[i, k]) * T.Cast("float32", B[k, j])
    i:32 j:16  D[i, j] = T.Cast("float16", C[i, j])

product_of_nibbles: A (6, 32), W (20, 4) uint32, scales (20, 2), C (6, 20)
    F (20, 32)
    j:20 k:32  F[j, k] = (T.Cast("float32", T.bitwise_and(T.shift_right(W[j, k // 8],
        T.Cast("uint32", k % 8 * 4)), T.uint32(15))) - T.float32(7)) * scales[j, k // 16]
    i:6 j:20 k:32  C[i, j] += A[i, k] * F[j, k]

nibbles_along_the_rows: W (4, 24) uint32, scales (2, 24), x (32,), y (24,)
    F (32, 24)
    k:32 j:24  F[k, j] = (T.Cast("float32", T.bitwise_and(T.shift_right(W[k // 8, j],
        T.Cast("uint32", k % 8 * 4)), T.uint32(15))) - T.float32(7)) * scales[k // 16, j]
    j:24 k:32  y[j] += x[k] * F[k, j]

product_divided_and_added: A (16, 24), B (24, 20), R (16, 20), E (16, 20)
    C (16, 20), H (16, 20), D (16, 20)
    i:16 j:20 k:24  C[i, j] += A[i, k] * B[k, j]
    i:16 j:20  H[i, j] = R[i, j] * T.float32(0.5)
    i:16 j:20  D[i, j] = C[i, j] + H[i, j]
    i:16 j:20  E[i, j] = D[i, j] * T.float32(2)

odd_product: A (13, 19), B (19, 11), C (13, 11)
    i:13 j:11 k:19  C[i, j] += A[i, k] * B[k, j]

matrix_times_vector: A (24, 40), x (40,), y (24,)
    i:24 k:40  y[i] += A[i, k] * x[k]

product_of_three: A (6, 8) int32, B (8, 10) int32, w (8,) int32, C (6, 10) int32
    i:6 j:10 k:8  C[i, j] += A[i, k] * w[k] * B[k, j]

two_products: A (12, 8), B (8, 16), D (16, 10), E (12, 10)
    C (12, 16)
    i:12 j:16 k:8  C[i, j] += A[i, k] * B[k, j]
    i:12 j:10 k:16  E[i, j] += C[i, k] * D[k, j]

picture_with_taps: X (1, 8, 9, 4), W (3, 3, 4, 6), Y (1, 6, 7, 6)
    n:1 y:6 x:7 o:6 r:3 s:3 c:4  Y[n, y, x, o] += X[n, y + r, x + s, c] * W[r, s, c, o]

padded_picture_with_taps: X (1, 2, 6, 6), W (4, 2, 3, 3), Y (1, 4, 3, 3)
    P (1, 2, 8, 8)
    n:1 c:2 y:8 x:8  P[n, c, y, x] = T.if_then_else(y >= 1 and y < 7 and (x >= 1) and (x < 7),
        X[n, c, y - 1, x - 1], T.float32(0))
    n:1 o:4 y:3 x:3 c:2 r:3 s:3  Y[n, o, y, x] += P[n, c, y * 2 + r, x * 2 + s] * W[o, c, r, s]

taps_of_each_channel: X (5, 10, 10) int32, W (5, 3, 3) int32, Y (5, 8, 8) int32
    c:5 y:8 x:8 r:3 s:3  Y[c, y, x] += X[c, y + r, x + s] * W[c, r, s]

patches: X (2, 2, 4, 4), W (6, 2, 2, 2), Y (2, 6, 2, 2)
    n:2 o:6 y:2 x:2 c:2 r:2 s:2  Y[n, o, y, x] += X[n, c, y * 2 + r, x * 2 + s] * W[o, c, r, s]
""")


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
