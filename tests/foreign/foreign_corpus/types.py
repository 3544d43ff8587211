"""Functions of narrow, unsigned and wide types, of masks, and results that others use."""

from tvm.script import tirx as T

# mypy: disable-error-code="no-untyped-def, valid-type"


@T.prim_func(s_tir=True)
def blended_bytes(
    A: T.Buffer((12, 40), "uint8"), B: T.Buffer((12, 40), "uint8"), C: T.Buffer((12, 40), "uint8")
):
    wide = T.sblock_alloc_buffer((12, 40), "uint16")
    for i, j in T.grid(12, 40):
        with T.sblock("wide"):
            vi, vj = T.axis.remap("SS", [i, j])
            wide[vi, vj] = T.Cast("uint16", A[vi, vj]) * T.uint16(3) + T.Cast("uint16", B[vi, vj])
    for i, j in T.grid(12, 40):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Cast("uint8", T.min(wide[vi, vj] // T.uint16(4), T.uint16(255)))


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
def rows_divided_by_their_sums(
    A: T.Buffer((12, 32), "int32"), total: T.Buffer((12,), "int32"), B: T.Buffer((12, 32), "int32")
):
    for i, k in T.grid(12, 32):
        with T.sblock("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = 1000
            total[vi] = total[vi] + A[vi, vk]
    for i, j in T.grid(12, 32):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 100 // T.max(total[vi], 1)


@T.prim_func(s_tir=True)
def sums_of_rows_and_columns(
    A: T.Buffer((16, 24), "int32"),
    rows: T.Buffer((16,), "int32"),
    both: T.Buffer((16, 24), "int32"),
):
    columns = T.sblock_alloc_buffer((24,), "int32")
    for i, k in T.grid(16, 24):
        with T.sblock("rows"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                rows[vi] = 0
            rows[vi] = rows[vi] + A[vi, vk]
    for j, k in T.grid(24, 16):
        with T.sblock("columns"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                columns[vj] = 0
            columns[vj] = columns[vj] + A[vk, vj]
    for i, j in T.grid(16, 24):
        with T.sblock("both"):
            vi, vj = T.axis.remap("SS", [i, j])
            both[vi, vj] = rows[vi] - columns[vj]


@T.prim_func(s_tir=True)
def scaled_by_the_largest(A: T.Buffer((8, 40), "int32"), B: T.Buffer((8, 40), "int32")):
    largest = T.sblock_alloc_buffer((8,), "int32")
    shifted = T.sblock_alloc_buffer((8, 40), "int32")
    for i, k in T.grid(8, 40):
        with T.sblock("largest"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                largest[vi] = -1000
            largest[vi] = T.max(largest[vi], A[vi, vk])
    for i, j in T.grid(8, 40):
        with T.sblock("shifted"):
            vi, vj = T.axis.remap("SS", [i, j])
            shifted[vi, vj] = A[vi, vj] - largest[vi]
    for i, j in T.grid(8, 40):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = shifted[vi, vj] * largest[vi]


@T.prim_func(s_tir=True)
def bits_mixed(A: T.Buffer((64,), "uint32"), B: T.Buffer((64,), "uint32")):
    mixed = T.sblock_alloc_buffer((64,), "uint32")
    for i in range(64):
        with T.sblock("mixed"):
            vi = T.axis.spatial(64, i)
            mixed[vi] = T.bitwise_xor(A[vi] * T.uint32(2654435761), A[63 - vi])
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = T.shift_right(mixed[vi], T.uint32(7)) + mixed[(vi * 5 + 3) % 64]


@T.prim_func(s_tir=True)
def masks_of_rows(A: T.Buffer((12, 24), "int32"), B: T.Buffer((12, 24), "int32")):
    keeps = T.sblock_alloc_buffer((12, 24), "bool")
    every = T.sblock_alloc_buffer((12,), "bool")
    for i, j in T.grid(12, 24):
        with T.sblock("keeps"):
            vi, vj = T.axis.remap("SS", [i, j])
            keeps[vi, vj] = A[vi, vj] % 5 != 0
    for i, k in T.grid(12, 24):
        with T.sblock("every"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                every[vi] = T.bool(True)
            every[vi] = every[vi] and keeps[vi, vk]
    for i, j in T.grid(12, 24):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.Select(every[vi] or not keeps[vi, vj], A[vi, vj], 0 - A[vi, vj])


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


@T.prim_func(s_tir=True)
def smallest_of_windows(A: T.Buffer((6, 30), "int32"), B: T.Buffer((6, 26), "int32")):
    for i, j, k in T.grid(6, 26, 5):
        with T.sblock("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = 2147483647
            B[vi, vj] = T.min(B[vi, vj], A[vi, vj + vk])
