"""Functions without a product: chains, diamonds, guards, indirect and permuted elements.

Forms in which TVM's tests of its schedule primitives write such functions; the programs are ours.
"""

from kernels import parse_functions
from tvm.script import tirx as T

# mypy: disable-error-code="no-untyped-def, valid-type"

FUNCTIONS = parse_functions("""
doubled: A (24, 20), B (24, 20)
    i:24 j:20  B[i, j] = A[i, j] * T.float32(2)

long_vector: A (T.int64(77),), B (T.int64(77),)
    i:T.int64(77)  B[i] = A[i] + T.float32(1)

chain_of_two: A (24, 20), C (24, 20)
    B (24, 20)
    i:24 j:20  B[i, j] = A[i, j] * T.float32(2)
    i:24 j:20  C[i, j] = B[i, j] + T.float32(1)

chain_of_three: A (40,) int32, D (40,) int32
    B (40,) int32, C (40,) int32
    i:40  B[i] = A[i] * 3
    i:40  C[i] = B[i] - 7
    i:40  D[i] = T.max(C[i], 0)

one_producer_of_two: A (16, 12), C (16, 12), D (16, 12)
    B (16, 12)
    i:16 j:12  B[i, j] = A[i, j] * T.float32(2)
    i:16 j:12  C[i, j] = B[i, j] + T.float32(1)
    i:16 j:12  D[i, j] = B[i, j] - A[i, j]

two_producers_of_one: X (16, 12), C (16, 12)
    A (16, 12), B (16, 12)
    i:16 j:12  A[i, j] = X[i, j] + T.float32(1)
    i:16 j:12  B[i, j] = X[i, j] * X[i, j]
    i:16 j:12  C[i, j] = A[i, j] - B[i, j]

nearest: A (2, 7, 9), B (2, 11, 13)
    c:2 y:11 x:13  B[c, y, x] = A[c, y * 7 // 11, x * 9 // 13]

halfway: A (8, 10) int32, B (16, 20) int32
    y:16 x:20  B[y, x] = A[y // 2, x // 2] + A[T.min((y + 1) // 2, 7), x // 2] + A[y // 2,
        T.min((x + 1) // 2, 9)] + A[T.min((y + 1) // 2, 7), T.min((x + 1) // 2, 9)]

gathered: table (6, 16), ids (21,) int32, rows (21, 16)
    i:21 j:16  rows[i, j] = table[ids[i], j]

padded_image: A (3, 6, 7), B (3, 8, 9)
    c:3 y:8 x:9  B[c, y, x] = T.if_then_else(y >= 1 and y < 7 and (x >= 1) and (x < 8), A[c, y -
        1, x - 1], T.float32(0))

unpacked_nibbles: A (9, 4) uint32, B (9, 32) int32
    i:9 j:32  B[i, j] = T.Cast("int32", T.bitwise_and(T.shift_right(A[i, j // 8], T.Cast("uint32",
        j % 8 * 4)), T.uint32(15))) - 7

many_units: A (1, 24, 1, 20), B (1, 24, 1, 20)
    a:1 i:24 b:1 j:20  B[a, i, b, j] = A[a, i, b, j] + T.float32(1)

halves: A (6, 32) float16, B (6, 32)
    i:6 j:32  B[i, j] = T.Cast("float32", A[i, j] + T.float16(1)) * T.float32(0.5)

in_place: A (18, 8)
    i:18 j:8  A[i, j] = A[i, j] + T.float32(1)

permuted_and_split: A (6, 10, 4), B (4, 60)
    P (4, 6, 10)
    k:4 i:6 j:10  P[k, i, j] = A[i, j, k]
    k:4 f:60  B[k, f] = P[k, f // 10, f % 10]

side_by_side: A (8, 5), B (8, 7), C (8, 12)
    i:8 j:12  C[i, j] = T.if_then_else(j < 5, A[i, j], B[i, j - 5])

shifted_stencil: A (34,), C (32,)
    B (34,)
    i:34  B[i] = A[i] * T.float32(2)
    i:32  C[i] = B[i] + B[i + 1] + B[i + 2]

reversed_order: A (40,), B (40,)
    i:40  B[i] = A[39 - i]

bits_as_numbers: A (30,) int32, B (30,)
    i:30  B[i] = T.reinterpret("float32", A[i] + 1065353216)

truths: A (6, 8) int32, B (6, 8) bool
    i:6 j:8  B[i, j] = A[i, j] > 1
""")


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
def open_rows(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 24), "float32")
    B = T.match_buffer(b, (n, 24), "float32")
    for i, j in T.grid(n, 24):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(3)
