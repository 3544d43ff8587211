"""Index arrays with an entry that means "nowhere"."""

from tvm.script import tirx as T


# right: rows go to their places, but for those at -1
@T.prim_func(s_tir=True)
def appended(
    rows: T.Buffer((6, 8), "float32"),
    at: T.Buffer((6,), "int32"),
    pages: T.Buffer((5, 4, 8), "float32"),
):
    for i, j in T.grid(6, 8):
        if at[i] != T.int32(-1):
            with T.sblock("append"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(at[vi], rows[vi, vj])
                T.writes(pages[at[vi] // 4, at[vi] % 4, vj])
                pages[at[vi] // 4, at[vi] % 4, vj] = rows[vi, vj]


# right: places that have a name, which is a buffer of one element
@T.prim_func(s_tir=True)
def named_places(
    at: T.Buffer((6,), "int32"),
    pages: T.Buffer((5, 4, 8), "float32"),
    out: T.Buffer((6, 8), "float32"),
):
    for i, j in T.grid(6, 8):
        with T.sblock("gather"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(at[vi], pages[0:5, 0:4, vj])
            T.writes(out[vi, vj])
            p: T.int32 = at[vi]
            out[vi, vj] = pages[p // 4, p % 4, vj]


# right: zeros for the rows that are nowhere, by a name
@T.prim_func(s_tir=True)
def padded_rows(
    at: T.Buffer((9,), "int32"),
    x: T.Buffer((7,), "float32"),
    out: T.Buffer((9,), "float32"),
):
    for i in T.thread_binding(9, thread="threadIdx.x"):
        with T.sblock("out"):
            vi = T.axis.spatial(9, i)
            T.reads(at[vi], x[0:7])
            T.writes(out[vi])
            p: T.int32 = at[vi]
            out[vi] = T.float32(0)
            if p >= 0:
                out[vi] = x[p]


# right: a number past the last row means nowhere
@T.prim_func(s_tir=True)
def rows_below_an_end(
    at: T.Buffer((9,), "int32"),
    x: T.Buffer((7,), "float32"),
    out: T.Buffer((9,), "float32"),
):
    for i in range(9):
        out[i] = T.float32(-1)
        if at[i] < 7:
            out[i] = x[at[i]]


# right: tokens of an expert, or of none, in a loop until the first without one
@T.prim_func(s_tir=True)
def routed(
    expert: T.Buffer((4, 3), "int32"),
    scale: T.Buffer((5,), "float32"),
    x: T.Buffer((4,), "float32"),
    out: T.Buffer((4,), "float32"),
):
    for i in range(4):
        out[i] = T.float32(0)
        for k in range(3):
            if expert[i, k] != -1:
                out[i] = out[i] + x[i] * scale[expert[i, k]]
