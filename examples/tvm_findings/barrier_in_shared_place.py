"""Two shared buffers are put into one place, and no barrier orders the writes of the two.

pass: tirx.StorageRewrite
what: a race
advice: set the option tirx.disable_storage_rewrite, or write a barrier of your own.

Each element of S belongs to one thread. StorageRewrite puts R where S was, and ThreadSync
inserts no barrier between the last write of S and the first one of R.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((64,), "float32"), D: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_buffer((64,), "float32", scope="shared")
        S[tx] = A[tx]
        R = T.alloc_buffer((64,), "int32", scope="shared")
        R[63 - tx] = tx
        D[tx] = R[tx]
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
source = tvm.compile(module, target="nvidia/nvidia-h100").mod.imports[0].inspect_source()
kernel = source[source.rindex("__launch_bounds__") :]
print(kernel)
first = kernel.index("S_ptr[((int)threadIdx.x)] =")
shared = kernel.find("((int*)S_ptr)[", first)
if shared > 0 and "__syncthreads" not in kernel[first:shared]:
    print("WRONG: R lies where S is, and no __syncthreads() stands between their stores")
    sys.exit(1)
