"""Functions without a product: chains, diamonds, guards, indirect and permuted elements.

Forms in which TVM's tests of its schedule primitives write such functions; the programs are ours.
"""

from tvm.script import tirx as T

# mypy: disable-error-code="no-untyped-def, valid-type"


@T.prim_func(s_tir=True)
def doubled(A: T.Buffer((24, 20), "float32"), B: T.Buffer((24, 20), "float32")):
    for i, j in T.grid(24, 20):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func(s_tir=True)
def long_vector(A: T.Buffer((T.int64(77),), "float32"), B: T.Buffer((T.int64(77),), "float32")):
    for i in range(T.int64(77)):
        with T.sblock("B"):
            vi = T.axis.spatial(T.int64(77), i)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func(s_tir=True)
def chain_of_two(A: T.Buffer((24, 20), "float32"), C: T.Buffer((24, 20), "float32")):
    B = T.sblock_alloc_buffer((24, 20))
    for i, j in T.grid(24, 20):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(24, 20):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


@T.prim_func(s_tir=True)
def chain_of_three(A: T.Buffer((40,), "int32"), D: T.Buffer((40,), "int32")):
    B = T.sblock_alloc_buffer((40,), "int32")
    C = T.sblock_alloc_buffer((40,), "int32")
    for i in range(40):
        with T.sblock("B"):
            vi = T.axis.spatial(40, i)
            B[vi] = A[vi] * 3
    for i in range(40):
        with T.sblock("C"):
            vi = T.axis.spatial(40, i)
            C[vi] = B[vi] - 7
    for i in range(40):
        with T.sblock("D"):
            vi = T.axis.spatial(40, i)
            D[vi] = T.max(C[vi], 0)


@T.prim_func(s_tir=True)
def one_producer_of_two(
    A: T.Buffer((16, 12), "float32"),
    C: T.Buffer((16, 12), "float32"),
    D: T.Buffer((16, 12), "float32"),
):
    B = T.sblock_alloc_buffer((16, 12))
    for i, j in T.grid(16, 12):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 12):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(16, 12):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] - A[vi, vj]


@T.prim_func(s_tir=True)
def two_producers_of_one(X: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    A = T.sblock_alloc_buffer((16, 12))
    B = T.sblock_alloc_buffer((16, 12))
    for i, j in T.grid(16, 12):
        with T.sblock("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = X[vi, vj] + T.float32(1)
    for i, j in T.grid(16, 12):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = X[vi, vj] * X[vi, vj]
    for i, j in T.grid(16, 12):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] - B[vi, vj]


@T.prim_func(s_tir=True)
def guarded_iterations(A: T.Buffer((50,), "float32"), B: T.Buffer((50,), "float32")):
    for i, j in T.grid(7, 8):
        with T.sblock("B"):
            vi = T.axis.spatial(50, i * 8 + j)
            T.where(i * 8 + j < 50)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func(s_tir=True)
def triangle_of_loops(A: T.Buffer((9, 9, 4), "float32"), B: T.Buffer((9, 9, 4), "float32")):
    for i in range(9):
        for j in range(i):
            for k in range(4):
                with T.sblock("B"):
                    vi = T.axis.spatial(9, i)
                    vj = T.axis.spatial(i, j)
                    vk = T.axis.spatial(4, k)
                    B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)


@T.prim_func(s_tir=True)
def later_beginning(A: T.Buffer((24, 18), "float32"), B: T.Buffer((24, 18), "float32")):
    for i in range(24):
        for j in range(6, 18):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func(s_tir=True)
