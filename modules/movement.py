"""Kernels that move data and compute nothing."""

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules.dtypes import ANY_TYPE
from tirstep.modules.kernel import kernel


@kernel(
    reference=lambda a, **_: a.T,
    flops=lambda **_: 0,
    terms=lambda **_: 0,
    is_bitwise=True,
    elements=lambda m, n, **_: m * n,
    accumulators=ANY_TYPE,
)
def transpose(m: int, n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """B(n, m) = the transpose of A(m, n): block "B", loops i over the rows of B and j.

    Every bit stays as it is, also those of NaNs, infinities, subnormal numbers and negative zeros.
    No operations. Raises `KernelError` for bad sizes or dtype.
    """
    M, N = m, n

    @I.ir_module
    class Transpose:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((M, N), dtype), B: T.Buffer((N, M), dtype)):
            T.func_attr({"tirx.noalias": True})
            for i, j in T.grid(N, M):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vj, vi]

    return Transpose
