"""A buffer in dynamic shared memory with only constant indices is refused beside other buffers.

pass: s_tir.MergeSharedMemoryAllocations
what: refuses a right program
advice: give such a buffer the scope "shared".

Thread 0 stores one number for all threads. The pass only says "Check failed". If an index of R has
a variable in it, or if R is the only buffer in dynamic shared memory, the program compiles.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        S[tx] = A[tx]
        R = T.alloc_buffer((1,), "float32", scope="shared.dyn")
        if tx == 0:
            R[0] = A[7]
        C[tx] = S[63 - tx] + R[0]
"""

try:
    tvm.compile(tvm.IRModule({"main": from_source(PROGRAM)}), target="nvidia/nvidia-h100")
except Exception as error:
    print("WRONG: it is refused:", str(error).strip().splitlines()[-1])
    sys.exit(1)
