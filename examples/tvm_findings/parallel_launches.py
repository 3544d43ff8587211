"""A parallel loop around the threads of a kernel is refused.

pass: tirx.StorageRewrite
what: refuses a right program
advice: make the loop around the kernel serial.

The pass only says "Check failed". A serial loop launches the kernels one after the other.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((2, 64), "float32"), C: T.Buffer((2, 64), "float32")):
    for i in T.parallel(2):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            C[i, tx] = A[i, tx] + T.float32(1)
"""

try:
    tvm.compile(tvm.IRModule({"main": from_source(PROGRAM)}), target="nvidia/nvidia-h100")
except Exception as error:
    print("WRONG: it is refused:", str(error).strip().splitlines()[-1])
    sys.exit(1)
