"""Statements that most data do not reach."""

from tvm.script import tirx as T


# right: a path of its own for rows that are long
@T.prim_func(s_tir=True)
def two_paths(
    start: T.Buffer((6,), "int32"),
    x: T.Buffer((64,), "float32"),
    y: T.Buffer((5,), "float32"),
):
    for i in range(5):
        y[i] = T.float32(0)
        if start[i + 1] - start[i] > 8:
            for j in range(start[i + 1] - start[i]):
                y[i] = y[i] + x[start[i] + j]
        else:
            for j in range(8):
                if j < start[i + 1] - start[i]:
                    y[i] = y[i] + x[start[i] + j]


# right: what no integer is
@T.prim_func(s_tir=True)
def never(x: T.Buffer((16,), "int32"), y: T.Buffer((16,), "int32")):
    for i in range(16):
        y[i] = x[i]
        if x[i] * 2 % 2 == 1:
            y[i] = 5


# right: a code of several values
@T.prim_func(s_tir=True)
def modes(
    mode: T.Buffer((4,), "int32"), x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")
):
    for i, j in T.grid(4, 8):
        y[i, j] = x[i, j]
        if mode[i] == 1:
            y[i, j] = T.float32(0) - x[i, j]
        if mode[i] == 17:
            y[i, j] = x[i, 7 - j]
