"""A quotient of a constant minus a loop variable is simplified wrongly, and reads out of bounds.

pass: tirx.FlattenBuffer
what: wrong numbers
advice: count upwards: store to n - i, and load from i.
"""

import sys

import numpy as np
import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((32,), "int32"), Y: T.Buffer((32,), "int32")):
    for i in range(32):
        with T.sblock("Y"):
            v = T.axis.spatial(32, i)
            Y[v] = A[(31 - v) // 4 + 8]
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
numbers = np.arange(32, dtype="int32")
source, result = tvm.runtime.tensor(numbers), tvm.runtime.tensor(numbers)
tvm.compile(module, target="llvm")["main"](source, result)
expected = (31 - numbers) // 4 + 8
print("expected", expected)
print("got     ", result.numpy())
wrong = np.count_nonzero(result.numpy() != expected)
if wrong:
    print(f"WRONG: {wrong} of 32 elements")
    sys.exit(1)
