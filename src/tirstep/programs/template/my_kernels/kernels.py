"""What is computed: a kernel is a function of its sizes, with its meaning in NumPy."""

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import kernel


@kernel(
    reference=lambda a, b, **_: a * b + a,
    flops=lambda n, **_: 2 * n,
    elements=lambda n, **_: n,  # of the largest tensor
    accumulators={
        "float32": ("float32",),
        "float16": ("float16",),
    },  # what each data type is added in
)
def multiply_add(n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """C = A * B + A for vectors of n elements: block "C", loop i."""
    N = n

    @I.ir_module
    class MultiplyAdd:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((N,), dtype), B: T.Buffer((N,), dtype), C: T.Buffer((N,), dtype)):
            for i in range(N):
                with T.sblock("C"):
                    vi = T.axis.spatial(N, i)
                    C[vi] = A[vi] * B[vi] + A[vi]

    return MultiplyAdd
