"""In LLVM's code, `a != b` of floats is false if one of them is NaN.

pass: code generation for LLVM
what: wrong numbers
advice: test T.isnan of both as well; T.Not(a == b) becomes the same.
"""

import sys

import numpy as np
import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((4,)), B: T.Buffer((4,)), C: T.Buffer((4,), "int32")):
    for i in range(4):
        C[i] = T.if_then_else(A[i] != B[i], 1, 0)
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
left, right = np.array([1, 2, np.nan, np.nan], "f4"), np.array([1, 3, 0, np.nan], "f4")
result = tvm.runtime.tensor(np.zeros(4, "int32"))
tvm.compile(module, target="llvm")["main"](*map(tvm.runtime.tensor, (left, right)), result)
print("expected", (left != right).astype("int32"))
print("got     ", result.numpy())
if wrong := np.count_nonzero(result.numpy() != (left != right)):
    print(f"WRONG: {wrong} of 4 elements")
    sys.exit(1)
