"""A bfloat16 that is cast to float32 where it gets a name is read as a whole number.

pass: tirx.BF16StorageLegalize
what: wrong numbers
advice: cast it where it is used, without a name.

The buffer becomes one of uint16, and the cast stays as it was written: 1 is 16256 then.
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
