"""Masks, and rows of which nothing is left."""

from tvm.script import tirx as T


# right: softmax of the elements whose mask is set, and zeros for a row without one
@T.prim_func(s_tir=True)
def masked_softmax(
    mask: T.Buffer((6, 8), "int8"),
    x: T.Buffer((6, 8), "float32"),
    y: T.Buffer((6, 8), "float32"),
):
    high = T.alloc_buffer((6,))
    total = T.alloc_buffer((6,))
    for i in range(6):
        high[i] = T.float32(-1e30)
        for j in range(8):
            if mask[i, j] != T.int8(0):
                high[i] = T.max(high[i], x[i, j])
        total[i] = T.float32(0)
        for j in range(8):
            if mask[i, j] != T.int8(0):
                total[i] = total[i] + T.exp(x[i, j] - high[i])
        for j in range(8):
            if mask[i, j] != T.int8(0):
                y[i, j] = T.exp(x[i, j] - high[i]) / total[i]
            else:
                y[i, j] = T.float32(0)


# right: the mean of what the mask leaves, or zero
@T.prim_func(s_tir=True)
def masked_means(
    mask: T.Buffer((6, 5), "bool"),
    x: T.Buffer((6, 5), "float32"),
    y: T.Buffer((6,), "float32"),
):
    count = T.alloc_buffer((6,), "int32")
    for i in range(6):
        count[i] = 0
        y[i] = T.float32(0)
        for j in range(5):
            if mask[i, j]:
                count[i] = count[i] + 1
                y[i] = y[i] + x[i, j]
        if count[i] > 0:
            y[i] = y[i] / T.Cast("float32", count[i])


# right: attention looks back, not ahead
@T.prim_func(s_tir=True)
def causal(
    x: T.Buffer((9, 9), "float32"),
    y: T.Buffer((9,), "float32"),
):
    for i in range(9):
        y[i] = T.min_value("float32")
        for j in range(9):
            y[i] = T.max(y[i], T.if_then_else(j <= i, x[i, j], T.min_value("float32")))


# right: two partial softmaxes become one, also where one of them had no elements (-inf)
@T.prim_func(s_tir=True)
def merged(
    a: T.Buffer((8,), "float32"),
    la: T.Buffer((8,), "float32"),
    b: T.Buffer((8,), "float32"),
    lb: T.Buffer((8,), "float32"),
    out: T.Buffer((8,), "float32"),
):
    high = T.alloc_buffer((8,))
    for i in range(8):
        high[i] = T.max(la[i], lb[i])
        out[i] = (a[i] * T.exp(la[i] - high[i]) + b[i] * T.exp(lb[i] - high[i])) / (
            T.exp(la[i] - high[i]) + T.exp(lb[i] - high[i])
        )


# right: the maximum of rows with -inf in them
@T.prim_func(s_tir=True)
def highest(
    x: T.Buffer((8, 8), "float32"),
    y: T.Buffer((8,), "float32"),
):
    for i in range(8):
        y[i] = T.float32("-inf")
        for j in range(8):
            y[i] = T.max(y[i], x[i, j])
