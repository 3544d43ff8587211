"""A Select of two bfloat16 numbers is refused if its cast to float32 is bound to a variable.

pass: tirx.BF16ComputeLegalize
what: refuses a right program
advice: cast the two numbers first, and select from the casts; or use T.if_then_else.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(B: T.Buffer((8,), "bfloat16"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        x: T.let[T.float32] = T.Cast("float32", T.Select(i < 4, B[i], B[7 - i]))
        C[i] = x * x
"""

try:
    tvm.compile(tvm.IRModule({"main": from_source(PROGRAM)}), target="llvm")
except Exception as error:
    print("WRONG: it is refused:", str(error).strip().splitlines()[-1])
    sys.exit(1)
