"""Products of matrices that share or wait for another reduction, as the blocks of transformers have
them: whoever fuses them fuses reductions.
"""

from typing import Any

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import FLOATS_IN_FLOAT32
from tirstep.modules.error_bounds import stored
from tirstep.modules.kernel import DTypes, cast_between, kernel
from tirstep.modules.rows import EPSILON


def _swiglu_of(x: Any, gate: Any, up: Any, **_: Any) -> Any:
    gates = x @ gate
    return gates / (1 + np.exp(np.minimum(-gates, 700))) * (x @ up)


@kernel(
    reference=_swiglu_of,
    corners=("zeros", "few terms"),
    flops=lambda m, n, k, **_: 4 * m * n * k + 4 * m * n,
    elements=lambda m, n, k, **_: max(m * k, k * n, m * n),
    accumulators=FLOATS_IN_FLOAT32,
)
def mlp_swiglu(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "float32",
    acc: str | None = None,
    out: str | None = None,
) -> tvm.IRModule:
    """D(m, n) = silu(G) * U of two products of X(m, k), with silu(g) = g / (1 + exp(-g)).

    G is X times Wg(k, n) and U is X times Wu(k, n): the gated layer of N. Shazeer (GLU variants
    improve Transformer, 2020). Blocks "G" and "U", which sum in float32, and "D". `out` is as for
    `matmul`.

    4 * m * n * k + 4 * m * n operations, an exponential counted as one. Raises `KernelError` for
    bad sizes, dtype, acc or out.
    """
    return _swiglu(m, n, k, (dtype, acc, out))


def _swiglu(M: int, N: int, K: int, dtypes: DTypes) -> tvm.IRModule:
    dtype, acc, out = dtypes
    widen, narrow = cast_between(dtype, acc), cast_between(acc, out)

    @I.ir_module
    class MlpSwiglu:
        @T.prim_func(s_tir=True)
        def main(
            X: T.Buffer((M, K), dtype),
            Wg: T.Buffer((K, N), dtype),
            Wu: T.Buffer((K, N), dtype),
            D: T.Buffer((M, N), out),
        ):
            T.func_attr({"tirx.noalias": True})
            G = T.sblock_alloc_buffer((M, N))
            U = T.sblock_alloc_buffer((M, N))
            for i, j, k in T.grid(M, N, K):
                with T.sblock("G"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        G[vi, vj] = T.float32(0)
                    G[vi, vj] = G[vi, vj] + widen(X[vi, vk]) * widen(Wg[vk, vj])
            for i, j, k in T.grid(M, N, K):
                with T.sblock("U"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        U[vi, vj] = T.float32(0)
                    U[vi, vj] = U[vi, vj] + widen(X[vi, vk]) * widen(Wu[vk, vj])
            for i, j in T.grid(M, N):
                with T.sblock("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = narrow(
                        G[vi, vj] / (T.float32(1) + T.exp(T.float32(0) - G[vi, vj])) * U[vi, vj]
                    )

    return MlpSwiglu


def _rms_norm_matmul_of(x: Any, gain: Any, w: Any, *, dtype: str = "float32", **_: Any) -> Any:
    normed = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPSILON) * gain
    return stored(normed, dtype) @ w


@kernel(
    reference=_rms_norm_matmul_of,
    corners=corners.NORMALIZED,
    flops=lambda m, n, k, **_: 2 * m * n * k + 4 * m * k,
    elements=lambda m, n, k, **_: max(m * k, k * n, m * n),
    accumulators=FLOATS_IN_FLOAT32,
)
def rms_norm_matmul(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "float32",
    acc: str | None = None,
    out: str | None = None,
) -> tvm.IRModule:
    """C(m, n) = R(m, k) times W(k, n), where R is the `rms_norm` of X(m, k) with gain(k).

    Blocks "sum", which sums squares in float32, "R", of the type of X, "C", which sums in float32
    into a buffer of its own, and "C_cast", which stores that as `out`, which is as for `matmul`.

    2 * m * n * k + 4 * m * k operations. Raises `KernelError` for bad sizes, dtype, acc or out.
    """
    return _rms_norm_matmul(m, n, k, (dtype, acc, out))


def _rms_norm_matmul(M: int, N: int, K: int, dtypes: DTypes) -> tvm.IRModule:
    dtype, acc, out = dtypes
    widen, narrow, store = (cast_between(*it) for it in ((dtype, acc), (acc, dtype), (acc, out)))

    @I.ir_module
    class RmsNormMatmul:
        @T.prim_func(s_tir=True)
        def main(
            X: T.Buffer((M, K), dtype),
            gain: T.Buffer((K,), dtype),
            W: T.Buffer((K, N), dtype),
            C: T.Buffer((M, N), out),
        ):
            T.func_attr({"tirx.noalias": True})
            squares = T.sblock_alloc_buffer((M,))
            R = T.sblock_alloc_buffer((M, K), dtype)
            C_acc = T.sblock_alloc_buffer((M, N))
            for i, k in T.grid(M, K):
                with T.sblock("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        squares[vi] = T.float32(0)
                    squares[vi] = squares[vi] + widen(X[vi, vk]) * widen(X[vi, vk])
            for i, k in T.grid(M, K):
                with T.sblock("R"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    R[vi, vk] = narrow(
                        widen(X[vi, vk])
                        * T.rsqrt(squares[vi] / T.float32(K) + T.float32(EPSILON))
                        * widen(gain[vk])
                    )
            for i, j, k in T.grid(M, N, K):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C_acc[vi, vj] = T.float32(0)
                    C_acc[vi, vj] = C_acc[vi, vj] + widen(R[vi, vk]) * widen(W[vk, vj])
            for i, j in T.grid(M, N):
                with T.sblock("C_cast"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = store(C_acc[vi, vj])

    return RmsNormMatmul
