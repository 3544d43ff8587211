"""A bfloat16 that is cast to float32 and bound to a variable is read as an integer.

pass: tirx.BF16StorageLegalize
what: wrong numbers
advice: cast it where it is used, without a variable.

The buffer becomes one of uint16, and the cast is left unchanged, so 1 is read as 16256.
"""

import sys

import ml_dtypes
import numpy as np
import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((4,), "bfloat16"), Y: T.Buffer((4,), "float32")):
    for i in range(4):
        x: T.let[T.float32] = T.Cast("float32", A[i])
        Y[i] = x
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
expected = np.arange(4, dtype="float32")
source = tvm.runtime.tensor(expected.astype(ml_dtypes.bfloat16))
result = tvm.runtime.tensor(np.zeros(4, "float32"))
tvm.compile(module, target="llvm")["main"](source, result)
print("expected", expected)
print("got     ", result.numpy())
if (result.numpy() != expected).any():
    print("WRONG: the result differs")
    sys.exit(1)
