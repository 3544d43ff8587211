"""Scheduled modules with a type, a scope, a binding or a vector wrong."""

from .in_schedules import BLOCKING, plant_scheduled
from .plant import Edit, Mutant

HALF = "matmul_registers, float16"

IN_SCHEDULES_TYPES: tuple[Mutant, ...] = (
    plant_scheduled(
        "sums in float16",
        "cast to the wrong dtype",
        "the buffer of the sums is float16, and each sum is rounded to it",
        HALF,
        Edit(
            'C_acc_local = T.sblock_alloc_buffer((32, 16), scope="local")',
            'C_acc_local = T.sblock_alloc_buffer((32, 16), "float16", scope="local")',
        ),
        Edit("C_acc_local[vi, vj] = T.float32(0.0)", "C_acc_local[vi, vj] = T.float16(0.0)"),
        Edit(
            '= C_acc_local[vi, vj] + T.Cast("float32", A_shared[vi, vk]) * '
            'T.Cast("float32", B_shared[vk, vj])',
            "= C_acc_local[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]",
        ),
        Edit('T.Cast("float16", C_acc_local[vi, vj])', "C_acc_local[vi, vj]"),
    ),
    plant_scheduled(
        "products in float16",
        "cast to the wrong dtype",
        "the product is rounded to float16 and then added in float32",
        HALF,
        Edit(
            'T.Cast("float32", A_shared[vi, vk]) * T.Cast("float32", B_shared[vk, vj])',
            'T.Cast("float32", A_shared[vi, vk] * B_shared[vk, vj])',
        ),
    ),
    plant_scheduled(
        "tile in float16",
        "cast to the wrong dtype",
        "the tile of A is kept in float16 in a float32 product",
        BLOCKING,
        Edit(
            'A_shared = T.sblock_alloc_buffer((64, 32), scope="shared")',
            'A_shared = T.sblock_alloc_buffer((64, 32), "float16", scope="shared")',
        ),
        Edit("A_shared[v0, v1] = A[v0, v1]", 'A_shared[v0, v1] = T.Cast("float16", A[v0, v1])'),
        Edit("+ A_shared[vi, vk] *", '+ T.Cast("float32", A_shared[vi, vk]) *'),
    ),
    plant_scheduled(
        "product in int8",
        "cast to the wrong dtype",
        "the product of int8 numbers is formed in int8 and then widened; CUDA C forms it in int",
        "matmul_naive, int8",
        Edit(
            'T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])',
            'T.Cast("int32", A[vi, vk] * B[vk, vj])',
        ),
    ),
    plant_scheduled(
        "result through bfloat16",
        "cast to the wrong dtype",
        "the result is rounded to bfloat16 on its way out",
        BLOCKING,
        Edit("= C_local[v0, v1]", '= T.Cast("float32", T.Cast("bfloat16", C_local[v0, v1]))'),
    ),
    plant_scheduled(
        "tile in registers",
        "scope too narrow",
        "the tile of A, which all threads fetch together, has scope local",
        BLOCKING,
        Edit('(64, 32), scope="shared")', '(64, 32), scope="local")'),
    ),
    plant_scheduled(
        "sums in shared memory",
        "scope too wide",
        "the registers of the sums have scope shared",
        BLOCKING,
        Edit(
            'C_local = T.sblock_alloc_buffer((64, 48), scope="local")',
            'C_local = T.sblock_alloc_buffer((64, 48), scope="shared")',
        ),
        equivalent="TVM gives every thread its own cells in shared memory: slower, and the same "
        "results on any input",
    ),
    plant_scheduled(
        "rows and columns of blocks on one axis",
        "double binding",
        "both loops over tiles are bound to blockIdx.y",
        "matmul_naive, square",
        Edit('thread="blockIdx.x"', 'thread="blockIdx.y"'),
    ),
    plant_scheduled(
        "one block too few",
        "thread extents that differ",
        "the grid has 3 rows of blocks, and the result 4 rows of tiles",
        BLOCKING,
        Edit(
            'T.thread_binding(4, thread="blockIdx.y")', 'T.thread_binding(3, thread="blockIdx.y")'
        ),
    ),
    plant_scheduled(
        "fetch with other threads",
        "thread extents that differ",
        "the fetch of A binds 16 threads to threadIdx.x, the rest of the kernel 32",
        BLOCKING,
        Edit(
            'for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x")',
            'for ax0_ax1_fused_1 in T.thread_binding(16, thread="threadIdx.x")',
        ),
    ),
    plant_scheduled(
        "compute with other threads",
        "thread extents that differ",
        "the compute loops bind 16 threads, the fetches 32",
        BLOCKING,
        Edit(
            'for i_1_j_1_fused in T.thread_binding(32, thread="threadIdx.x")',
            'for i_1_j_1_fused in T.thread_binding(16, thread="threadIdx.x")',
        ),
    ),
    plant_scheduled(
        "vector over the edge of the tile",
        "vector over the edge",
        "the guard of a fetch in vectors of 4 lets one vector too many through",
        BLOCKING,
        Edit("ax0_ax1_fused_2 < 64)", "ax0_ax1_fused_2 < 68)"),
    ),
    plant_scheduled(
        "fetch in overlapping vectors",
        "vector over the edge",
        "vectors of 8 where the share of a thread is 4",
        BLOCKING,
        Edit("T.vectorized(4)", "T.vectorized(8)"),
        equivalent="TVM makes single guarded loads of it; elements are fetched twice, by two "
        "threads that write the same value: the same results on any input",
    ),
    plant_scheduled(
        "not vectorized",
        "vector lost",
        "a serial loop where the vector was",
        BLOCKING,
        Edit("T.vectorized(4)", "range(4)"),
        equivalent="four loads of one element for one load of four: slower, and the same results "
        "on any input",
    ),
)
