# Written by `tirstep pass`: it may be overwritten.
"""vectorize_maps before tirx.VectorizeLoop: refused.

tvm.compile refuses the module: Check failed: (p.has_value()) is false:

Reduced from program 27 of seed 0 to 6 lines. It exits with 1 if this shows, and with 0 otherwise.
"""

import sys

from tirstep.experiments import show_counterexample

PROGRAM = r"""
# from tvm.script import tirx as T
@T.prim_func
def main(Xr7: T.Buffer((1, 1), 'uint8')):
    for tx in T.thread_binding(1, thread='threadIdx.x'):
        L10 = T.alloc_local((1, 4), 'uint8')
        for i14, i15 in T.grid(1, 4):
            L10[0, i15] = Xr7[0, 0]
"""

sys.exit(
    show_counterexample(
        PROGRAM,
        "",
        "",
        "/work/m2/examples/passes/vectorize_maps.py:vectorize_maps",
        before=13,
        seed=0,
    )
)
