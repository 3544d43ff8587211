"""No barrier is inserted between writes of different threads to one shared buffer.

pass: s_tir.ThreadSync
what: a race
advice: write a barrier of your own (T.tvm_storage_sync), or give the second write another buffer.

Element 1 is written by thread 1, then by thread 0; which value remains is undefined.
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
        S[tx] = T.float32(0)
        S[(tx + 1) % 64] = A[tx]
        C[tx] = S[tx]
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
source = tvm.compile(module, target="nvidia/nvidia-h100").mod.imports[0].inspect_source()
kernel = source[source.rindex("__launch_bounds__") :]
print(kernel)
first, second = (
    place
    for place in range(len(kernel))
    if kernel.startswith("S_ptr[", place) and " = " in kernel[place : kernel.index(";", place)]
)
if "__syncthreads" not in kernel[first:second]:
    print("WRONG: no __syncthreads() stands between the two stores to S")
    sys.exit(1)
