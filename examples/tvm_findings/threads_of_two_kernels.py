"""An expression of a thread index that two kernels share is hoisted out of both.

pass: tirx.CommonSubexprElim
what: refuses a right program
advice: make the loop around such kernels serial.

The unrolled loop launches a kernel twice, with one variable for the threads of both. The pass binds
63 - tx in front of them, where there are no threads, and tirx.MakePackedAPI refuses that.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((2, 64), "float32"), C: T.Buffer((2, 64), "float32")):
    for i in T.unroll(2):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            C[i, tx] = A[0, 63 - tx]
"""

try:
    tvm.compile(tvm.IRModule({"main": from_source(PROGRAM)}), target="nvidia/nvidia-h100")
except Exception as error:
    print("WRONG: it is refused:", str(error).strip().splitlines()[-1])
    sys.exit(1)
