"""The element of a one-element parameter is printed as the parameter's name, which does not parse.

pass: TVMScript's printer
what: refuses its own text
advice: give such a parameter two dimensions, (1, 1).
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(C: T.Buffer((1,), "float32")):
    C[0] = C[0] + T.float32(1)
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
print(module.script())
try:
    again = from_source(module.script())
except Exception as error:
    print("WRONG: it does not parse:", str(error).strip().splitlines()[-1].strip())
    sys.exit(1)
