"""Functions of narrow, unsigned and wide types, of masks, and results that others use."""

from kernels import parse_functions
from tvm.script import tirx as T

# mypy: disable-error-code="no-untyped-def, valid-type"

FUNCTIONS = parse_functions("""
blended_bytes: A (12, 40) uint8, B (12, 40) uint8, C (12, 40) uint8
    wide (12, 40) uint16
    i:12 j:40  wide[i, j] = T.Cast("uint16", A[i, j]) * T.uint16(3) + T.Cast("uint16", B[i, j])
    i:12 j:40  C[i, j] = T.Cast("uint8", T.min(wide[i, j] // T.uint16(4), T.uint16(255)))

rows_divided_by_their_sums: A (12, 32) int32, total (12,) int32, B (12, 32) int32
    i:12 k:32  total[i] = 1000 -> total[i] + A[i, k]
    i:12 j:32  B[i, j] = A[i, j] * 100 // T.max(total[i], 1)

sums_of_rows_and_columns: A (16, 24) int32, rows (16,) int32, both (16, 24) int32
    columns (24,) int32
    i:16 k:24  rows[i] += A[i, k]
    j:24 k:16  columns[j] += A[k, j]
    i:16 j:24  both[i, j] = rows[i] - columns[j]

scaled_by_the_largest: A (8, 40) int32, B (8, 40) int32
    largest (8,) int32, shifted (8, 40) int32
    i:8 k:40  largest[i] = -1000 -> T.max(largest[i], A[i, k])
    i:8 j:40  shifted[i, j] = A[i, j] - largest[i]
    i:8 j:40  B[i, j] = shifted[i, j] * largest[i]

bits_mixed: A (64,) uint32, B (64,) uint32
    mixed (64,) uint32
    i:64  mixed[i] = T.bitwise_xor(A[i] * T.uint32(2654435761), A[63 - i])
    i:64  B[i] = T.shift_right(mixed[i], T.uint32(7)) + mixed[(i * 5 + 3) % 64]

masks_of_rows: A (12, 24) int32, B (12, 24) int32
    keeps (12, 24) bool, every (12,) bool
    i:12 j:24  keeps[i, j] = A[i, j] % 5 != 0
    i:12 k:24  every[i] = T.bool(True) -> every[i] and keeps[i, k]
    i:12 j:24  B[i, j] = T.Select(every[i] or not keeps[i, j], A[i, j], 0 - A[i, j])

smallest_of_windows: A (6, 30) int32, B (6, 26) int32
    i:6 j:26 k:5  B[i, j] = 2147483647 -> T.min(B[i, j], A[i, j + k])
""")


@T.prim_func(s_tir=True)
def place_of_the_smallest_byte(
    A: T.Buffer((10, 48), "uint8"), index: T.Buffer((10,), "int64"), value: T.Buffer((10,), "uint8")
):
    for i, k in T.grid(10, 48):
        with T.sblock("best"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                index[vi] = T.int64(0)
                value[vi] = T.uint8(255)
            new_index: T.let[T.int64] = T.Select(
                value[vi] < A[vi, vk]
                or (value[vi] == A[vi, vk] and index[vi] < T.Cast("int64", vk)),
                index[vi],
                T.Cast("int64", vk),
            )
            new_value: T.let[T.uint8] = T.Select(value[vi] < A[vi, vk], value[vi], A[vi, vk])
            index[vi] = new_index
            value[vi] = new_value


@T.prim_func(s_tir=True)
def open_rows_of_int64(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(20)), "int32")
    B = T.match_buffer(b, (n, T.int64(20)), "int32")
    for i, j in T.grid(n, T.int64(20)):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(
                vi > T.int64(0), A[vi, vj] - A[vi - T.int64(1), vj], A[vi, vj]
            )


@T.prim_func(s_tir=True)
def nested_conditions(A: T.Buffer((16, 20), "int32"), B: T.Buffer((16, 20), "int32")):
    for i, j in T.grid(16, 20):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            near: T.let[T.int32] = vj - vi
            if near >= 0:
                if near < 5:
                    B[vi, vj] = A[vi, vj]
                else:
                    B[vi, vj] = A[vi, vj] + near
            else:
                B[vi, vj] = 0
