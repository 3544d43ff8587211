"""Atomic operations: sums over threads and blocks, tickets, and plain accesses among them."""

from tvm.script import tirx as T


# right: the cell is cleared before the barrier and loaded behind one
# B == A.sum(keepdims=True)
@T.prim_func(s_tir=True)
def SharedSumByAtomicAdd(A: T.Buffer(64), B: T.Buffer(1)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((1,))
    if tx == 0:
        S[0] = T.float32(0)
    T.tvm_storage_sync("shared")
    T.call_extern("float32", "atomicAdd", T.address_of(S[0]), A[tx])
    T.tvm_storage_sync("shared")
    if tx == 0:
        B[0] = S[0]


# right: each launch ends before the next begins
# H, B == (np.ones(8), 2 * np.bincount(np.arange(256) // 7 % 8, A, 8))
@T.prim_func(s_tir=True)
def HistogramOverBlocks(A: T.Buffer(256), H: T.Buffer(8), B: T.Buffer(8)):
    with T.launch_thread("threadIdx.x", 8) as tx:
        H[tx] = T.float32(0)
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 64) as tx:
            T.evaluate(T.cuda.atomic_add(T.address_of(H[(bx * 64 + tx) // 7 % 8]), A[bx * 64 + tx]))
    with T.launch_thread("threadIdx.x", 8) as tx:
        B[tx] = H[tx] * T.float32(2)
        H[tx] = T.float32(1)


# right: no two threads get one ticket, and all cells hold the same
# B == np.full(64, 3)
@T.prim_func(s_tir=True)
def EachTicketOnce(A: T.Buffer(64, "int32"), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((1,), "int32")
    r = T.alloc_local((1,), "int32")
    if tx == 0:
        S[0] = 0
    T.tvm_storage_sync("shared")
    r[0] = T.cuda.atomic_add(T.address_of(S[0]), 1)
    B[r[0]] = T.float32(3)


# right: the largest and the smallest are the same in each order, and so are bits
# A = np.arange(64) * 37 % 101 - 20
# B == np.array([A.max(), A.min(), np.bitwise_or.reduce(A), np.bitwise_and.reduce(A), A.sum()])
@T.prim_func(s_tir=True)
def OperationsOfAnyOrder(A: T.Buffer(64, "int32"), B: T.Buffer(5, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((5,), "int32")
    if tx < 5:
        S[tx] = A[0]
    if tx == 4:
        S[4] = 0
    T.tvm_storage_sync("shared")
    T.call_extern("int32", "atomicMax", T.address_of(S[0]), A[tx])
    T.call_extern("int32", "atomicMin", T.address_of(S[1]), A[tx])
    T.call_extern("int32", "atomicOr", T.address_of(S[2]), A[tx])
    T.call_extern("int32", "atomicAnd", S.access_ptr("rw", offset=3), A[tx])
    T.call_extern("int32", "atomicSub", S.access_ptr("rw", offset=4), -A[tx])
    T.tvm_storage_sync("shared")
    if tx < 5:
        B[tx] = S[tx]


# right: one thread alone finds 0 there
# A = np.arange(64)
# B == np.array([5])
@T.prim_func(s_tir=True)
def OneThreadWinsTheExchange(A: T.Buffer(64, "int32"), B: T.Buffer(1, "int32")):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((1,), "int32")
    r = T.alloc_local((1,), "int32")
    if tx == 0:
        S[0] = 0
    T.tvm_storage_sync("shared")
    r[0] = T.cuda.atomic_cas(T.address_of(S[0]), 0, 1)
    if r[0] == 0:
        B[0] = 5


# right: warps add up what their lanes shuffled, and add that atomically
# B == A.sum(keepdims=True)
@T.prim_func(s_tir=True)
def WarpSumsAddedAtomically(A: T.Buffer(128), B: T.Buffer(1)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 128)
    S = T.alloc_shared((1,))
    r = T.alloc_local((1,))
    r[0] = A[tx]
    if tx == 77:
        S[0] = T.float32(0)
    T.tvm_storage_sync("shared")
    for k in range(5):
        r[0] = r[0] + T.tvm_warp_shuffle_xor(
            T.uint32(0xFFFFFFFF), r[0], T.shift_right(16, k), 32, 32
        )
    if tx % 32 == 0:
        T.ptx["red.shared.add.f32"](T.address_of(S[0]), r[0])
    T.tvm_storage_sync("shared")
    if tx == 32:
        B[0] = S[0]


# right: the compaction's order is that of tickets, and a sum does not know it
# B == np.array([A[A > 50].sum(), (A > 50).sum()])
@T.prim_func(s_tir=True)
def CompactionInAnyOrder(A: T.Buffer(64), B: T.Buffer(2)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    count = T.alloc_shared((1,), "int32")
    S = T.alloc_shared((64,))
    r = T.alloc_local((1,), "int32")
    c = T.alloc_local((1,))
    if tx == 0:
        count[0] = 0
    T.tvm_storage_sync("shared")
    if A[tx] > T.float32(50):
        r[0] = T.call_extern("int32", "atomicAdd", T.address_of(count[0]), 1)
        S[r[0]] = A[tx]
    T.tvm_storage_sync("shared")
    if tx == 0:
        c[0] = T.float32(0)
        for k in range(count[0]):
            c[0] = c[0] + S[k]
        B[0] = c[0]
        B[1] = T.Cast("float32", count[0])


# wrong, race: another thread loads with no barrier what threads still add to
# B == np.full(64, A.sum())
@T.prim_func(s_tir=True)
def EachThreadLoadsTheSumAtOnce(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((1,))
    if tx == 0:
        S[0] = T.float32(0)
    T.tvm_storage_sync("shared")
    T.call_extern("float32", "atomicAdd", T.address_of(S[0]), A[tx])
    B[tx] = S[0]


# wrong, race: a block loads the total while others may still add to it
# B == np.full(4, A.sum())
@T.prim_func(s_tir=True)
def EachBlockLoadsTheTotal(A: T.Buffer(256), H: T.Buffer(1), B: T.Buffer(4)):
    with T.launch_thread("threadIdx.x", 1) as tx:
        H[0] = T.float32(0)
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("threadIdx.x", 64) as tx:
            T.evaluate(T.cuda.atomic_add(T.address_of(H[0]), A[bx * 64 + tx]))
            T.tvm_storage_sync("shared")
            if tx == 0:
                B[bx] = H[0]


# wrong, race: the blocks clear the total that others have begun to add to
# H == A.sum(keepdims=True)
@T.prim_func(s_tir=True)
def EachBlockClearsTheTotal(A: T.Buffer(256), H: T.Buffer(1)):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 64)
    if bx == 0 and tx == 0:
        H[0] = T.float32(0)
    T.tvm_storage_sync("shared")
    T.evaluate(T.cuda.atomic_add(T.address_of(H[0]), A[bx * 64 + tx]))


# wrong, uninitialized read: nobody cleared the sum
# B == A.sum(keepdims=True)
@T.prim_func(s_tir=True)
def SumThatNobodyCleared(A: T.Buffer(64), B: T.Buffer(1)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((1,))
    T.call_extern("float32", "atomicAdd", T.address_of(S[0]), A[tx])
    T.tvm_storage_sync("shared")
    if tx == 0:
        B[0] = S[0]


# wrong, out of bounds: nine bins, and eight cells
# B == np.bincount(np.arange(64) % 9, A, 9)[:8]
@T.prim_func(s_tir=True)
def HistogramOfOneBinTooMany(A: T.Buffer(64), B: T.Buffer(8)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_shared((8,))
    if tx < 8:
        S[tx] = T.float32(0)
    T.tvm_storage_sync("shared")
    T.evaluate(T.cuda.atomic_add(T.address_of(S[tx % 9]), A[tx]))
    T.tvm_storage_sync("shared")
    if tx < 8:
        B[tx] = S[tx]


# wrong, race: a block loads what another one may have added to by then
# n = np.arange(64) % 4
# B, C == (np.zeros(64), A)
@T.prim_func(s_tir=True)
def LoadBeforeTheAdditionsOfOtherBlocks(
    A: T.Buffer(64), n: T.Buffer(64, "int32"), B: T.Buffer(64), C: T.Buffer(64)
):
    with T.launch_thread("threadIdx.x", 64) as tx:
        C[tx] = T.float32(0)
    with T.launch_thread("blockIdx.x", 2) as bx:
        with T.launch_thread("threadIdx.x", 32) as tx:
            B[bx * 32 + tx] = C[bx * 32 + tx]
            T.evaluate(T.cuda.atomic_add(T.address_of(C[63 - bx * 32 - tx]), A[63 - bx * 32 - tx]))


# wrong, race: a block loads what another one may have added to by then
# B == A
@T.prim_func(s_tir=True)
def BlockAddsToAnInputThatAnotherBlockLoads(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    B[bx * 32 + tx] = A[bx * 32 + tx]
    T.evaluate(T.cuda.atomic_add(T.address_of(A[63 - bx * 32 - tx]), T.float32(1)))


# right: the first lane of a warp takes a ticket for all its lanes
# B == np.full(128, 3)
@T.prim_func(s_tir=True)
def TicketOfEachWarp(A: T.Buffer(128), B: T.Buffer(128)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 128)
    S = T.alloc_shared((1,), "int32")
    r = T.alloc_local((1,), "int32")
    if tx == 0:
        S[0] = 0
    T.tvm_storage_sync("shared")
    r[0] = 0
    if tx % 32 == 0:
        r[0] = T.cuda.atomic_add(T.address_of(S[0]), 1)
    r[0] = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), r[0], 0, 32, 32)
    B[r[0] * 32 + tx % 32] = T.float32(3)
