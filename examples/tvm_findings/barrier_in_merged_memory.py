"""Two buffers share one place in dynamic shared memory, and no barrier orders the writes.

pass: s_tir.MergeSharedMemoryAllocations
what: a race
advice: give such buffers the scope "shared", or write a barrier of your own.

The same as barrier_in_shared_place, but in another pass, so that tirx.disable_storage_rewrite does
not help: this pass runs after ThreadSync, and considers only lifetimes.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((64,), "float32"), D: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        S[tx] = A[tx]
        R = T.alloc_buffer((64,), "int32", scope="shared.dyn")
        R[63 - tx] = tx
        D[tx] = R[tx]
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
with tvm.transform.PassContext(config={"tirx.disable_storage_rewrite": True}):
    executable = tvm.compile(module, target="nvidia/nvidia-h100")
source = executable.mod.imports[0].inspect_source()
kernel = source[source.rindex("__launch_bounds__") :]
print(kernel)
first = kernel.index("((float*)buf_dyn_shmem_ptr)[((int)threadIdx.x)] =")
second = kernel.find("((int*)buf_dyn_shmem_ptr)[(63", first)
if second > 0 and "__syncthreads" not in kernel[first:second]:
    print("WRONG: R lies where S is, and no __syncthreads() stands between their stores")
    sys.exit(1)
