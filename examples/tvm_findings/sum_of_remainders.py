"""Two indices that are remainders of one sum are flattened to another element.

pass: tirx.FlattenBuffer
what: wrong numbers
advice: compute one of the indices without a remainder.

``(v + 1) % 2 * 2 + v % 2`` becomes ``(v + 1) % 2 * 3``.
"""

import sys

import numpy as np
import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((2, 2), "int32"), Y: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("Y"):
            v = T.axis.spatial(4, i)
            Y[v] = A[(v + 1) % 2, v % 2]
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
numbers, at = np.arange(4, dtype="int32").reshape(2, 2), np.arange(4)
source, result = tvm.runtime.tensor(numbers), tvm.runtime.tensor(np.zeros(4, "int32"))
tvm.compile(module, target="llvm")["main"](source, result)
expected = numbers[(at + 1) % 2, at % 2]
print("expected", expected)
print("got     ", result.numpy())
if (result.numpy() != expected).any():
    print("WRONG: the result differs")
    sys.exit(1)
