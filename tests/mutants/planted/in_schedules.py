"""Scheduled modules with one line of their text wrong."""

from .plant import SCHEDULED, Edit, ModuleMutant, drop

BLOCKING = "matmul_shared_blocking"
CONV1D = "conv1d_memory_hierarchy"
PRODUCT = "C_local[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]"


def plant_scheduled(
    name: str, kind: str, text: str, original: str, *edits: Edit, **more
) -> ModuleMutant:
    """A mutant of a scheduled module."""
    return ModuleMutant(
        name=name, kind=kind, text=text, original=original, level=SCHEDULED, edits=edits, **more
    )


IN_INDICES_AND_INITS = (
    plant_scheduled(
        "operand transposed",
        "index swapped",
        "B[vj, vk] for B[vk, vj], at a square shape where both exist",
        "matmul_naive, square",
        Edit("T.reads(A[vi, vk], B[vk, vj])", "T.reads(A[vi, vk], B[vj, vk])"),
        Edit("A[vi, vk] * B[vk, vj]", "A[vi, vk] * B[vj, vk]"),
    ),
    plant_scheduled(
        "fetch transposed",
        "index swapped",
        "the tile of B is fetched from B[v1, v0]",
        BLOCKING,
        Edit("T.reads(B[v0, v1])", "T.reads(B[v1, v0])"),
        Edit("= B[v0, v1]", "= B[v1, v0]"),
    ),
    plant_scheduled(
        "result transposed",
        "index swapped",
        "the result is stored to C[v1, v0]",
        BLOCKING,
        Edit("T.writes(C[v0, v1])", "T.writes(C[v1, v0])"),
        Edit("C[v0, v1] = ", "C[v1, v0] = "),
    ),
    plant_scheduled(
        "thread's rows too close",
        "index swapped",
        "the row of a thread is thread // 8 * 2, though each has 4 rows",
        BLOCKING,
        Edit(
            "i_0 * 16 + i_1_j_1_fused // 8 * 4 + i_2)", "i_0 * 16 + i_1_j_1_fused // 8 * 2 + i_2)"
        ),
    ),
    plant_scheduled(
        "remainder by the wrong number",
        "index swapped",
        "the column of a fetch is the remainder by 8 and not by 16",
        BLOCKING,
        Edit("ax0_ax1_fused_2) % 16)", "ax0_ax1_fused_2) % 8)"),
    ),
    plant_scheduled(
        "an operand times itself",
        "wrong operand",
        "A[vi, vk] * A[vi, vk]",
        "matmul_naive, square",
        Edit("T.reads(A[vi, vk], B[vk, vj])", "T.reads(A[vi, vk])"),
        Edit("A[vi, vk] * B[vk, vj]", "A[vi, vk] * A[vi, vk]"),
    ),
    plant_scheduled(
        "sum overwritten",
        "wrong operand",
        "the product is stored and not added",
        BLOCKING,
        Edit(f"= {PRODUCT}", "= A_shared[vi, vk] * B_shared[vk, vj]"),
    ),
    plant_scheduled(
        "result read for an operand",
        "wrong buffer",
        "C[vi, vk] for A[vi, vk]",
        "matmul_naive, square",
        Edit("T.reads(A[vi, vk], B[vk, vj])", "T.reads(C[vi, vk], B[vk, vj])"),
        Edit("A[vi, vk] * B[vk, vj]", "C[vi, vk] * B[vk, vj]"),
    ),
    plant_scheduled(
        "init lost",
        "init lost",
        "the statement that sets the sums to zero is missing",
        BLOCKING,
        drop("C_local[vi, vj] = T.float32(0.0)"),
        Edit("T.writes(C_local[vi, vj])", "T.writes()"),
        chance=("cpu",),
    ),
    plant_scheduled(
        "init of the first row alone",
        "init lost",
        "the loop that sets the sums to zero does one row of four",
        BLOCKING,
        Edit("T.grid(4, 2)", "T.grid(1, 2)"),
        chance=("cpu",),
    ),
    plant_scheduled(
        "init of one",
        "init wrong",
        "the sums begin with 1",
        BLOCKING,
        Edit("C_local[vi, vj] = T.float32(0.0)", "C_local[vi, vj] = T.float32(1.0)"),
    ),
    plant_scheduled(
        "init of an epsilon",
        "init wrong",
        "the sums begin with 1e-6",
        BLOCKING,
        Edit("C_local[vi, vj] = T.float32(0.0)", "C_local[vi, vj] = T.float32(1e-6)"),
    ),
    plant_scheduled(
        "init of a tiny number",
        "init wrong",
        "the sums begin with 1e-9",
        BLOCKING,
        Edit("C_local[vi, vj] = T.float32(0.0)", "C_local[vi, vj] = T.float32(1e-9)"),
    ),
    plant_scheduled(
        "predicate of the result lost",
        "predicate lost",
        "the results are stored without the guard for the last block",
        CONV1D,
        Edit("T.where(i_0 * 32 + i_1 < 131)", "pass", 2),
    ),
    plant_scheduled(
        "predicate one short",
        "off by one",
        "the guard stops one output early",
        CONV1D,
        Edit("T.where(i_0 * 32 + i_1 < 131)", "T.where(i_0 * 32 + i_1 < 130)", 2),
    ),
    plant_scheduled(
        "predicate one too far",
        "off by one",
        "the guard lets one output too many through",
        CONV1D,
        Edit("T.where(i_0 * 32 + i_1 < 131)", "T.where(i_0 * 32 + i_1 < 132)", 2),
    ),
    plant_scheduled(
        "window one short",
        "fetch one short",
        "129 of 130 elements of the window are fetched",
        "window_sum_shared",
        Edit("ax0_1 < 130", "ax0_1 < 129"),
        chance=("cpu",),
    ),
    plant_scheduled(
        "window one round short",
        "fetch one short",
        "the second round of the fetch is missing",
        "window_sum_shared",
        Edit("range(2)", "range(1)"),
        chance=("cpu",),
    ),
    plant_scheduled(
        "last tile never summed",
        "off by one",
        "the loop over the tiles of k makes 7 rounds of 8",
        BLOCKING,
        Edit("for k_0 in range(8)", "for k_0 in range(7)"),
    ),
    plant_scheduled(
        "tile fetched a step late",
        "stage off by one",
        "step k_0 sums with the tile of B that belongs to the step after it, cyclically",
        BLOCKING,
        Edit("v0 = T.axis.spatial(32, k_0 * 4 +", "v0 = T.axis.spatial(32, (k_0 + 1) % 8 * 4 +"),
        chance=("cpu",),
    ),
    plant_scheduled(
        "window reads one too far",
        "off by one",
        "the sum is of the elements 0, 1 and 3",
        "window_sum_shared",
        Edit("A_shared[vi:vi + 3]", "A_shared[vi:vi + 4]"),
        Edit("A_shared[vi + 2]", "A_shared[vi + 3]"),
        chance=("cpu",),
    ),
    plant_scheduled(
        "declared reads too small",
        "wrong region",
        "the block declares two elements of the window and reads three",
        "window_sum_shared",
        Edit("T.reads(A_shared[vi:vi + 3])", "T.reads(A_shared[vi:vi + 2])"),
        equivalent="TVM finds what a block touches in its body and not in what it declares: the "
        "same program after lowering",
    ),
    plant_scheduled(
        "declared writes elsewhere",
        "wrong region",
        "the fetch declares that it writes element 0 alone",
        "window_sum_shared",
        Edit("T.writes(A_shared[v0])", "T.writes(A_shared[0])"),
        equivalent="TVM finds what a block touches in its body and not in what it declares: the "
        "same program after lowering",
    ),
)

