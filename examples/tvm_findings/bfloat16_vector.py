"""A vectorized store of a bfloat16 constant is refused.

pass: tirx.BF16StorageLegalize
what: refuses a right program
advice: do not vectorize loops that store bfloat16 constants, or compile for a GPU.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(C: T.Buffer((8,), "bfloat16")):
    for i in T.vectorized(8):
        C[i] = T.bfloat16(1)
"""

try:
    tvm.compile(tvm.IRModule({"main": from_source(PROGRAM)}), target="llvm")
except Exception as error:
    print("WRONG: it is refused:", str(error).strip().splitlines()[-1])
    sys.exit(1)
