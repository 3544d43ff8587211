"""Products of a matrix and a vector."""

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import SUMS_OF_PRODUCTS
from tirstep.modules.kernel import kernel
from tirstep.modules.script import cast_between, zero_of


@kernel(
    reference=lambda a, x, **_: a @ x,
    flops=lambda m, n, **_: 2 * m * n,
    terms=lambda n, **_: n,
    elements=lambda m, n, **_: m * n,
    accumulators=SUMS_OF_PRODUCTS,
    zeros=lambda m, **_: (np.s_[m // 2],),
    corners=corners.SUMMED,
)
def matvec(m: int, n: int, *, dtype: str = "float32", acc: str | None = None) -> tvm.IRModule:
    """y(m) = A(m, n) times x(n): block "y", loops i, k.

    y has type `acc`, as for `matmul`. 2 * m * n operations. Raises `KernelError` for bad sizes,
    dtype or acc.
    """
    M, N, zero, widen = m, n, zero_of(acc), cast_between(dtype, acc)

    @I.ir_module
    class MatVec:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((M, N), dtype), x: T.Buffer((N,), dtype), y: T.Buffer((M,), acc)):
            T.func_attr({"tirx.noalias": True})
            for i, k in T.grid(M, N):
                with T.sblock("y"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        y[vi] = zero
                    y[vi] = y[vi] + widen(A[vi, vk]) * widen(x[vk])

    return MatVec