def fused_coordinates(A: T.Buffer((24, 20), "float32"), B: T.Buffer((24, 20), "float32")):
    for f in range(480):
        with T.sblock("B"):
            vi = T.axis.spatial(24, f // 20)
            vj = T.axis.spatial(20, f % 20)
            B[vi, vj] = A[vi, vj] - T.float32(3)


@T.prim_func(s_tir=True)
def blocks_in_blocks(A: T.Buffer((16, 32), "float32"), B: T.Buffer((16, 32), "float32")):
    for io, jo in T.grid(4, 4):
        with T.sblock("outer"):
            vio, vjo = T.axis.remap("SS", [io, jo])
            for ii, ji in T.grid(4, 8):
                with T.sblock("inner"):
                    vi = T.axis.spatial(16, vio * 4 + ii)
                    vj = T.axis.spatial(32, vjo * 8 + ji)
                    B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func(s_tir=True)
def opaque_rows(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:12])
            T.writes(B[vi, 0:12])
            for j in range(12):
                B[vi, j] = A[vi, j] + T.float32(2)


@T.prim_func(s_tir=True)
def nearest(A: T.Buffer((2, 7, 9), "float32"), B: T.Buffer((2, 11, 13), "float32")):
    for c, y, x in T.grid(2, 11, 13):
        with T.sblock("B"):
            vc, vy, vx = T.axis.remap("SSS", [c, y, x])
            B[vc, vy, vx] = A[vc, vy * 7 // 11, vx * 9 // 13]


@T.prim_func(s_tir=True)
def halfway(A: T.Buffer((8, 10), "int32"), B: T.Buffer((16, 20), "int32")):
    for y, x in T.grid(16, 20):
        with T.sblock("B"):
            vy, vx = T.axis.remap("SS", [y, x])
            B[vy, vx] = (
                A[vy // 2, vx // 2]
                + A[T.min((vy + 1) // 2, 7), vx // 2]
                + A[vy // 2, T.min((vx + 1) // 2, 9)]
                + A[T.min((vy + 1) // 2, 7), T.min((vx + 1) // 2, 9)]
            )


@T.prim_func(s_tir=True)
def gathered(
    table: T.Buffer((6, 16), "float32"),
    ids: T.Buffer((21,), "int32"),
    rows: T.Buffer((21, 16), "float32"),
):
    for i, j in T.grid(21, 16):
        with T.sblock("rows"):
            vi, vj = T.axis.remap("SS", [i, j])
            rows[vi, vj] = table[ids[vi], vj]


@T.prim_func(s_tir=True)
def pages(
    store: T.Buffer((6, 2, 4, 5), "float16"),
    ids: T.Buffer((3,), "int32"),
    flat: T.Buffer((2, 12, 5), "float16"),
):
    for h, p, d in T.grid(2, 12, 5):
        with T.sblock("flat"):
            vh, vp, vd = T.axis.remap("SSS", [h, p, d])
            T.reads(store[0:6, vh, vp % 4, vd], ids[vp // 4])
            T.writes(flat[vh, vp, vd])
            flat[vh, vp, vd] = store[ids[vp // 4], vh, vp % 4, vd]


@T.prim_func(s_tir=True)
def below_the_diagonal(A: T.Buffer((12, 16), "float32"), B: T.Buffer((12, 16), "float32")):
    for i, j in T.grid(12, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            if vi >= vj:
                B[vi, vj] = A[vi, vj]


@T.prim_func(s_tir=True)
def padded_image(A: T.Buffer((3, 6, 7), "float32"), B: T.Buffer((3, 8, 9), "float32")):
    for c, y, x in T.grid(3, 8, 9):
        with T.sblock("B"):
            vc, vy, vx = T.axis.remap("SSS", [c, y, x])
            B[vc, vy, vx] = T.if_then_else(
                vy >= 1 and vy < 7 and vx >= 1 and vx < 8, A[vc, vy - 1, vx - 1], T.float32(0)
            )


@T.prim_func(s_tir=True)
def unpacked_nibbles(A: T.Buffer((9, 4), "uint32"), B: T.Buffer((9, 32), "int32")):
    for i, j in T.grid(9, 32):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = (
                T.Cast(
                    "int32",
                    T.bitwise_and(
                        T.shift_right(A[vi, vj // 8], T.Cast("uint32", vj % 8 * 4)), T.uint32(15)
                    ),
                )
                - 7
            )


@T.prim_func(s_tir=True)
def bound_names(A: T.Buffer((60,), "int32"), B: T.Buffer((60,), "int32")):
    for i in range(60):
        with T.sblock("B"):
            vi = T.axis.spatial(60, i)
            twice: T.let[T.int32] = A[vi] * 2
            B[vi] = T.Select(twice > 3, twice, -twice)


@T.prim_func(s_tir=True)
def scaled_by_an_argument(
    A: T.Buffer((10, 12), "float32"), B: T.Buffer((10, 12), "float32"), s: T.float32
):
    for i, j in T.grid(10, 12):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * s


@T.prim_func(s_tir=True)
def many_units(A: T.Buffer((1, 24, 1, 20), "float32"), B: T.Buffer((1, 24, 1, 20), "float32")):
    for a, i, b, j in T.grid(1, 24, 1, 20):
        with T.sblock("B"):
            va, vi, vb, vj = T.axis.remap("SSSS", [a, i, b, j])
            B[va, vi, vb, vj] = A[va, vi, vb, vj] + T.float32(1)


@T.prim_func(s_tir=True)
def sum_and_difference(
    A: T.Buffer((40,), "float32"),
    B: T.Buffer((40,), "float32"),
    C: T.Buffer((40,), "float32"),
    D: T.Buffer((40,), "float32"),
):
    for i in range(40):
        with T.sblock("CD"):
            vi = T.axis.spatial(40, i)
            C[vi] = A[vi] + B[vi]
            D[vi] = A[vi] - B[vi]


@T.prim_func(s_tir=True)
def halves(A: T.Buffer((6, 32), "float16"), B: T.Buffer((6, 32), "float32")):
    for i, j in T.grid(6, 32):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.Cast("float32", A[vi, vj] + T.float16(1)) * T.float32(0.5)


@T.prim_func(s_tir=True)
def open_rows(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 24), "float32")
    B = T.match_buffer(b, (n, 24), "float32")
    for i, j in T.grid(n, 24):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(3)


@T.prim_func(s_tir=True)
def in_place(A: T.Buffer((18, 8), "float32")):
    for i, j in T.grid(18, 8):
        with T.sblock("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func(s_tir=True)
def permuted_and_split(A: T.Buffer((6, 10, 4), "float32"), B: T.Buffer((4, 60), "float32")):
    P = T.sblock_alloc_buffer((4, 6, 10))
    for k, i, j in T.grid(4, 6, 10):
        with T.sblock("P"):
            vk, vi, vj = T.axis.remap("SSS", [k, i, j])
            P[vk, vi, vj] = A[vi, vj, vk]
    for k, f in T.grid(4, 60):
        with T.sblock("B"):
            vk, vf = T.axis.remap("SS", [k, f])
            B[vk, vf] = P[vk, vf // 10, vf % 10]


@T.prim_func(s_tir=True)
def side_by_side(
    A: T.Buffer((8, 5), "float32"), B: T.Buffer((8, 7), "float32"), C: T.Buffer((8, 12), "float32")
):
    for i, j in T.grid(8, 12):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(vj < 5, A[vi, vj], B[vi, vj - 5])


@T.prim_func(s_tir=True)
def shifted_stencil(A: T.Buffer((34,), "float32"), C: T.Buffer((32,), "float32")):
    B = T.sblock_alloc_buffer((34,))
    for i in range(34):
        with T.sblock("B"):
            vi = T.axis.spatial(34, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(32):
        with T.sblock("C"):
            vi = T.axis.spatial(32, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]


@T.prim_func(s_tir=True)
def reversed_order(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
    for i in range(40):
        with T.sblock("B"):
            vi = T.axis.spatial(40, i)
            B[vi] = A[39 - vi]


@T.prim_func(s_tir=True)
def bits_as_numbers(A: T.Buffer((30,), "int32"), B: T.Buffer((30,), "float32")):
    for i in range(30):
        with T.sblock("B"):
            vi = T.axis.spatial(30, i)
            B[vi] = T.reinterpret("float32", A[vi] + 1065353216)


@T.prim_func(s_tir=True)
def truths(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6, 8), "bool")):
    for i, j in T.grid(6, 8):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] > 1
