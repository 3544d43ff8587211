"""An expression of a thread's number is taken out of the two kernels that have it.

pass: tirx.CommonSubexprElim
what: refuses a right program
advice: let the loop around such kernels be a serial one.

The unrolled loop launches a kernel twice, with one variable for the threads of both. The pass gives
63 - tx a name in front of them, where there are no threads, and tirx.MakePackedAPI refuses that.
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
