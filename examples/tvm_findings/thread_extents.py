"""Of two loops of 128 and 64 iterations on one thread axis, half of the first is skipped.

pass: s_tir.UnifyThreadBinding
what: wrong numbers
advice: give all loops on an axis the same extent, and guard the shorter ones.
"""

import re
import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((128,), "int8")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            B[tx] = A[tx]
        for ty in T.thread_binding(128, thread="threadIdx.x"):
            C[ty] = T.int8(1)
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
try:
    source = tvm.compile(module, target="nvidia/nvidia-h100").mod.imports[0].inspect_source()
except Exception as error:
    print("It is refused:", str(error).strip().splitlines()[-1])
    sys.exit(0)
kernel = source[source.rindex("__launch_bounds__") :]
print(kernel)
threads = int(re.search(r"__launch_bounds__\((\d+)\)", kernel)[1])
if threads < 128:
    print(f"WRONG: C has 128 elements, and the kernel is launched with {threads} threads")
    sys.exit(1)
if "if (" not in kernel:
    print("WRONG: A has 64 elements, and 128 threads load from it")
    sys.exit(1)
