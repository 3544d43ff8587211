"""Orders of elements: no two go to the same place; and counts, where several do."""

from tvm.script import tirx as T


# right: each thread stores to a place of its own
@T.prim_func(s_tir=True)
def scattered(
    order: T.Buffer((32,), "int32"),
    x: T.Buffer((32,), "float32"),
    y: T.Buffer((32,), "float32"),
):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        y[order[t]] = x[t]


# right: the inverse of an order
@T.prim_func(s_tir=True)
def inverse(
    order: T.Buffer((12,), "int32"),
    back: T.Buffer((12,), "int32"),
):
    for i in range(12):
        with T.sblock("back"):
            vi = T.axis.spatial(12, i)
            T.reads(order[vi])
            T.writes(back[order[vi]])
            back[order[vi]] = vi


# right: how often each number occurs
@T.prim_func(s_tir=True)
def histogram(
    bin: T.Buffer((40,), "int32"),
    count: T.Buffer((8,), "int32"),
):
    for b in range(8):
        count[b] = 0
    for i in range(40):
        count[bin[i]] = count[bin[i]] + 1


# right: the rows of embeddings that the tokens of a text have
@T.prim_func(s_tir=True)
def embedded(
    token: T.Buffer((10,), "int64"),
    table: T.Buffer((50, 6), "float16"),
    out: T.Buffer((10, 6), "float16"),
):
    for i, d in T.grid(10, 6):
        with T.sblock("out"):
            vi, vd = T.axis.remap("SS", [i, d])
            out[vi, vd] = table[token[vi], vd]
