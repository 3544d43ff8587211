"""T.cuda.tcgen05.encode_instr_descriptor is printed without its keywords, which does not parse.

pass: TVMScript's printer
what: refuses its own text
advice: keep such a kernel as its source.
"""

import sys

import tvm
from tvm.script import from_source

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func
def main(B: T.Buffer((32,), "uint32")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([32])
    word = T.alloc_local((1,), "uint32")
    T.cuda.tcgen05.encode_instr_descriptor(
        word.data,
        d_dtype="float32",
        a_dtype="float16",
        b_dtype="float16",
        M=128,
        N=16,
        K=16,
        trans_a=False,
        trans_b=False,
    )
    B[tx] = word[0]
"""

module = tvm.IRModule({"main": from_source(PROGRAM)})
print(module.script())
try:
    again = from_source(module.script())
except Exception as error:
    print("WRONG: it does not parse:", str(error).strip().splitlines()[0].strip())
    sys.exit(1)
