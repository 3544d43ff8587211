"""Functions that reduce without a product: rows, norms, softmax, pools, the place of the largest.

Forms of TVM's tests of rfactor and compute_at and of dlight's rules; the programs are ours.
"""

from kernels import parse_functions
from tvm.script import tirx as T

# mypy: disable-error-code="no-untyped-def, valid-type"

FUNCTIONS = parse_functions("""
sum_of_rows: A (20, 48), S (20,)
    i:20 k:48  S[i] += A[i, k]

sum_of_all: A (64,), S ()
    k:64  S[()] += A[k]

root_of_squares: A (6, 8, 10), D (6,)
    C (6,)
    b:6 i:8 j:10  C[b] += A[b, i, j] * A[b, i, j]
    b:6  D[b] = T.sqrt(C[b])

softmax: A (10, 36), D (10, 36)
    top (10,), power (10, 36), total (10,)
    i:10 k:36  top[i] = T.min_value("float32") -> T.max(top[i], A[i, k])
    i:10 k:36  power[i, k] = T.exp(A[i, k] - top[i])
    i:10 k:36  total[i] += power[i, k]
    i:10 k:36  D[i, k] = power[i, k] / total[i]

centred_rows: A (6, 32), g (32,), b (32,), D (6, 32)
    total (6,), squares (6,)
    i:6 k:32  total[i] += A[i, k]
    i:6 k:32  squares[i] += A[i, k] * A[i, k]
    i:6 k:32  D[i, k] = (A[i, k] - total[i] * T.float32(0.03125)) * T.rsqrt(squares[i] *
        T.float32(0.03125) - total[i] * total[i] * T.float32(0.0009765625) + T.float32(1)) * g[k]
        + b[k]

root_mean_square: A (1, 5, 24) float16, w (24,) float16, D (1, 5, 24) float16
    F (1, 5, 24), S (1, 5)
    b:1 i:5 k:24  F[b, i, k] = T.Cast("float32", A[b, i, k])
    b:1 i:5 k:24  S[b, i] += F[b, i, k] * F[b, i, k]
    b:1 i:5 k:24  D[b, i, k] = T.Cast("float16", F[b, i, k] * T.rsqrt(S[b, i] / T.float32(24) +
        T.float32(1)) * T.Cast("float32", w[k]))

logarithm_of_sums: A (4, 3, 16), D (4, 3)
    top (4, 3), total (4, 3)
    i:4 c:3 k:16  top[i, c] = T.min_value("float32") -> T.max(top[i, c], A[i, c, k])
    i:4 c:3 k:16  total[i, c] += T.exp(A[i, c, k] - top[i, c])
    i:4 c:3  D[i, c] = T.log(total[i, c]) + top[i, c]

sum_of_sums: A (8, 24), S (1,)
    B (8,)
    i:8 k:24  B[i] += A[i, k]
    u:1 k:8  S[u] += B[k]

sum_of_bytes: A (10, 64) int8, S (10,) int8
    i:10 k:64  S[i] += A[i, k]

product_of_rows: A (9, 16) int32, P (9,) int32
    i:9 k:16  P[i] = 1 -> P[i] * A[i, k]

smallest_of_columns: A (30, 14), M (14,)
    j:14 k:30  M[j] = T.max_value("float32") -> T.min(M[j], A[k, j])

sum_around_the_middle: A (6, 10, 8), S (10,)
    j:10 i:6 k:8  S[j] += A[i, j, k]

pooled_sums: X (1, 3, 11, 11), Y (1, 3, 5, 5)
    n:1 c:3 y:5 x:5 r:3 s:3  Y[n, c, y, x] += X[n, c, y * 2 + r, x * 2 + s]

pool_after_pool: X (2, 12, 12), Y (2, 8, 8)
    M (2, 10, 10)
    c:2 y:10 x:10 r:3 s:3  M[c, y, x] = T.min_value("float32") -> T.max(M[c, y, x], X[c, y + r, x
        + s])
    c:2 y:8 x:8 r:3 s:3  Y[c, y, x] = T.min_value("float32") -> T.max(Y[c, y, x], M[c, y + r, x +
        s])

sum_written_backwards: A (12, 20), S (12,)
    i:12 k:20  S[i] = T.float32(0) -> A[i, k] + S[i]

sum_from_a_bias: A (12, 20), b (12,), S (12,)
    i:12 k:20  S[i] = b[i] -> S[i] + A[i, k]

any_of_rows: A (10, 12) bool, S (10,) bool
    i:10 k:12  S[i] = T.bool(False) -> S[i] or A[i, k]

histogram: A (40,) int32, counts (5,) int32
    b:5 i:40  counts[b] += T.Cast("int32", A[i] == b)
""")


