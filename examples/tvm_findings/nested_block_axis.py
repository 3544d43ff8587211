"""Two nested loops on one block axis become one loop, which computes only the diagonal.

pass: s_tir.UnifyThreadBinding
what: wrong numbers
advice: bind each loop to an axis of its own, or fuse the two first.
"""

import sys

import tvm
from tvm.s_tir import Schedule
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        with T.sblock("C"):
            v, w = T.axis.remap("SS", [i, j])
            C[v, w] = A[v, w] + T.float32(1)
"""

sch = Schedule(tvm.IRModule({"main": from_source(PROGRAM)}))
for loop in sch.get_loops(sch.get_sblock("C")):
    sch.bind(loop, "blockIdx.x")
source = tvm.compile(sch.mod, target="nvidia/nvidia-h100").mod.imports[0].inspect_source()
kernel = source[source.rindex("main_kernel(") :]
print(kernel)
if "for (" not in kernel and "blockIdx.y" not in kernel:
    print("WRONG: 4096 elements are to be stored, and 64 blocks of one thread store one each")
    sys.exit(1)
