"""A pass changes its input module in place.

pass: tirx.AnnotateEntryFunc
what: changes its input
advice: compare with a copy that was made before (module.clone()).
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(C: T.Buffer((2,), "float32")):
    C[0] = T.float32(1)
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
before = module.script()
tvm.tirx.transform.AnnotateEntryFunc()(module)
if module.script() != before:
    print("WRONG: the module that was given has another attribute than before")
    sys.exit(1)
