"""A buffer that is allocated inside a vectorized loop has one element for all lanes.

pass: tirx.VectorizeLoop
what: wrong numbers
advice: keep producers out of vectorized loops; allocate their buffer outside, an element per lane.

`vectorize` and `compute_at` create such programs, in either order, without an error.
"""

import sys

import numpy as np
import tvm
from tvm.s_tir import Schedule
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.sblock_alloc_buffer((8,))
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + T.float32(1)
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] * T.float32(2)
"""

sch = Schedule(tvm.IRModule({"main": from_source(PROGRAM)}))
(loop,) = sch.get_loops(sch.get_sblock("C"))
sch.compute_at(sch.get_sblock("B"), loop)
sch.vectorize(loop)
a, c = np.arange(8, dtype="float32"), tvm.runtime.tensor(np.zeros(8, "float32"))
tvm.compile(sch.mod, target="llvm")["main"](tvm.runtime.tensor(a), c)
print("right:", (a + 1) * 2)
print("got:  ", c.numpy())
if not np.array_equal(c.numpy(), (a + 1) * 2):
    print("WRONG: a vectorized loop computes other numbers")
    sys.exit(1)
