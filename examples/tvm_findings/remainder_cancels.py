"""A software pipeline of three iterations is refused if its buffer is indexed by i - r.

pass: tirx.FlattenBuffer
what: refuses a right program
advice: give the pipeline another number of iterations, or no stages.

The pass says "Divide by zero". The pipeline's slot is r % 2, and in the loop that remains of three
iterations r has two values. There r % 2 is r itself, and cancels in r % 2 + (i - r). Any such index
fails, `A[i % 2 - i + 3]` for i below 2, if it reaches the pass unsimplified.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((1,), "float32"), C: T.Buffer((3, 3), "float32")):
    with T.sblock("root"):
        S = T.sblock_alloc_buffer((1,), "float32")
        for i in range(3):
            for r in T.serial(
                3,
                annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]},
            ):
                for t in range(1):
                    with T.sblock("S"):
                        v = T.axis.spatial(1, i - r)
                        T.where(0 <= i - r and i - r < 1)
                        S[v] = A[v]
                with T.sblock("C"):
                    vi, vr = T.axis.remap("SS", [i, r])
                    T.reads(S[vi - vr])
                    C[vi, vr] = T.if_then_else(
                        0 <= vi - vr and vi - vr < 1, S[vi - vr], T.float32(0)
                    )
"""

try:
    tvm.compile(tvm.IRModule({"main": from_source(PROGRAM)}), target="llvm")
except Exception as error:
    print("WRONG: it is refused:", str(error).strip().splitlines()[-1])
    sys.exit(1)
