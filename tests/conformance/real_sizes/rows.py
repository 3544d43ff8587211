"""Kernels of rows at real sizes, hand-written for a GPU or for a CPU, right and wrong ones."""

from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def softmax(A: T.Buffer((4096, 2048), "float32"), B: T.Buffer((4096, 2048), "float32")):
    """right"""
    most = T.sblock_alloc_buffer((4096,), "float32")
    total = T.sblock_alloc_buffer((4096,), "float32")
    for i, k in T.grid(4096, 2048):
        with T.sblock("most"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                most[vi] = T.min_value("float32")
            most[vi] = T.max(most[vi], A[vi, vk])
    for i, k in T.grid(4096, 2048):
        with T.sblock("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] += T.exp(A[vi, vk] - most[vi])
    for i, k in T.grid(4096, 2048):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vi, vk] - most[vi]) / total[vi]


@T.prim_func(s_tir=True)
def row_sums(A: T.Buffer((8192, 4096), "float32"), B: T.Buffer((8192,), "float32")):
    """clean: a tree in shared memory for each row, by hand"""
    for b in T.thread_binding(8192, thread="blockIdx.x"):
        for t in T.thread_binding(256, thread="threadIdx.x"):
            with T.sblock("CTA"):
                vb, vt = T.axis.remap("SS", [b, t])
                mine = T.sblock_alloc_buffer((1,), "float32", scope="local")
                tree = T.sblock_alloc_buffer((256,), "float32", scope="shared")
                mine[0] = T.float32(0)
                for k in range(16):
                    mine[0] = mine[0] + A[vb, k * 256 + vt]
                tree[vt] = mine[0]
                T.tvm_storage_sync("shared")
                for step in range(8):
                    if vt < T.shift_right(128, step):
                        tree[vt] = tree[vt] + tree[vt + T.shift_right(128, step)]
                    T.tvm_storage_sync("shared")
                if vt == 0:
                    B[vb] = tree[0]


@T.prim_func(s_tir=True)
def row_sums_without_a_barrier(
    A: T.Buffer((8192, 4096), "float32"), B: T.Buffer((8192,), "float32")
):
    """wrong: a race in the tree"""
    for b in T.thread_binding(8192, thread="blockIdx.x"):
        for t in T.thread_binding(256, thread="threadIdx.x"):
            with T.sblock("CTA"):
                vb, vt = T.axis.remap("SS", [b, t])
                mine = T.sblock_alloc_buffer((1,), "float32", scope="local")
                tree = T.sblock_alloc_buffer((512,), "float32", scope="shared")
                mine[0] = T.float32(0)
                for k in range(16):
                    mine[0] = mine[0] + A[vb, k * 256 + vt]
                tree[vt] = mine[0]
                tree[vt + 255] = mine[0]
                T.tvm_storage_sync("shared")
                if vt == 0:
                    B[vb] = tree[0]