EPILOGUE = "matmul_bias_relu_shared_blocking"
DEPTHWISE = "depthwise_conv2d_threads_2d"

IN_EPILOGUES_AND_PADDING = (
    plant_scheduled(
        "relu lost",
        "epilogue",
        "the bias is added, and nothing is cut off at zero",
        EPILOGUE,
        Edit("T.max(C_local[vi, vj] + bias[vj], T.float32(0.0))", "C_local[vi, vj] + bias[vj]"),
    ),
    plant_scheduled(
        "relu before the bias",
        "epilogue",
        "max(C, 0) + bias",
        EPILOGUE,
        Edit(
            "T.max(C_local[vi, vj] + bias[vj], T.float32(0.0))",
            "T.max(C_local[vi, vj], T.float32(0.0)) + bias[vj]",
        ),
    ),
    plant_scheduled(
        "minimum for maximum",
        "epilogue",
        "T.min where T.max belongs",
        EPILOGUE,
        Edit("T.max(C_local", "T.min(C_local"),
    ),
    plant_scheduled(
        "bias of the row",
        "index swapped",
        "bias[vi] for bias[vj]",
        EPILOGUE,
        Edit("T.reads(C_local[vi, vj], bias[vj])", "T.reads(C_local[vi, vj], bias[vi])"),
        Edit("+ bias[vj]", "+ bias[vi]"),
    ),
    plant_scheduled(
        "bias within the tile",
        "index swapped",
        "the bias is taken from the column within the block's tile",
        EPILOGUE,
        Edit("T.reads(C_local[vi, vj], bias[vj])", "T.reads(C_local[vi, vj], bias[vj % 16])"),
        Edit("+ bias[vj]", "+ bias[vj % 16]"),
    ),
    plant_scheduled(
        "padding of ones",
        "padding",
        "what lies outside of the image counts as 1",
        DEPTHWISE,
        Edit("vw + vx - 1], T.float32(0.0))", "vw + vx - 1], T.float32(1.0))"),
    ),
    plant_scheduled(
        "last row taken for padding",
        "padding",
        "the image ends one row early",
        DEPTHWISE,
        Edit("vh + vy < 7", "vh + vy < 6"),
    ),
    plant_scheduled(
        "row above the image",
        "padding",
        "the guard lets the row above the image through",
        DEPTHWISE,
        Edit("vh + vy >= 1", "vh + vy >= 0"),
    ),
    plant_scheduled(
        "filter mirrored",
        "index swapped",
        "F[vc, 0, vx, vy]: rows and columns of the filter swapped",
        DEPTHWISE,
        Edit(
            "T.reads(X[vb, vc, vh + vy - 1, vw + vx - 1], F[vc, 0, vy, vx])",
            "T.reads(X[vb, vc, vh + vy - 1, vw + vx - 1], F[vc, 0, vx, vy])",
        ),
        Edit("* F[vc, 0, vy, vx]", "* F[vc, 0, vx, vy]"),
    ),
    plant_scheduled(
        "image and channel swapped",
        "index swapped",
        "b_c_fused % 2 is the image and b_c_fused // 2 the channel",
        DEPTHWISE,
        Edit("vb = T.axis.spatial(5, b_c_fused // 2)", "vb = T.axis.spatial(5, b_c_fused % 2)"),
        Edit("vc = T.axis.spatial(2, b_c_fused % 2)", "vc = T.axis.spatial(2, b_c_fused // 2)"),
    ),
)

HALF = "matmul_registers, float16"

IN_TYPES_AND_BINDINGS = (
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

IN_SCHEDULES = (*IN_INDICES_AND_INITS, *IN_EPILOGUES_AND_PADDING, *IN_TYPES_AND_BINDINGS)
