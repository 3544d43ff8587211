"""Programs as they are written, which TVM lowers: what is a kernel is told by its launches.

They run where `tirstep check` runs them.
"""

from tvm.script import tirx as T


# right: a block stands around the threads, as around those of MLC's sampling kernels
# C == A[::-1]
@T.prim_func(s_tir=True)
def ThreadsWithinABlock(A: T.Buffer(64), C: T.Buffer(64)):
    with T.sblock("kernel"):
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(64, thread="threadIdx.x"):
                with T.sblock("CTA"):
                    vt = T.axis.spatial(64, t)
                    T.reads(A[vt])
                    T.writes(C[0:64])
                    S = T.sblock_alloc_buffer((64,), "float32", scope="shared")
                    S[vt] = A[vt]
                    T.tvm_storage_sync("shared")
                    C[vt] = S[63 - vt]


# wrong, race: TVM puts no barrier between two stores to one shared buffer
@T.prim_func(s_tir=True)
def TwoStoresToOneBufferWithinABlock(A: T.Buffer(64), C: T.Buffer(64)):
    with T.sblock("kernel"):
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(64, thread="threadIdx.x"):
                with T.sblock("CTA"):
                    vt = T.axis.spatial(64, t)
                    S = T.sblock_alloc_buffer((64,), "float32", scope="shared")
                    S[vt] = T.float32(0)
                    S[(vt + 1) % 64] = A[vt]
                    C[vt] = A[vt]


# right: the sum of each row's threads, by hand
# C == A.reshape(2, 32).sum(1)
@T.prim_func(s_tir=True)
def AllreduceByHandWithinABlock(A: T.Buffer(64), C: T.Buffer(2)):
    with T.sblock("kernel"):
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("CTA"):
                    vb, vt = T.axis.remap("SS", [b, t])
                    one = T.sblock_alloc_buffer((1,), "float32", scope="local")
                    total = T.sblock_alloc_buffer((1,), "float32", scope="local")
                    one[0] = A[vb * 32 + vt]
                    with T.sblock("cross_thread"):
                        T.reads(one[0])
                        T.writes(total[0])
                        T.attr(
                            T.comm_reducer(lambda x, y: x + y, [T.float32(0)]),
                            "reduce_scope",
                            T.int32(0),
                        )
                        T.tvm_thread_allreduce(
                            T.uint32(1), one[0], True, total[0], vt, dtype="void"
                        )
                    if vt == 0:
                        C[vb] = total[0]


# right: a program for a CPU whose only block is called as TVM calls the block around all
# C == A[np.arange(32) // 2]
@T.prim_func(s_tir=True)
def SerialBlockCalledRoot(A: T.Buffer(32), C: T.Buffer(32)):
    with T.sblock("root"):
        for i in T.serial(32):
            C[i] = A[i // 2]


# right: serial loops with stores of no block
# C == A[np.arange(32) // 2]
@T.prim_func(s_tir=True)
def SerialLoopsOfNoBlock(A: T.Buffer(32), C: T.Buffer(32)):
    for i in T.serial(32):
        C[i] = A[i // 2]


# right: the block around all is TVM's own, and what it holds is a kernel
# C == A + 1
@T.prim_func(s_tir=True)
def LaunchWithinTheRootBlock(A: T.Buffer(64), C: T.Buffer(64)):
    with T.sblock("root"):
        T.reads()
        T.writes()
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("C"):
                    v = T.axis.spatial(64, b * 32 + t)
                    C[v] = A[v] + T.float32(1)


# right: two launches, each within a block
# B, C == (2 * A, 2 * A[::-1])
@T.prim_func(s_tir=True)
def TwoKernelsOfABlockEach(A: T.Buffer(64), B: T.Buffer(64), C: T.Buffer(64)):
    with T.sblock("first"):
        for t in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, t)
                B[v] = A[v] * T.float32(2)
    with T.sblock("second"):
        for t in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("C"):
                v = T.axis.spatial(64, t)
                C[v] = B[63 - v]


# wrong, uninitialized read: each thread loads what others would have stored to their own
@T.prim_func(s_tir=True)
def RegistersOfOthersWithinABlock(A: T.Buffer(64), C: T.Buffer(64)):
    with T.sblock("kernel"):
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(64, thread="threadIdx.x"):
                with T.sblock("CTA"):
                    vt = T.axis.spatial(64, t)
                    S = T.sblock_alloc_buffer((64,), "float32", scope="local")
                    S[vt] = A[vt]
                    C[vt] = S[63 - vt]
