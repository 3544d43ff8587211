"""A variable of type bfloat16 is refused.

pass: tirx.BF16ComputeLegalize
what: refuses a right program
advice: write the value where it is used, without a variable.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((8,), "bfloat16"), C: T.Buffer((8,), "bfloat16")):
    for i in range(8):
        x: T.let[T.bfloat16] = A[i] + A[i]
        C[i] = x * x
"""

try:
    tvm.compile(tvm.IRModule({"main": from_source(PROGRAM)}), target="llvm")
except Exception as error:
    print("WRONG: it is refused:", str(error).strip().splitlines()[-1])
    sys.exit(1)
