"""Kernels without a reduction."""

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules.dtypes import IN_OWN_TYPE
from tirstep.modules.kernel import kernel


@kernel(
    reference=lambda a, b, **_: a + b,
    flops=lambda n, **_: n,
    terms=lambda **_: 1,
    elements=lambda n, **_: n,
    accumulators=IN_OWN_TYPE,
)
def vector_add(n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """C = A + B for vectors A, B, C of n elements: block "C", loop i.

    n operations. Raises `KernelError` for a bad size or dtype. Source: the MLC course, "GPU and
    Hardware Acceleration", which computes it at n = 1024.
    """
    N = n

    @I.ir_module
    class VectorAdd:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((N,), dtype), B: T.Buffer((N,), dtype), C: T.Buffer((N,), dtype)):
            T.func_attr({"tirx.noalias": True})
            for i in T.grid(N):
                with T.sblock("C"):
                    vi = T.axis.remap("S", [i])
                    C[vi] = A[vi] + B[vi]

    return VectorAdd
