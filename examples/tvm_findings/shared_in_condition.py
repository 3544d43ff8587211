"""A branch whose condition loads from shared memory is refused.

pass: s_tir.ThreadSync
what: refuses a right program
advice: load the number into a register first, and test that.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_buffer((64,), "float32", scope="shared")
        S[tx] = A[tx]
        C[tx] = T.float32(0)
        if S[63 - tx] > T.float32(0):
            C[tx] = T.float32(1)
"""

try:
    tvm.compile(tvm.IRModule({"main": from_source(PROGRAM)}), target="nvidia/nvidia-h100")
except Exception as error:
    print("WRONG: it is refused:", str(error).strip().splitlines()[-1])
    sys.exit(1)
