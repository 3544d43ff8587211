"""LLVM's code reads a float8_e4m3fn zero as another number.

pass: tirx.FP8ComputeLegalize or tirx.FP8StorageLegalize, for LLVM
what: wrong numbers
advice: compute with float8 on a GPU, or convert it to float32 with NumPy (ml_dtypes) first.
"""

import sys

import ml_dtypes
import numpy as np
import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((4,), "float8_e4m3fn"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        C[i] = T.Cast("float32", A[i])
"""

a = np.array([0, 0.001953125, 1, 2], ml_dtypes.float8_e4m3fn)
c = tvm.runtime.tensor(np.zeros(4, "float32"))
tvm.compile(tvm.IRModule({"main": from_source(PROGRAM)}), target="llvm")["main"](
    tvm.runtime.tensor(a), c
)
print("right:", a.astype("float32"))
print("got:  ", c.numpy())
if not np.array_equal(c.numpy(), a.astype("float32")):
    print("WRONG: zero and the smallest number are read as others")
    sys.exit(1)
