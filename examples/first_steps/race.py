"""A kernel written without a schedule: its author places the barriers, and forgot one."""

from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Reverse:
    @T.prim_func
    def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
        T.device_entry()
        bx = T.cta_id([4])
        tx = T.thread_id([256])
        S = T.alloc_shared((256,), "float32")
        S[tx] = A[bx * 256 + tx]
        # T.cuda.cta_sync()
        B[bx * 256 + tx] = S[255 - tx]