@T.prim_func(s_tir=True)
def split_sum(A: T.Buffer((12, 50), "float32"), S: T.Buffer((12,), "float32")):
    for i, ko, ki in T.grid(12, 7, 8):
        with T.sblock("S"):
            vi = T.axis.spatial(12, i)
            vk = T.axis.reduce(50, ko * 8 + ki)
            T.where(ko * 8 + ki < 50)
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]


@T.prim_func(s_tir=True)
def sum_in_blocks(A: T.Buffer((8, 32), "float32"), S: T.Buffer((8,), "float32")):
    for io, ko in T.grid(2, 4):
        with T.sblock("outer"):
            vio, vko = T.axis.remap("SR", [io, ko])
            with T.init():
                for ii in range(4):
                    with T.sblock("zeros"):
                        vz = T.axis.spatial(4, ii)
                        S[vio * 4 + vz] = T.float32(0)
            for ii, ki in T.grid(4, 8):
                with T.sblock("inner"):
                    vii, vki = T.axis.remap("SR", [ii, ki])
                    S[vio * 4 + vii] = S[vio * 4 + vii] + A[vio * 4 + vii, vko * 8 + vki]


@T.prim_func(s_tir=True)
def place_of_the_largest(
    A: T.Buffer((14, 30), "float32"),
    place: T.Buffer((14,), "int32"),
    top: T.Buffer((14,), "float32"),
):
    for i, k in T.grid(14, 30):
        with T.sblock("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                place[vi] = -1
                top[vi] = T.min_value("float32")
            new_place: T.let[T.int32] = T.Select(top[vi] >= A[vi, vk], place[vi], vk)
            new_top: T.let[T.float32] = T.Select(top[vi] >= A[vi, vk], top[vi], A[vi, vk])
            place[vi] = new_place
            top[vi] = new_top


@T.prim_func(s_tir=True)
def both_moments(
    A: T.Buffer((7, 24), "float32"),
    total: T.Buffer((7,), "float32"),
    squares: T.Buffer((7,), "float32"),
):
    for i, k in T.grid(7, 24):
        with T.sblock("moments"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
                squares[vi] = T.float32(0)
            new_total: T.let[T.float32] = total[vi] + A[vi, vk]
            new_squares: T.let[T.float32] = squares[vi] + A[vi, vk] * A[vi, vk]
            total[vi] = new_total
            squares[vi] = new_squares


@T.prim_func(s_tir=True)
def running_sum(A: T.Buffer((6, 20), "float32"), B: T.Buffer((6, 20), "float32")):
    for i, j in T.grid(6, 20):
        with T.sblock("B"):
            vi = T.axis.spatial(6, i)
            vj = T.axis.opaque(20, j)
            T.reads(A[vi, 0:20], B[vi, 0:20])
            T.writes(B[vi, 0:20])
            if vj == 0:
                B[vi, vj] = A[vi, vj]
            else:
                B[vi, vj] = B[vi, vj - 1] + A[vi, vj]


@T.prim_func(s_tir=True)
def sums_over_open_rows(a: T.handle, s: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    S = T.match_buffer(s, (n,), "float32")
    for i, k in T.grid(n, m):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]


@T.prim_func(s_tir=True)
def with_a_loop_that_feeds_nothing(A: T.Buffer((16, 32), "float32"), D: T.Buffer((16,), "float32")):
    C = T.sblock_alloc_buffer((16,))
    for i, k, _u in T.grid(16, 32, 1):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(16):
        with T.sblock("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = C[vi] + T.float32(1)
