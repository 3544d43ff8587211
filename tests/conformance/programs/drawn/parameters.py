"""Offsets and strides that are open, scalars, and bits that are read as another type."""

from tvm.script import tirx as T


# right: an offset that the caller chooses
@T.prim_func(s_tir=True)
def offset_twice(a: T.handle, C: T.Buffer((8,), "float32")):
    offset = T.int64()
    A = T.match_buffer(a, (8,), "float32", elem_offset=offset)
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] * T.float32(2)


# right: strides that the caller chooses
@T.prim_func(s_tir=True)
def strided_twice(a: T.handle, C: T.Buffer((6, 8), "float32")):
    row = T.int32()
    column = T.int32()
    A = T.match_buffer(a, (6, 8), "float32", strides=(row, column))
    for i, j in T.grid(6, 8):
        with T.sblock("C"):
            v, w = T.axis.remap("SS", [i, j])
            C[v, w] = A[v, w] * T.float32(2)


# right: a length, and a factor
@T.prim_func(s_tir=True)
def scaled(
    x: T.Buffer((20,), "float32"),
    y: T.Buffer((20,), "float32"),
    n: T.int32,
    factor: T.float32,
):
    for i in range(20):
        y[i] = T.if_then_else(i < n, x[i] * factor, T.float32(0))


# right: a window of open place
@T.prim_func(s_tir=True)
def window(x: T.Buffer((30,), "float32"), y: T.Buffer((10,), "float32"), begin: T.int32):
    for i in range(10):
        y[i] = x[begin + i]


# right: bfloat16 as the upper half of a float
@T.prim_func(s_tir=True)
def upper_halves(x: T.Buffer((32,), "uint16"), y: T.Buffer((32,), "float32")):
    for i in range(32):
        y[i] = T.reinterpret("float32", T.shift_left(T.Cast("uint32", x[i]), T.uint32(16)))


# right: the bits of halves in one word
@T.prim_func(s_tir=True)
def halves(x: T.Buffer((32,), "uint32"), y: T.Buffer((32, 2), "float32")):
    for i in range(32):
        y[i, 0] = T.Cast(
            "float32",
            T.reinterpret("float16", T.Cast("uint16", T.bitwise_and(x[i], T.uint32(65535)))),
        )
        y[i, 1] = T.Cast(
            "float32", T.reinterpret("float16", T.Cast("uint16", T.shift_right(x[i], T.uint32(16))))
        )


# right: the sign of a number, by its bit
@T.prim_func(s_tir=True)
def sign_bits(x: T.Buffer((32,), "float32"), y: T.Buffer((32,), "int32")):
    for i in range(32):
        y[i] = T.Cast("int32", T.shift_right(T.reinterpret("uint32", x[i]), T.uint32(31)))


# right: four bits, of which one is the sign
@T.prim_func(s_tir=True)
def nibbles(
    w: T.Buffer((4, 2), "uint32"), s: T.Buffer((4,), "float32"), y: T.Buffer((4, 16), "float32")
):
    for i, j in T.grid(4, 16):
        y[i, j] = s[i] * T.Cast(
            "float32",
            T.Cast(
                "int32",
                T.bitwise_and(
                    T.shift_right(w[i, j // 8], T.Cast("uint32", j % 8 * 4)), T.uint32(15)
                ),
            )
            - 7,
        )