@T.prim_func(s_tir=True)
def normalized(
    A: T.Buffer((2048, 4096), "float16"),
    W: T.Buffer((4096,), "float16"),
    B: T.Buffer((2048, 4096), "float16"),
):
    """right: the norm of rows, as a model has it"""
    squares = T.sblock_alloc_buffer((2048,), "float32")
    for i, k in T.grid(2048, 4096):
        with T.sblock("squares"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                squares[vi] = T.float32(0)
            squares[vi] += T.Cast("float32", A[vi, vk]) * T.Cast("float32", A[vi, vk])
    for i, k in T.grid(2048, 4096):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.Cast(
                "float16",
                T.Cast("float32", A[vi, vk])
                * T.Cast("float32", W[vk])
                * T.rsqrt(squares[vi] / T.float32(4096) + T.float32(1e-5)),
            )


@T.prim_func(s_tir=True)
def scaled(A: T.Buffer((16777216,), "float32"), B: T.Buffer((16777216,), "float32")):
    """right: four elements for each thread"""
    for b in T.thread_binding(16384, thread="blockIdx.x"):
        for t in T.thread_binding(256, thread="threadIdx.x"):
            for v in T.vectorized(4):
                with T.sblock("B"):
                    vi = T.axis.spatial(16777216, b * 1024 + t * 4 + v)
                    B[vi] = A[vi] * T.float32(2) + T.float32(1)


@T.prim_func(s_tir=True)
def transposed(A: T.Buffer((4096, 4096), "float32"), B: T.Buffer((4096, 4096), "float32")):
    """clean: by tiles in shared memory, padded against bank conflicts"""
    for by in T.thread_binding(128, thread="blockIdx.y"):
        for bx in T.thread_binding(128, thread="blockIdx.x"):
            for ty in T.thread_binding(8, thread="threadIdx.y"):
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    with T.sblock("CTA"):
                        vby, vbx, vty, vtx = T.axis.remap("SSSS", [by, bx, ty, tx])
                        tile = T.sblock_alloc_buffer((32, 33), "float32", scope="shared")
                        for r in range(4):
                            tile[r * 8 + vty, vtx] = A[vby * 32 + r * 8 + vty, vbx * 32 + vtx]
                        T.tvm_storage_sync("shared")
                        for r in range(4):
                            B[vbx * 32 + r * 8 + vty, vby * 32 + vtx] = tile[vtx, r * 8 + vty]


@T.prim_func(s_tir=True)
def past_the_end(A: T.Buffer((1000000,), "float32"), B: T.Buffer((1000000,), "float32")):
    """wrong: the last block of 256 leaves the buffers, since 256 does not divide a million"""
    for b in T.thread_binding(3907, thread="blockIdx.x"):
        for t in T.thread_binding(256, thread="threadIdx.x"):
            B[b * 256 + t] = A[b * 256 + t] * T.float32(2)


@T.prim_func(s_tir=True)
def guarded(A: T.Buffer((1000000,), "float32"), B: T.Buffer((1000000,), "float32")):
    """right: the same with a guard"""
    for b in T.thread_binding(3907, thread="blockIdx.x"):
        for t in T.thread_binding(256, thread="threadIdx.x"):
            if b * 256 + t < 1000000:
                B[b * 256 + t] = A[b * 256 + t] * T.float32(2)


@T.prim_func(s_tir=True)
def matvec(
    A: T.Buffer((4096, 11008), "float16"),
    x: T.Buffer((11008,), "float16"),
    y: T.Buffer((4096,), "float32"),
):
    """right: a decoder's product, a row for each thread"""
    for b in T.thread_binding(64, thread="blockIdx.x"):
        for t in T.thread_binding(64, thread="threadIdx.x"):
            for k in range(11008):
                with T.sblock("y"):
                    vi = T.axis.spatial(4096, b * 64 + t)
                    vk = T.axis.reduce(11008, k)
                    with T.init():
                        y[vi] = T.float32(0)
                    y[vi] += T.Cast("float32", A[vi, vk]) * T.Cast("float32", x[vk])


@T.prim_func(s_tir=True)
def neighbours_of_blocks(A: T.Buffer((1048576,), "float32"), B: T.Buffer((1048577,), "float32")):
    """wrong: each block stores one element of the next one's"""
    for b in T.thread_binding(4096, thread="blockIdx.x"):
        for t in T.thread_binding(256, thread="threadIdx.x"):
            B[b * 256 + t] = A[b * 256 + t]
            if t == 255:
                B[b * 256 + t + 1] = T.float32(0)


@T.prim_func(s_tir=True)
def a_race_behind_a_guard(
    A: T.Buffer((16384, 256), "float32"), B: T.Buffer((16384, 256), "float32")
):
    """wrong: the one thread block whose threads are all told to store to half of their places"""
    for b in T.thread_binding(16384, thread="blockIdx.x"):
        for t in T.thread_binding(256, thread="threadIdx.x"):
            with T.sblock("CTA"):
                vb, vt = T.axis.remap("SS", [b, t])
                row = T.sblock_alloc_buffer((256,), "float32", scope="shared")
                for step in range(256):
                    row[vt] = A[vb, vt] + T.Cast("float32", step)
                    T.tvm_storage_sync("shared")
                    B[vb, vt] = row[255 - vt]
                    T.tvm_storage_sync("shared")
                if vb == 9001:
                    B[vb, T.shift_right(vt, 1)] = row[vt]
