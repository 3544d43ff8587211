"""What a GPU launches: extents, threads, shared and local memory."""

from tvm.script import ir as I
from tvm.script import tirx as T


# wrong, launch: 65535 is the limit there
# A = whole(64)
# B == np.full(70000, A[0])
@I.ir_module
class Of70000BlocksOnY:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((70000,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("blockIdx.y", 70000) as by:
                with T.launch_thread("threadIdx.x", 1) as tx:
                    B[by] = A[0]


# wrong, launch: 65535 is the limit there
# A = whole(64)
# B == np.full(70000, A[0])
@I.ir_module
class Of70000BlocksOnZ:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((70000,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("blockIdx.y", 1) as by:
                with T.launch_thread("blockIdx.z", 70000) as bz:
                    with T.launch_thread("threadIdx.x", 1) as tx:
                        B[bz] = A[0]


# right: x takes 2**31 - 1
# A = whole(64)
# B == np.full(70000, A[0])
@I.ir_module
class Of70000BlocksOnX:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((70000,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 70000) as bx:
            with T.launch_thread("threadIdx.x", 1) as tx:
                B[bx] = A[0]


# wrong, launch: a block has 1024 at most
# A = whole(2048)
# B == A
@I.ir_module
class Of2048Threads:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2048,), "float32"), B: T.Buffer((2048,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                with T.launch_thread("threadIdx.y", 32) as ty:
                    B[ty * 64 + tx] = A[ty * 64 + tx]


# wrong, launch: 64 is the limit there
# A = whole(65)
# B == A
@I.ir_module
class Of65ThreadsOnZ:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((65,), "float32"), B: T.Buffer((65,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 1) as tx:
                with T.launch_thread("threadIdx.y", 1) as ty:
                    with T.launch_thread("threadIdx.z", 65) as tz:
                        B[tz] = A[tz]


# wrong, launch: 48 KB is the limit for both together
# A = whole(64)
# B == 2 * A[::-1]
@I.ir_module
class Twice30KBOfStaticSharedMemory:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S0 = T.alloc_shared((7680,))
                S1 = T.alloc_shared((7680,))
                S0[tx] = A[tx]
                S1[tx] = A[tx]
                T.tvm_storage_sync("shared")
                B[tx] = S0[63 - tx] + S1[63 - tx]


# wrong, launch: 512 KB is the limit
# A = whole(32)
# B == A
@I.ir_module
class Of600000BytesOfLocalMemoryInAThread:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                r = T.alloc_local((150000,))
                r[tx] = A[tx]
                B[tx] = r[tx]


# right: that is the limit
# A = whole(1024)
# B == A
@I.ir_module
class Of1024ThreadsOnTwoAxes:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                with T.launch_thread("threadIdx.y", 32) as ty:
                    B[ty * 32 + tx] = A[ty * 32 + tx]


# wrong, launch: a block has 1024 at most, though each axis is within its limit
# A = whole(1056)
# B == A
@I.ir_module
class Of1056ThreadsOnTwoAxes:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1056,), "float32"), B: T.Buffer((1056,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                with T.launch_thread("threadIdx.y", 33) as ty:
                    B[ty * 32 + tx] = A[ty * 32 + tx]


# right: that is the limit there
# A = whole(64)
# B == A
@I.ir_module
class Of64ThreadsOnZ:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 1) as tx:
                with T.launch_thread("threadIdx.y", 1) as ty:
                    with T.launch_thread("threadIdx.z", 64) as tz:
                        B[tz] = A[tz]


# right: that is the limit
# A = whole(64)
# B == A[::-1]
@I.ir_module
class Of48KBOfStaticSharedMemory:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S0 = T.alloc_shared((12288,))
                S0[tx] = A[tx]
                T.tvm_storage_sync("shared")
                B[tx] = S0[63 - tx]


# right: that is an H100's limit
# needs sm_90
# A = whole(64)
# B == A[::-1]
@I.ir_module
class Of227KBOfDynamicSharedMemory:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((58112,), "float32", scope="shared.dyn")
                S[tx] = A[tx]
                T.tvm_storage_sync("shared")
                B[tx] = S[63 - tx]


# right: together they are less than 227 KB
# needs sm_90
# A = whole(64)
# B == A + A[::-1]
@I.ir_module
class Of24KBOfStaticAnd200KBOfDynamicSharedMemory:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                S = T.alloc_buffer((51200,), "float32", scope="shared.dyn")
                R = T.alloc_shared((6144,))
                S[tx] = A[tx]
                R[tx] = A[tx]
                T.tvm_storage_sync("shared")
                B[tx] = S[63 - tx] + R[tx]
