"""Decorating a function inspects every loaded module, once for each stack frame.

pass: T.prim_func, I.ir_module and R.function, which call inspect.stack()
what: an import takes 28 s
advice: parse text with tvm.script.from_source, or import what you need in a function.

For the names around a function TVM needs the locals of each frame, and `inspect.stack()` finds the
source file and the lines of each as well, for which it walks over all modules of the process.
`import tvm.s_tir.tensor_intrin` decorates some hundred functions in this way: 28 s of one core, and
11 s with `inspect.stack(0)`, which reads no lines.
"""

import inspect
import sys
import time

from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((4,), "float32")):
    A[0] = T.float32(0)
"""
FRAMES = 60
seen = []


def parse(depth):
    return parse(depth - 1) if depth else from_source(PROGRAM)


def timed(find_source):
    inspect.findsource = find_source
    began = time.perf_counter()
    parse(FRAMES)
    return time.perf_counter() - began


find_source = inspect.findsource
parse(0)
seconds = timed(lambda it: seen.append(it) or find_source(it))
print(f"{seconds * 1e3:.1f} ms, the source of {len(seen)} frames was looked for")


def find_none(_):
    raise OSError


print(f"{timed(find_none) * 1e3:.1f} ms without")
if len(seen) > FRAMES:
    print("WRONG: for one function the source of each frame is looked for, none of which is used")
    sys.exit(1)
