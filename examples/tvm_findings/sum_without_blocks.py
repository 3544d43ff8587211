"""In a kernel without blockIdx, the buffer of a sum over threads is allocated outside of it.

pass: s_tir.PlanAndUpdateBufferAllocationLocation
what: a race
advice: bind a loop around the sum to blockIdx.x, if necessary one of a single iteration.
"""

import re
import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((2, 32), "float32"), B: T.Buffer((2,), "float32")):
    for j in range(2):
        for i in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("B"):
                vj, vi = T.axis.remap("SR", [j, i])
                with T.init():
                    B[vj] = T.float32(0)
                B[vj] = B[vj] + A[vj, vi]
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
try:
    source = tvm.compile(module, target="nvidia/nvidia-h100").mod.imports[0].inspect_source()
except Exception as error:
    print("It is refused:", str(error).strip().splitlines()[-1])
    sys.exit(0)
kernel = source[source.rindex("__launch_bounds__") :]
print(kernel)
tensors = re.findall(r"float\* __restrict__ (\w+)", kernel.split("{")[0])
if len(tensors) > 2:
    print(f"WRONG: all threads store their part of the sum to {tensors[-1]}[0], one place for all")
    sys.exit(1)
