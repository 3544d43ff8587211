# Written by `tirstep pass`: it may be overwritten.
"""rare before tirx.VectorizeLoop: wrong.

interpreter: O29r23[0, 0] is 1, and the expected output has -4; 1 of 1 elements are wrong

Reduced from program 4 of seed 0 to 6 lines. It exits with 1 if this shows, and with 0 otherwise.
"""

import sys

from tirstep.experiments import show_counterexample

PROGRAM = r'''
# from tvm.script import tirx as T
@T.prim_func
def main(Ir23: T.Buffer((1, 1), 'int32'), O29r23: T.Buffer((1, 1), 'int32')):
    if Ir23[0, 0] >> 2 == 0:
        T.evaluate(0)
    else:
        O29r23[0, 0] = 1
'''

sys.exit(show_counterexample(PROGRAM, '', '', '/work/tmp/rarep.py:rare', before=13, seed=0))
