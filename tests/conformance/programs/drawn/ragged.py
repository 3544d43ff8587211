"""Rows whose elements stand one after the other, from one entry of an index array to the next."""

from tvm.script import tirx as T


# right: the rows of a sparse matrix times a vector
@T.prim_func(s_tir=True)
def sparse_rows(
    start: T.Buffer((9,), "int32"),
    column: T.Buffer((24,), "int32"),
    x: T.Buffer((16,), "float32"),
    y: T.Buffer((8,), "float32"),
):
    for i in range(8):
        with T.sblock("y"):
            vi = T.axis.spatial(8, i)
            y[vi] = T.float32(0)
            for j in T.serial(start[vi + 1] - start[vi]):
                y[vi] = y[vi] + x[column[start[vi] + j]]


# right: the same with a loop from one start to the next, and names for both
@T.prim_func(s_tir=True)
def named_rows(
    start: T.Buffer((7,), "int32"),
    x: T.Buffer((32, 4), "float32"),
    y: T.Buffer((6, 4), "float32"),
):
    for i, d in T.grid(6, 4):
        with T.sblock("y"):
            vi, vd = T.axis.remap("SS", [i, d])
            T.reads(start[vi : vi + 2], x[0:32, vd])
            T.writes(y[vi, vd])
            first: T.int32 = start[vi]
            last: T.int32 = start[vi + 1]
            y[vi, vd] = T.min_value("float32")
            for j in range(first, last):
                y[vi, vd] = T.max(y[vi, vd], x[j, vd])


# right: the mean of each sequence of a batch, whose lengths lie between zero and sixteen
@T.prim_func(s_tir=True)
def means(
    length: T.Buffer((8,), "int32"),
    x: T.Buffer((8, 16), "float32"),
    y: T.Buffer((8,), "float32"),
):
    for i in range(8):
        with T.sblock("y"):
            vi = T.axis.spatial(8, i)
            y[vi] = T.float32(0)
            for j in range(length[vi]):
                y[vi] = y[vi] + x[vi, j]
            if length[vi] > 0:
                y[vi] = y[vi] / T.Cast("float32", length[vi])


# right: lengths as a mask, also for those that are longer than a row
@T.prim_func(s_tir=True)
def masked_sums(
    length: T.Buffer((5,), "int32"),
    x: T.Buffer((5, 12), "float32"),
    y: T.Buffer((5,), "float32"),
):
    for i in range(5):
        y[i] = T.float32(0)
        for j in range(12):
            if j < length[i]:
                y[i] = y[i] + x[i, j]


# right: each thread lays a row of its own length behind that of the thread before it
@T.prim_func(s_tir=True)
def packed_rows(
    start: T.Buffer((17,), "int32"),
    x: T.Buffer((16, 8), "float32"),
    packed: T.Buffer((64,), "float32"),
):
    for t in T.thread_binding(16, thread="threadIdx.x"):
        for j in range(start[t + 1] - start[t]):
            if j < 8:
                packed[start[t] + j] = x[t, j]


# right: which sequence a token belongs to, as attention over ragged batches looks it up
@T.prim_func(s_tir=True)
def owners(
    start: T.Buffer((6,), "int32"),
    owner: T.Buffer((20,), "int32"),
):
    for i in range(20):
        owner[i] = -1
        for b in range(5):
            if start[b] <= i and i < start[b + 1]:
                owner[i] = b


# right: a sparse matrix of blocks of four columns
@T.prim_func(s_tir=True)
def sparse_blocks(
    start: T.Buffer((5,), "int32"),
    column: T.Buffer((10,), "int32"),
    value: T.Buffer((10, 4), "float32"),
    x: T.Buffer((24,), "float32"),
    y: T.Buffer((4,), "float32"),
):
    for i in range(4):
        y[i] = T.float32(0)
        for j, k in T.grid(start[i + 1] - start[i], 4):
            y[i] = y[i] + value[start[i] + j, k] * x[column[start[i] + j] * 4 + k]


# right: each element less its neighbor, which the length of its row guards and no loop
@T.prim_func
def differences(
    x: T.Buffer((6, 16), "float32"),
    length: T.Buffer((6,), "int32"),
    y: T.Buffer((6, 16), "float32"),
):
    for i in range(6):
        for j in range(16):
            y[i, j] = T.float32(0)
            if j + 1 < length[i]:
                y[i, j] = x[i, j + 1] - x[i, j]
