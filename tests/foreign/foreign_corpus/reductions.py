"""Functions that reduce without a product: rows, norms, softmax, pools, the place of the largest.

Forms of TVM's tests of rfactor and compute_at and of dlight's rules; the programs are ours.
"""

from tvm.script import tirx as T

# mypy: disable-error-code="no-untyped-def, valid-type"


@T.prim_func(s_tir=True)
def sum_of_rows(A: T.Buffer((20, 48), "float32"), S: T.Buffer((20,), "float32")):
    for i, k in T.grid(20, 48):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]


@T.prim_func(s_tir=True)
def sum_of_all(A: T.Buffer((64,), "float32"), S: T.Buffer((), "float32")):
    for k in range(64):
        with T.sblock("S"):
            vk = T.axis.reduce(64, k)
            with T.init():
                S[()] = T.float32(0)
            S[()] = S[()] + A[vk]


@T.prim_func(s_tir=True)
def root_of_squares(A: T.Buffer((6, 8, 10), "float32"), D: T.Buffer((6,), "float32")):
    C = T.sblock_alloc_buffer((6,))
    for b, i, j in T.grid(6, 8, 10):
        with T.sblock("C"):
            vb, vi, vj = T.axis.remap("SRR", [b, i, j])
            with T.init():
                C[vb] = T.float32(0)
            C[vb] = C[vb] + A[vb, vi, vj] * A[vb, vi, vj]
    for b in range(6):
        with T.sblock("D"):
            vb = T.axis.spatial(6, b)
            D[vb] = T.sqrt(C[vb])


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
def softmax(A: T.Buffer((10, 36), "float32"), D: T.Buffer((10, 36), "float32")):
    top = T.sblock_alloc_buffer((10,))
    power = T.sblock_alloc_buffer((10, 36))
    total = T.sblock_alloc_buffer((10,))
    for i, k in T.grid(10, 36):
        with T.sblock("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                top[vi] = T.min_value("float32")
            top[vi] = T.max(top[vi], A[vi, vk])
    for i, k in T.grid(10, 36):
        with T.sblock("power"):
            vi, vk = T.axis.remap("SS", [i, k])
            power[vi, vk] = T.exp(A[vi, vk] - top[vi])
    for i, k in T.grid(10, 36):
        with T.sblock("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + power[vi, vk]
    for i, k in T.grid(10, 36):
        with T.sblock("D"):
            vi, vk = T.axis.remap("SS", [i, k])
            D[vi, vk] = power[vi, vk] / total[vi]


@T.prim_func(s_tir=True)
def centred_rows(
    A: T.Buffer((6, 32), "float32"),
    g: T.Buffer((32,), "float32"),
    b: T.Buffer((32,), "float32"),
    D: T.Buffer((6, 32), "float32"),
):
    total = T.sblock_alloc_buffer((6,))
    squares = T.sblock_alloc_buffer((6,))
    for i, k in T.grid(6, 32):
        with T.sblock("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + A[vi, vk]
    for i, k in T.grid(6, 32):
        with T.sblock("squares"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                squares[vi] = T.float32(0)
            squares[vi] = squares[vi] + A[vi, vk] * A[vi, vk]
    for i, k in T.grid(6, 32):
        with T.sblock("D"):
            vi, vk = T.axis.remap("SS", [i, k])
            D[vi, vk] = (A[vi, vk] - total[vi] * T.float32(0.03125)) * T.rsqrt(
                squares[vi] * T.float32(0.03125)
                - total[vi] * total[vi] * T.float32(0.0009765625)
                + T.float32(1)
            ) * g[vk] + b[vk]


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
def root_mean_square(
    A: T.Buffer((1, 5, 24), "float16"),
    w: T.Buffer((24,), "float16"),
    D: T.Buffer((1, 5, 24), "float16"),
):
    F = T.sblock_alloc_buffer((1, 5, 24))
    S = T.sblock_alloc_buffer((1, 5))
    for b, i, k in T.grid(1, 5, 24):
        with T.sblock("F"):
            vb, vi, vk = T.axis.remap("SSS", [b, i, k])
            F[vb, vi, vk] = T.Cast("float32", A[vb, vi, vk])
    for b, i, k in T.grid(1, 5, 24):
        with T.sblock("S"):
            vb, vi, vk = T.axis.remap("SSR", [b, i, k])
            with T.init():
                S[vb, vi] = T.float32(0)
            S[vb, vi] = S[vb, vi] + F[vb, vi, vk] * F[vb, vi, vk]
    for b, i, k in T.grid(1, 5, 24):
        with T.sblock("D"):
            vb, vi, vk = T.axis.remap("SSS", [b, i, k])
            D[vb, vi, vk] = T.Cast(
                "float16",
                F[vb, vi, vk]
                * T.rsqrt(S[vb, vi] / T.float32(24) + T.float32(1))
                * T.Cast("float32", w[vk]),
            )


@T.prim_func(s_tir=True)
def logarithm_of_sums(A: T.Buffer((4, 3, 16), "float32"), D: T.Buffer((4, 3), "float32")):
    top = T.sblock_alloc_buffer((4, 3))
    total = T.sblock_alloc_buffer((4, 3))
    for i, c, k in T.grid(4, 3, 16):
        with T.sblock("top"):
            vi, vc, vk = T.axis.remap("SSR", [i, c, k])
            with T.init():
                top[vi, vc] = T.min_value("float32")
            top[vi, vc] = T.max(top[vi, vc], A[vi, vc, vk])
    for i, c, k in T.grid(4, 3, 16):
        with T.sblock("total"):
            vi, vc, vk = T.axis.remap("SSR", [i, c, k])
            with T.init():
                total[vi, vc] = T.float32(0)
            total[vi, vc] = total[vi, vc] + T.exp(A[vi, vc, vk] - top[vi, vc])
    for i, c in T.grid(4, 3):
        with T.sblock("D"):
            vi, vc = T.axis.remap("SS", [i, c])
            D[vi, vc] = T.log(total[vi, vc]) + top[vi, vc]


@T.prim_func(s_tir=True)
def sum_of_sums(A: T.Buffer((8, 24), "float32"), S: T.Buffer((1,), "float32")):
    B = T.sblock_alloc_buffer((8,))
    for i, k in T.grid(8, 24):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for u, k in T.grid(1, 8):
        with T.sblock("S"):
            vu, vk = T.axis.remap("SR", [u, k])
            with T.init():
                S[vu] = T.float32(0)
            S[vu] = S[vu] + B[vk]


@T.prim_func(s_tir=True)
def sum_of_bytes(A: T.Buffer((10, 64), "int8"), S: T.Buffer((10,), "int8")):
    for i, k in T.grid(10, 64):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.int8(0)
            S[vi] = S[vi] + A[vi, vk]


@T.prim_func(s_tir=True)
def product_of_rows(A: T.Buffer((9, 16), "int32"), P: T.Buffer((9,), "int32")):
    for i, k in T.grid(9, 16):
        with T.sblock("P"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = 1
            P[vi] = P[vi] * A[vi, vk]


@T.prim_func(s_tir=True)
def smallest_of_columns(A: T.Buffer((30, 14), "float32"), M: T.Buffer((14,), "float32")):
    for j, k in T.grid(14, 30):
        with T.sblock("M"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                M[vj] = T.max_value("float32")
            M[vj] = T.min(M[vj], A[vk, vj])


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
def sum_around_the_middle(A: T.Buffer((6, 10, 8), "float32"), S: T.Buffer((10,), "float32")):
    for j, i, k in T.grid(10, 6, 8):
        with T.sblock("S"):
            vj, vi, vk = T.axis.remap("SRR", [j, i, k])
            with T.init():
                S[vj] = T.float32(0)
            S[vj] = S[vj] + A[vi, vj, vk]


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
def pooled_sums(X: T.Buffer((1, 3, 11, 11), "float32"), Y: T.Buffer((1, 3, 5, 5), "float32")):
    for n, c, y, x, r, s in T.grid(1, 3, 5, 5, 3, 3):
        with T.sblock("Y"):
            vn, vc, vy, vx, vr, vs = T.axis.remap("SSSSRR", [n, c, y, x, r, s])
            with T.init():
                Y[vn, vc, vy, vx] = T.float32(0)
            Y[vn, vc, vy, vx] = Y[vn, vc, vy, vx] + X[vn, vc, vy * 2 + vr, vx * 2 + vs]


@T.prim_func(s_tir=True)
def pool_after_pool(X: T.Buffer((2, 12, 12), "float32"), Y: T.Buffer((2, 8, 8), "float32")):
    M = T.sblock_alloc_buffer((2, 10, 10))
    for c, y, x, r, s in T.grid(2, 10, 10, 3, 3):
        with T.sblock("M"):
            vc, vy, vx, vr, vs = T.axis.remap("SSSRR", [c, y, x, r, s])
            with T.init():
                M[vc, vy, vx] = T.min_value("float32")
            M[vc, vy, vx] = T.max(M[vc, vy, vx], X[vc, vy + vr, vx + vs])
    for c, y, x, r, s in T.grid(2, 8, 8, 3, 3):
        with T.sblock("Y"):
            vc, vy, vx, vr, vs = T.axis.remap("SSSRR", [c, y, x, r, s])
            with T.init():
                Y[vc, vy, vx] = T.min_value("float32")
            Y[vc, vy, vx] = T.max(Y[vc, vy, vx], M[vc, vy + vr, vx + vs])


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


@T.prim_func(s_tir=True)
def sum_written_backwards(A: T.Buffer((12, 20), "float32"), S: T.Buffer((12,), "float32")):
    for i, k in T.grid(12, 20):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = A[vi, vk] + S[vi]


@T.prim_func(s_tir=True)
def sum_from_a_bias(
    A: T.Buffer((12, 20), "float32"), b: T.Buffer((12,), "float32"), S: T.Buffer((12,), "float32")
):
    for i, k in T.grid(12, 20):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = b[vi]
            S[vi] = S[vi] + A[vi, vk]


@T.prim_func(s_tir=True)
def any_of_rows(A: T.Buffer((10, 12), "bool"), S: T.Buffer((10,), "bool")):
    for i, k in T.grid(10, 12):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.bool(False)
            S[vi] = S[vi] or A[vi, vk]


@T.prim_func(s_tir=True)
def histogram(A: T.Buffer((40,), "int32"), counts: T.Buffer((5,), "int32")):
    for b, i in T.grid(5, 40):
        with T.sblock("counts"):
            vb, vi = T.axis.remap("SR", [b, i])
            with T.init():
                counts[vb] = 0
            counts[vb] = counts[vb] + T.Cast("int32", A[vi] == vb)
