"""Sums of products and other kernels at real sizes, with what is right or wrong in each."""

from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def convolved(
    A: T.Buffer((8, 58, 58, 64), "float32"),
    W: T.Buffer((3, 3, 64, 128), "float32"),
    C: T.Buffer((8, 56, 56, 128), "float32"),
):
    """right"""
    for n, y, x, o, r, s, c in T.grid(8, 56, 56, 128, 3, 3, 64):
        with T.sblock("C"):
            vn, vy, vx, vo, vr, vs, vc = T.axis.remap("SSSSRRR", [n, y, x, o, r, s, c])
            with T.init():
                C[vn, vy, vx, vo] = T.float32(0)
            C[vn, vy, vx, vo] += A[vn, vy + vr, vx + vs, vc] * W[vr, vs, vc, vo]


@T.prim_func(s_tir=True)
def scores(
    Q: T.Buffer((32, 1024, 64), "float16"),
    K: T.Buffer((32, 1024, 64), "float16"),
    S: T.Buffer((32, 1024, 1024), "float32"),
):
    """right: one product for each head"""
    for h, i, j, k in T.grid(32, 1024, 1024, 64):
        with T.sblock("S"):
            vh, vi, vj, vk = T.axis.remap("SSSR", [h, i, j, k])
            with T.init():
                S[vh, vi, vj] = T.float32(0)
            S[vh, vi, vj] += T.Cast("float32", Q[vh, vi, vk]) * T.Cast("float32", K[vh, vj, vk])


@T.prim_func(s_tir=True)
def added(X: T.Buffer((4096, 4096), "float16"), Y: T.Buffer((4096, 4096), "float16")):
    """right: in place"""
    for i, j in T.grid(4096, 4096):
        with T.sblock("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = Y[vi, vj] + X[vi, vj]


@T.prim_func(s_tir=True)
def quantized(
    A: T.Buffer((512, 4096), "int8"),
    B: T.Buffer((4096, 1024), "int8"),
    C: T.Buffer((512, 1024), "int32"),
):
    """right"""
    for i, j, k in T.grid(512, 1024, 4096):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])


def rows_on_blocks(sch):
    """right: of `quantized`, a tile of 16 by 16 for each block"""
    block = sch.get_sblock("C")
    local = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    by, ty = sch.split(i, [None, 16])
    bx, tx = sch.split(j, [None, 16])
    sch.reorder(by, bx, ty, tx, k)
    for loop, axis in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (tx, "threadIdx.x"),
    ):
        sch.bind(loop, axis)
    sch.reverse_compute_at(local, tx)
    sch.decompose_reduction(block, k)


@T.prim_func(s_tir=True)
def tiled_wrongly(
    A: T.Buffer((1024, 1024), "float32"),
    B: T.Buffer((1024, 1024), "float32"),
    C: T.Buffer((1024, 1024), "float32"),
):
    """wrong: the second barrier is missing, so that a tile is overwritten while it is read"""
    for by in T.thread_binding(64, thread="blockIdx.y"):
        for bx in T.thread_binding(64, thread="blockIdx.x"):
            for ty in T.thread_binding(16, thread="threadIdx.y"):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    with T.sblock("CTA"):
                        vby, vbx, vty, vtx = T.axis.remap("SSSS", [by, bx, ty, tx])
                        a = T.sblock_alloc_buffer((2, 16, 17), "float32", scope="shared")
                        total = T.sblock_alloc_buffer((1,), "float32", scope="local")
                        total[0] = T.float32(0)
                        for k in range(64):
                            a[0, vty, vtx] = A[vby * 16 + vty, k * 16 + vtx]
                            a[0, (vty + 1) % 16, vtx] = B[k * 16 + vty, vbx * 16 + vtx]
                            T.tvm_storage_sync("shared")
                            for q in range(16):
                                total[0] = total[0] + a[0, vty, q] * a[0, q, vtx]
                        C[vby * 16 + vty, vbx * 16 + vtx] = total[0]


@T.prim_func(s_tir=True)
def two_launches(A: T.Buffer((1048576,), "float32"), B: T.Buffer((1048576,), "float32")):
    """right: the second launch reads what the first stored, all of it in another order"""
    half = T.alloc_buffer((1048576,), "float32")
    for b in T.thread_binding(1024, thread="blockIdx.x"):
        for t in T.thread_binding(1024, thread="threadIdx.x"):
            half[b * 1024 + t] = A[b * 1024 + t] * T.float32(0.5)
    for b in T.thread_binding(1024, thread="blockIdx.x"):
        for t in T.thread_binding(1024, thread="threadIdx.x"):
            B[b * 1024 + t] = half[1048575 - (b * 1024 + t)]


@T.prim_func(s_tir=True)
def largest(A: T.Buffer((8192, 2048), "float32"), at: T.Buffer((8192,), "int32")):
    """right: where each row is largest, a thread for each row"""
    for b in T.thread_binding(64, thread="blockIdx.x"):
        for t in T.thread_binding(128, thread="threadIdx.x"):
            with T.sblock("row"):
                vi = T.axis.spatial(8192, b * 128 + t)
                best = T.sblock_alloc_buffer((1,), "float32", scope="local")
                place = T.sblock_alloc_buffer((1,), "int32", scope="local")
                best[0] = T.min_value("float32")
                place[0] = 0
                for k in range(2048):
                    if A[vi, k] > best[0]:
                        best[0] = A[vi, k]
                        place[0] = k
                at[vi] = place[0]


@T.prim_func(s_tir=True)
def gathered(
    table: T.Buffer((32000, 4096), "float16"),
    at: T.Buffer((2048,), "int32"),
    out: T.Buffer((2048, 4096), "float16"),
):
    """right: an embedding"""
    for i, j in T.grid(2048, 4096):
        with T.sblock("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(at[vi], table[at[vi], vj])
            T.writes(out[vi, vj])
            out[vi, vj] = table[at[vi], vj]


@T.prim_func(s_tir=True)
def padded(
    A: T.Buffer((64, 56, 56), "float32"),
    W: T.Buffer((128, 64, 3, 3), "float32"),
    bias: T.Buffer((128,), "float32"),
    B: T.Buffer((128, 28, 28), "float32"),
):
    """right: a convolution of stride 2 over a border of zeros, as a model has it"""
    P = T.sblock_alloc_buffer((64, 58, 58))
    C = T.sblock_alloc_buffer((128, 28, 28))
    for c, i, j in T.grid(64, 58, 58):
        with T.sblock("P"):
            vc, vi, vj = T.axis.remap("SSS", [c, i, j])
            P[vc, vi, vj] = T.if_then_else(
                vi >= 1 and vi < 57 and vj >= 1 and vj < 57, A[vc, vi - 1, vj - 1], T.float32(0)
            )
    for f, i, j, c, y, x in T.grid(128, 28, 28, 64, 3, 3):
        with T.sblock("C"):
            vf, vi, vj, vc, vy, vx = T.axis.remap("SSSRRR", [f, i, j, c, y, x])
            with T.init():
                C[vf, vi, vj] = T.float32(0)
            C[vf, vi, vj] += P[vc, vi * 2 + vy, vj * 2 + vx] * W[vf, vc, vy, vx]
    for f, i, j in T.grid(128, 28, 28):
        with T.sblock("B"):
            vf, vi, vj = T.axis.remap("SSS", [f, i, j])
            B[vf, vi, vj] = C[vf, vi, vj] + bias[vf]
