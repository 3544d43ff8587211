"""A loop that starts at an outer loop's variable starts elsewhere if that does not start at 0.

pass: s_tir.CanonicalizeLoop
what: wrong numbers
advice: let the outer loop start at 0, and add its former start where its variable is used.
"""

import sys

import numpy as np
import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(C: T.Buffer((8, 8), "int32")):
    for i in range(2, 8):
        for j in range(i, 8):
            C[i, j] = 1
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
result = tvm.runtime.tensor(np.zeros((8, 8), "int32"))
tvm.compile(module, target="llvm")["main"](result)
expected = np.triu(np.ones((8, 8), "int32"))
expected[:2] = 0
print(result.numpy())
wrong = np.count_nonzero(result.numpy() != expected)
if wrong:
    print(f"WRONG: {wrong} of 64 elements")
    sys.exit(1)
