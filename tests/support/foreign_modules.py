"""Modules that are not ours: as tutorials, Relax and people write them."""

from __future__ import annotations

import tvm
from kernels import parse_kernel
from tvm.script import ir as I
from tvm.script import tirx as T

# mypy: disable-error-code="no-untyped-def, valid-type"


# TVM's tutorial module: two sblocks, one function.
MatmulRelu = parse_kernel("""
    A (32, 48), B (48, 40), C (32, 40)
    Y (32, 40)
    i:32 j:40 k:48  Y[i, j] += A[i, k] * B[k, j]
    i:32 j:40  C[i, j] = T.max(Y[i, j], T.float32(0))
""")


@I.ir_module
class OutputFirst:
    """An output before its inputs, one that it adds to, scalars, and a buffer of no dimension."""

    @T.prim_func(s_tir=True)
    def axpy(
        Y: T.Buffer((50,), "float32"),
        total: T.Buffer((), "float32"),
        alpha: T.float32,
        n: T.int32,
        X: T.Buffer((50,), "float32"),
    ):
        for i in range(50):
            with T.sblock("Y"):
                vi = T.axis.spatial(50, i)
                if vi < n:
                    Y[vi] = Y[vi] + alpha * X[vi]
        for i in range(50):
            with T.sblock("total"):
                vi = T.axis.reduce(50, i)
                with T.init():
                    total[()] = T.float32(0)
                total[()] = total[()] + X[vi]


# Softmax of scaled products, masked, times values, in float16 with float32 sums.
Attention = parse_kernel("""
    Q (24, 16) float16, K (20, 16) float16, V (20, 12) float16,
    R_half (24, 12) float16
    S (24, 20), P (24, 20), top (24,), total (24,), R (24, 12)
    i:24 j:20 k:16  S[i, j] += T.Cast("float32", Q[i, k]) * T.Cast("float32", K[j, k])
    for i, j in T.grid(24, 20):
        with T.sblock("mask", "SS", i, j):
            P[vi, vj] = T.if_then_else(vj <= vi, S[vi, vj] * T.float32(0.25), T.float32("-inf"))
    i:24 j:20  top[i] = T.min_value("float32") -> T.max(top[i], P[i, j])
    i:24 j:20  total[i] += T.exp(P[i, j] - top[i])
    i:24 j:12 k:20  R[i, j] += T.exp(P[i, k] - top[i]) / total[i] * T.Cast("float32", V[k, j])
    i:24 j:12  R_half[i, j] = T.Cast("float16", R[i, j])
""")


# TVM's reduction of pairs: the first index of the largest value, and that value.
Argmax = parse_kernel("""
    X (16, 40), index (16,) int32, value (16,)
    for i, k in T.grid(16, 40):
        with T.sblock("best", "SR", i, k):
            with T.init():
                index[vi] = -1
                value[vi] = T.min_value("float32")
            v_index: T.let[T.int32] = T.Select(value[vi] >= X[vi, vk], index[vi], vk)
            v_value: T.let[T.float32] = T.Select(value[vi] >= X[vi, vk], value[vi], X[vi, vk])
            index[vi] = v_index
            value[vi] = v_value
""")


# Rows of a table by index, and those that are out of range as zeros.
Gather = parse_kernel("""
    table (10, 16), ids (24,) int64, near (24,) int32, rows (24, 16),
    guarded (24, 16)
    i:24 j:16  rows[i, j] = table[ids[i], j]
    i:24 j:16  guarded[i, j] = T.if_then_else(near[i] >= 0 and near[i] < 10, table[near[i], j],
        T.float32(0))
""")


# A running sum in place: each element needs the one before it.
Cumsum = parse_kernel("""
    X (12, 30), Y (12, 30)
    for i, j in T.grid(12, 30):
        with T.sblock("Y", "S", i):
            vj = T.axis.opaque(30, j)
            T.reads(X[vi, 0:30], Y[vi, 0:30])
            T.writes(Y[vi, 0:30])
            if vj == 0:
                Y[vi, vj] = X[vi, vj]
            else:
                Y[vi, vj] = Y[vi, vj - 1] + X[vi, vj]
""")


# A convolution with zeros around the image, of int8 in int32.
Int8Conv = parse_kernel("""
    X (18, 18, 4) int8, W (3, 3, 4, 8) int8, Y (18, 18, 8) int32
    padded (20, 20, 4) int8
    h:20 w:20 c:4  padded[h, w, c] = T.if_then_else(h >= 1 and h < 19 and w >= 1 and w < 19, X[h -
        1, w - 1, c], T.int8(0))
    h:18 w:18 o:8 y:3 x:3 c:4  Y[h, w, o] += T.Cast("int32", padded[h + y, w + x, c]) *
        T.Cast("int32", W[y, x, c, o])
""")


# Sums of bfloat16 products in float32, a mask of truth values, and float16 sums in float16.
Half = parse_kernel("""
    A (16, 64) bfloat16, keep (16, 64) bool, H (16, 64) float16, S (16,) bfloat16,
    Z (16,) float16, is_large (16,) bool
    acc (16,)
    i:16 k:64  acc[i] += T.if_then_else(keep[i, k], T.Cast("float32", A[i, k]) * T.Cast("float32",
        A[i, k]), T.float32(0))
    i:16 k:64  Z[i] += H[i, k]
    i:16  S[i] = T.Cast("bfloat16", acc[i])
    for i in range(16):
        with T.sblock("large", "S", i):
            is_large[vi] = acc[vi] > T.float32(8)
""")


@T.prim_func(s_tir=True)
def scaled(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(0.1) + T.float32(1)


Symbolic = tvm.IRModule({"scaled": scaled})

MODULES = {
    each.__name__ if hasattr(each, "__name__") else name: each
    for name, each in {
        "MatmulRelu": MatmulRelu,
        "OutputFirst": OutputFirst,
        "Attention": Attention,
        "Argmax": Argmax,
        "Gather": Gather,
        "Cumsum": Cumsum,
        "Int8Conv": Int8Conv,
        "Half": Half,
    }.items()
}
"""Those without sizes to give, by name."""
