"""What a GPU launches: extents, threads, shared and local memory."""

from tvm.script import tirx as T


# wrong, launch: 65535 is the limit there
# B == np.full(70000, A[0])
@T.prim_func(s_tir=True)
def Of70000BlocksOnY(A: T.Buffer(64), B: T.Buffer(70000)):
    bx = T.launch_thread("blockIdx.x", 1)
    by = T.launch_thread("blockIdx.y", 70000)
    tx = T.launch_thread("threadIdx.x", 1)
    B[by] = A[0]


# wrong, launch: 65535 is the limit there
# B == np.full(70000, A[0])
@T.prim_func(s_tir=True)
def Of70000BlocksOnZ(A: T.Buffer(64), B: T.Buffer(70000)):
    bx = T.launch_thread("blockIdx.x", 1)
    by = T.launch_thread("blockIdx.y", 1)
    bz = T.launch_thread("blockIdx.z", 70000)
    tx = T.launch_thread("threadIdx.x", 1)
    B[bz] = A[0]


# right: x takes 2**31 - 1
# B == np.full(70000, A[0])
@T.prim_func(s_tir=True)
def Of70000BlocksOnX(A: T.Buffer(64), B: T.Buffer(70000)):
    bx = T.launch_thread("blockIdx.x", 70000)
    tx = T.launch_thread("threadIdx.x", 1)
    B[bx] = A[0]


# wrong, launch: a block has 1024 at most
# B == A
@T.prim_func(s_tir=True)
def Of2048Threads(A: T.Buffer(2048), B: T.Buffer(2048)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    ty = T.launch_thread("threadIdx.y", 32)
    B[ty * 64 + tx] = A[ty * 64 + tx]


# wrong, launch: 64 is the limit there
# B == A
@T.prim_func(s_tir=True)
def Of65ThreadsOnZ(A: T.Buffer(65), B: T.Buffer(65)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 1)
    ty = T.launch_thread("threadIdx.y", 1)
    tz = T.launch_thread("threadIdx.z", 65)
    B[tz] = A[tz]


# wrong, launch: 48 KB is the limit for both together
# B == 2 * A[::-1]
@T.prim_func(s_tir=True)
def Twice30KBOfStaticSharedMemory(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S0 = T.alloc_shared((7680,))
    S1 = T.alloc_shared((7680,))
    S0[tx] = A[tx]
    S1[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = S0[63 - tx] + S1[63 - tx]


# wrong, launch: 512 KB is the limit
# B == A
@T.prim_func(s_tir=True)
def Of600000BytesOfLocalMemoryInAThread(A: T.Buffer(32), B: T.Buffer(32)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    r = T.alloc_local((150000,))
    r[tx] = A[tx]
    B[tx] = r[tx]


# right: that is the limit
# B == A
@T.prim_func(s_tir=True)
def Of1024ThreadsOnTwoAxes(A: T.Buffer(1024), B: T.Buffer(1024)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    ty = T.launch_thread("threadIdx.y", 32)
    B[ty * 32 + tx] = A[ty * 32 + tx]


# wrong, launch: a block has 1024 at most, though each axis is within its limit
# B == A
@T.prim_func(s_tir=True)
def Of1056ThreadsOnTwoAxes(A: T.Buffer(1056), B: T.Buffer(1056)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    ty = T.launch_thread("threadIdx.y", 33)
    B[ty * 32 + tx] = A[ty * 32 + tx]


# right: that is the limit there
# B == A
@T.prim_func(s_tir=True)
def Of64ThreadsOnZ(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 1)
    ty = T.launch_thread("threadIdx.y", 1)
    tz = T.launch_thread("threadIdx.z", 64)
    B[tz] = A[tz]


# right: that is the limit
# B == A[::-1]
@T.prim_func(s_tir=True)
def Of48KBOfStaticSharedMemory(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S0 = T.alloc_shared((12288,))
    S0[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = S0[63 - tx]


# wrong, launch: 227 KB is the limit
# needs sm_70
# B == A[::-1]
@T.prim_func(s_tir=True)
def Of240KBOfDynamicSharedMemory(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((61440,), "float32", scope="shared.dyn")
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = S[63 - tx]


# wrong, launch: together they are more than 227 KB
# needs sm_70
# B == A + A[::-1]
@T.prim_func(s_tir=True)
def Of40KBOfStaticAnd200KBOfDynamicSharedMemory(A: T.Buffer(64), B: T.Buffer(64)):
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((51200,), "float32", scope="shared.dyn")
    R = T.alloc_shared((10240,))
    S[tx] = A[tx]
    R[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = S[63 - tx] + R[tx]
