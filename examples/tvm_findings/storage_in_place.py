"""A buffer takes the place of one that its second store reads, and the first store destroys that.

pass: tirx.StorageRewrite
what: wrong numbers
advice: set the option tirx.disable_storage_rewrite, or begin the sum with its first term.

The last statement that reads P stores to Y, at the same index: Y may be computed in place. That Y
is stored before, in the same loop, is not looked at.
"""

import sys

import numpy as np
import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    P = T.alloc_buffer((4,), "float32")
    Y = T.alloc_buffer((4,), "float32")
    for i in range(4):
        P[i] = A[i]
    for i in range(4):
        Y[i] = T.float32(0)
        Y[i] = P[i] * T.float32(3)
    for i in range(4):
        C[i] = Y[i]
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
given, got = np.arange(1, 5, dtype="float32"), np.zeros(4, "float32")
arguments = [tvm.runtime.tensor(array) for array in (given, got)]
tvm.compile(module, target="llvm")(*arguments)
got = arguments[1].numpy()
print("C =", got)
if not np.array_equal(got, given * 3):
    print(f"WRONG: it should be {given * 3}")
    sys.exit(1)
