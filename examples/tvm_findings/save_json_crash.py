"""Saving a module as JSON crashes the process.

pass: tvm.ir.save_json, with apache-tvm-ffi 0.1.15
what: a segmentation fault
advice: pip install "apache-tvm-ffi>=0.1.14.post0,<0.1.15".
needs: apache-tvm-ffi 0.1.15

`pip install apache-tvm==0.27.*` by itself brings apache-tvm-ffi 0.1.15, which TVM 0.27 was not
built for. `sch.tensorize` and MetaSchedule's databases crash in the same way. Seen with 0.1.15 and
0.1.15.post2, and not with 0.1.14.post0 and 0.1.14.post1.
"""

import subprocess
import sys
from importlib.metadata import version

PROGRAM = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = A[v]
"""
CHILD = f"""
import tvm
from tvm.script import from_source

print(len(tvm.ir.save_json(tvm.IRModule({{"main": from_source({PROGRAM!r})}}))), "characters")
"""

done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True)
print("apache-tvm-ffi", version("apache-tvm-ffi"))
if done.returncode < 0:
    print(f"WRONG: save_json ends the process, signal {-done.returncode}")
    sys.exit(1)
print("right:", done.stdout.strip())
