"""Kernels without a reduction."""

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import SUMS_OF_FEW
from tirstep.modules.kernel import kernel
from tirstep.modules.script import cast_between


@kernel(
    reference=lambda a, b, **_: a + b,
    flops=lambda n, **_: n,
    terms=lambda **_: 1,
    elements=lambda n, **_: n,
    accumulators=SUMS_OF_FEW,
    zeros=lambda n, **_: (n // 2, n // 2),
    corners=(corners.edges,),
)
def vector_add(n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """C = A + B for vectors A, B, C of n elements: block "C", loop i.

    C has the type of A and B; for the float8 types it is float32.

    n operations. Raises `KernelError` for a bad size or dtype. Source: the MLC course, "GPU and
    Hardware Acceleration", which computes it at n = 1024.
    """
    N, acc = n, SUMS_OF_FEW[dtype][0]
    widen = cast_between(dtype, acc)

    @I.ir_module
    class VectorAdd:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((N,), dtype), B: T.Buffer((N,), dtype), C: T.Buffer((N,), acc)):
            T.func_attr({"tirx.noalias": True})
            for i in T.grid(N):
                with T.sblock("C"):
                    vi = T.axis.remap("S", [i])
                    C[vi] = widen(A[vi]) + widen(B[vi])

    return VectorAdd
