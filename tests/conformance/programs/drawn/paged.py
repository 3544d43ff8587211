"""Pages of a cache, found by a table of their numbers."""

from tvm.script import tirx as T


# right: rows of a paged cache, one after the other
@T.prim_func(s_tir=True)
def gathered_pages(
    table: T.Buffer((6,), "int32"),
    pages: T.Buffer((9, 4, 8), "float32"),
    out: T.Buffer((24, 8), "float32"),
):
    for i, d in T.grid(24, 8):
        with T.sblock("out"):
            vi, vd = T.axis.remap("SS", [i, d])
            out[vi, vd] = pages[table[vi // 4], vi % 4, vd]


# right: the sum over all rows of each sequence's pages, the last of which is not full
@T.prim_func(s_tir=True)
def paged_sums(
    start: T.Buffer((5,), "int32"),
    table: T.Buffer((12,), "int32"),
    last: T.Buffer((4,), "int32"),
    pages: T.Buffer((10, 8), "float32"),
    out: T.Buffer((4,), "float32"),
):
    for b in range(4):
        out[b] = T.float32(0)
        for p, r in T.grid(start[b + 1] - start[b], 8):
            if p < start[b + 1] - start[b] - 1 or r < last[b]:
                out[b] = out[b] + pages[table[start[b] + p], r]


# right: the same with the length of a sequence in the place of the loop, as TVM's decode has it
@T.prim_func(s_tir=True)
def paged_lengths(
    start: T.Buffer((4,), "int32"),
    table: T.Buffer((12,), "int32"),
    last: T.Buffer((3,), "int32"),
    pages: T.Buffer((10, 8), "float32"),
    out: T.Buffer((3,), "float32"),
):
    for b in range(3):
        with T.sblock("out"):
            vb = T.axis.spatial(3, b)
            T.reads(start[vb : vb + 2], table[0:12], last[vb], pages[0:10, 0:8])
            T.writes(out[vb])
            begin: T.int32 = start[vb]
            end: T.int32 = start[vb + 1]
            length: T.int32 = T.if_then_else(begin != end, (end - begin - 1) * 8 + last[vb], 0)
            out[vb] = T.float32(0)
            for r in range(length):
                out[vb] = out[vb] + pages[table[begin + r // 8], r % 8]


# right: rows copied from place to place, no two to the same
@T.prim_func(s_tir=True)
def moved_rows(
    source: T.Buffer((8,), "int32"),
    to: T.Buffer((8,), "int32"),
    old: T.Buffer((12, 4), "float32"),
    new: T.Buffer((12, 4), "float32"),
):
    for b in T.thread_binding(8, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            new[to[b], t] = old[source[b], t]
