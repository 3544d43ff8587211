"""Lowered modules with one line of their text wrong, as a bug in a compiler leaves them."""

from .plant import LOWERED, Edit, ModuleMutant, drop

BLOCKING = "matmul_shared_blocking"
CONV1D = "conv1d_memory_hierarchy"
WINDOW = "window_sum_shared"
REDUCE = "matmul_sum_over_threads"
SYNC = 'T.tvm_storage_sync("shared", T.bool(False), -1)'


def plant_lowered(
    name: str, kind: str, text: str, original: str, *edits: Edit, **more
) -> ModuleMutant:
    """A mutant of a lowered module."""
    return ModuleMutant(
        name=name, kind=kind, text=text, original=original, level=LOWERED, edits=edits, **more
    )


def _dropped(original: str, which: int, text: str, **more) -> ModuleMutant:
    name = f"barrier {which + 1} of {original}"
    return plant_lowered(name, "barrier dropped", text, original, drop(SYNC, which), **more)


IN_BARRIERS_AND_SHUFFLES = (
    _dropped(WINDOW, 0, "nobody waits between the fetch of the window and the sums"),
    _dropped(BLOCKING, 0, "the next tiles overwrite those that others still read"),
    _dropped(BLOCKING, 1, "nobody waits between the fetch of the tiles and the sums"),
    _dropped(CONV1D, 0, "the next taps overwrite those that others still read"),
    _dropped(CONV1D, 1, "nobody waits between the fetch of the taps and the sums"),
    _dropped("matmul_shared", 0, "the same as in the blocking kernel, with sums in memory"),
    _dropped("matmul_shared", 1, "the same as in the blocking kernel, with sums in memory"),
    _dropped(REDUCE, 0, "the second warp's sum is read before it is there"),
    _dropped(
        REDUCE,
        1,
        "nobody waits between the sum over the warps and its use",
        equivalent="thread 0 writes the sum, and thread 0 alone reads it",
    ),
    plant_lowered(
        "barrier before the second fetch",
        "barrier moved",
        "the barrier behind both fetches stands between them",
        BLOCKING,
        drop(SYNC, 1),
        Edit("if threadIdx_x < 16:", SYNC + "\nif threadIdx_x < 16:", 1),
    ),
    plant_lowered(
        "barrier after the first fetch",
        "barrier moved",
        "the barrier in front of both fetches stands behind the first",
        BLOCKING,
        drop(SYNC, 0),
        Edit("if threadIdx_x < 16:", SYNC + "\nif threadIdx_x < 16:", 1),
    ),
    plant_lowered(
        "barrier in front of the loop",
        "barrier moved",
        "the barrier that ends a round of tiles is taken out of the loop",
        BLOCKING,
        drop(SYNC, 0),
        Edit("for k_0 in range(8):", SYNC + "\nfor k_0 in range(8):"),
    ),
    plant_lowered(
        "barrier behind the sums",
        "barrier moved",
        "the barrier between fetch and sums stands behind the sums",
        WINDOW,
        drop(SYNC, 0),
        Edit("A_shared[threadIdx_x + 2]", "A_shared[threadIdx_x + 2]\n" + SYNC),
    ),
    plant_lowered(
        "barrier for the threads that fetch",
        "divergent barrier",
        "the barrier stands under the guard of the fetch: half of the threads never come",
        BLOCKING,
        Edit(SYNC, "if threadIdx_x < 16:\n    " + SYNC, 1),
    ),
    plant_lowered(
        "barrier for the outputs inside",
        "divergent barrier",
        "the barrier stands under the guard of the outputs, which only the last block notices",
        CONV1D,
        Edit(SYNC, "if cse_v2 < 131:\n    " + SYNC, 1),
    ),
    plant_lowered(
        "barrier in every other round",
        "barrier dropped",
        "the barrier between fetch and sums runs in even rounds",
        BLOCKING,
        Edit(SYNC, "if k_0 % 2 == 0:\n    " + SYNC, 1),
    ),
    plant_lowered(
        "barrier not in the last round",
        "barrier dropped",
        "the barrier between fetch and sums is left out in the last of eight rounds",
        BLOCKING,
        Edit(SYNC, "if k_0 < 7:\n    " + SYNC, 1),
    ),
    plant_lowered(
        "barrier of a warp",
        "scope too narrow",
        "a barrier of the warp instead of the block, in a block of 8 warps",
        "matmul_shared",
        Edit(SYNC, 'T.tvm_storage_sync("warp", T.bool(False), -1)', 1),
    ),
    plant_lowered(
        "barrier not in the first round",
        "barrier dropped",
        "the barrier in front of the fetches is left out in the first round",
        BLOCKING,
        Edit(SYNC, "if k_0 > 0:\n    " + SYNC, 0),
        equivalent="in the first round nobody has read the tiles yet, so nothing waits for it: "
        "the same results in any order of threads",
    ),
    plant_lowered(
        "load in front of the barrier",
        "load moved",
        "the neighbour's element is read in front of the barrier and used behind it",
        WINDOW,
        Edit(SYNC, "early: T.let[T.float32] = A_shared[threadIdx_x + 1]\n" + SYNC),
        Edit("+ A_shared[threadIdx_x + 1] +", "+ early +"),
    ),
    plant_lowered(
        "store behind the barrier",
        "store moved",
        "the tile of B is fetched behind the barrier, right before the sums",
        BLOCKING,
        drop(SYNC, 1),
        Edit("if threadIdx_x < 16:", SYNC + "\nif threadIdx_x < 16:", 1),
        Edit("if threadIdx_x < 16:", "if T.bool(True) and threadIdx_x < 16:", 1),
    ),
    plant_lowered(
        "shuffle by half",
        "wrong lane",
        "the first exchange of a warp reaches 8 lanes far instead of 16",
        REDUCE,
        Edit("red_buf0[0], 16, 32, 32)", "red_buf0[0], 8, 32, 32)"),
    ),
    plant_lowered(
        "shuffle up",
        "wrong lane",
        "an exchange with the lanes below instead of those above",
        REDUCE,
        Edit(
            "T.tvm_warp_shuffle_down(mask[0], red_buf0[0], 4",
            "T.tvm_warp_shuffle_up(mask[0], red_buf0[0], 4",
        ),
    ),
    plant_lowered(
        "shuffle within half a warp",
        "wrong lane",
        "the width of an exchange is 16, which the last lanes of a half do not look beyond",
        REDUCE,
        Edit("red_buf0[0], 16, 32, 32)", "red_buf0[0], 16, 16, 32)"),
    ),
    plant_lowered(
        "shuffle of some lanes",
        "wrong lane",
        "an exchange that half of the warp does not take part in",
        REDUCE,
        Edit(
            "t0[0] = T.tvm_warp_shuffle_down(mask[0], red_buf0[0], 16, 32, 32)",
            "if threadIdx_x % 32 < 16:\n"
            "    t0[0] = T.tvm_warp_shuffle_down(mask[0], red_buf0[0], 16, 32, 32)",
        ),
    ),
    plant_lowered(
        "mask of half a warp",
        "wrong lane",
        "the mask of an exchange names 16 lanes of 32",
        REDUCE,
        Edit("mask[0] = T.tvm_warp_activemask()", "mask[0] = T.uint32(65535)"),
    ),
    plant_lowered(
        "sum of one warp alone",
        "predicate wrong",
        "the first warp alone hands over its sum",
        REDUCE,
        Edit("if threadIdx_x % 32 == 0:", "if threadIdx_x == 0:"),
    ),
    plant_lowered(
        "sum of the wrong lane",
        "wrong lane",
        "lane 1 of each warp, and not lane 0, hands over the warp's sum",
        REDUCE,
        Edit("if threadIdx_x % 32 == 0:", "if threadIdx_x % 32 == 1:"),
    ),
    plant_lowered(
        "warps' sums in one place",
        "aliased",
        "both warps leave their sums in the same element",
        REDUCE,
        Edit("red_buf_staging[threadIdx_x // 32] =", "red_buf_staging[threadIdx_x // 64] ="),
    ),
)

A_INDEX = "A_shared[cse_v1:cse_v1 + 4] = "

IN_MEMORY = (
    plant_lowered(
        "tile in registers, lowered",
        "scope too narrow",
        "the tile of A is allocated in registers",
        BLOCKING,
        Edit("A_shared = T.alloc_shared((64,))", "A_shared = T.alloc_local((64,))"),
    ),
    plant_lowered(
        "sums shared by all threads",
        "scope too wide",
        "the 8 sums of each thread are allocated in shared memory, once for all",
        BLOCKING,
        Edit("C_local = T.alloc_local((8,))", "C_local = T.alloc_shared((8,))"),
    ),
    plant_lowered(
        "two tiles in one place",
        "aliased",
        "the tile of B lies where the tile of A is",
        BLOCKING,
        Edit(
            "B_shared = T.alloc_shared((64,))",
            'B_shared = T.decl_buffer((64,), data=A_shared.data, scope="shared")',
        ),
    ),
    plant_lowered(
        "tile too small",
        "buffer too small",
        "the tile of B has 60 elements of 64",
        BLOCKING,
        Edit("B_shared = T.alloc_shared((64,))", "B_shared = T.alloc_shared((60,))"),
    ),
    plant_lowered(
        "window without its halo",
        "buffer too small",
        "the window has 128 elements, one for each thread, and not 130",
        WINDOW,
        Edit("T.alloc_shared((130,))", "T.alloc_shared((128,))"),
    ),
    plant_lowered(
        "one register too few",
        "buffer too small",
        "7 registers for 8 sums",
        BLOCKING,
        Edit("T.alloc_local((8,))", "T.alloc_local((7,))"),
    ),
    plant_lowered(
        "round of the fetch missing",
        "fetch one short",
        "the second round of the fetch, which brings the last two elements, is missing",
        WINDOW,
        Edit("range(2)", "range(1)"),
    ),
    plant_lowered(
        "thread of the fetch missing",
        "fetch one short",
        "the guard of the fetch of A lets 15 threads of 16 through",
        BLOCKING,
        Edit("if threadIdx_x < 16:", "if threadIdx_x < 15:"),
    ),
    plant_lowered(
        "guard of the fetch too wide",
        "predicate lost",
        "the guard of the fetch of B lets a 17th thread through",
        BLOCKING,
        Edit("if threadIdx_x < 16:", "if threadIdx_x < 17:", 1),
    ),
    plant_lowered(
        "guard of the fetch lost",
        "predicate lost",
        "all threads fetch, where the tile has elements for a half of them",
        BLOCKING,
        Edit("if threadIdx_x < 16:", "if T.bool(True):"),
    ),
    plant_lowered(
        "guard of the result lost",
        "predicate lost",
        "the last block stores beyond the end of the results",
        CONV1D,
        Edit("if cse_v2 < 131:", "if T.bool(True):", 2),
    ),
    plant_lowered(
        "guard of the signal lost",
        "predicate lost",
        "the signal is read in front of its beginning, where zeros belong",
        CONV1D,
        Edit("0 <= cse_v3 and cse_v3 < 100", "cse_v3 < 100"),
    ),
    plant_lowered(
        "zero as a difference",
        "padding",
        "what is outside of the image is the first element minus itself instead of 0",
        "depthwise_conv2d_threads_2d",
        Edit("rx - 9], T.float32(0.0))", "rx - 9], X_1[0] - X_1[0])"),
        equivalent="TVM's simplifier folds x - x to 0, of floats too, before any device has it",
    ),
    plant_lowered(
        "next tile for this step",
        "stage off by one",
        "B is fetched for the step after the one that A is fetched for",
        BLOCKING,
        Edit("B_1[T.Ramp(k_0 * 192 ", "B_1[T.Ramp((k_0 + 1) % 8 * 192 "),
    ),
    plant_lowered(
        "next tile beyond the last",
        "stage off by one",
        "the same without a turn at the end: the last fetch goes beyond B",
        BLOCKING,
        Edit("B_1[T.Ramp(k_0 * 192 ", "B_1[T.Ramp(k_0 * 192 + 192 "),
    ),
    plant_lowered(
        "store one to the right",
        "off by one",
        "each result is stored one element to the right",
        BLOCKING,
        Edit("cse_v2 + cse_v5 + ax1] =", "cse_v2 + cse_v5 + ax1 + 1] ="),
    ),
    plant_lowered(
        "results of a thread in one row",
        "written twice",
        "the four rows of a thread are stored to its first one",
        BLOCKING,
        Edit("+ ax0 * 48 +", "+ 0 * ax0 +"),
    ),
    plant_lowered(
        "threads' results overlap",
        "written twice",
        "the columns of neighbouring threads overlap",
        BLOCKING,
        Edit(
            "cse_v5: T.let[T.int32] = threadIdx_x % 8 * 2",
            "cse_v5: T.let[T.int32] = threadIdx_x % 8",
        ),
    ),
    plant_lowered(
        "blocks' results overlap",
        "written twice",
        "all columns of blocks store to the first 16 columns, each its own sums",
        BLOCKING,
        Edit("+ ax0 * 48 + cse_v2 + cse_v5", "+ ax0 * 48 + cse_v5"),
    ),
    plant_lowered(
        "half of the threads",
        "thread extents that differ",
        "the kernel is launched with 16 threads of 32",
        BLOCKING,
        Edit('T.launch_thread("threadIdx.x", 32)', 'T.launch_thread("threadIdx.x", 16)'),
    ),
    plant_lowered(
        "twice the threads",
        "thread extents that differ",
        "the kernel is launched with 64 threads instead of 32",
        BLOCKING,
        Edit('T.launch_thread("threadIdx.x", 32)', 'T.launch_thread("threadIdx.x", 64)'),
    ),
    plant_lowered(
        "a block too few",
        "thread extents that differ",
        "the grid has 4 blocks, and the outputs 5",
        CONV1D,
        Edit('T.launch_thread("blockIdx.x", 5)', 'T.launch_thread("blockIdx.x", 4)'),
    ),
    plant_lowered(
        "vector from an odd place",
        "vector misaligned",
        "vectors of 4 that begin one element late",
        BLOCKING,
        Edit("threadIdx_x * 32 + k_0 * 4, 1, 4)", "threadIdx_x * 32 + k_0 * 4 + 1, 1, 4)"),
    ),
    plant_lowered(
        "vector beyond the tile",
        "vector over the edge",
        "the vectors into the tile lie 4 elements too far",
        BLOCKING,
        Edit("A_shared[cse_v1:cse_v1 + 4]", "A_shared[cse_v1 + 4:cse_v1 + 8]"),
    ),
    plant_lowered(
        "vector with a stride",
        "index swapped",
        "the vectors of A go down a column",
        BLOCKING,
        Edit("threadIdx_x * 32 + k_0 * 4, 1, 4)", "threadIdx_x * 32 + k_0 * 4, 32, 4)"),
    ),
    plant_lowered(
        "one step of the tile short",
        "off by one",
        "3 of the 4 terms of each tile are summed",
        BLOCKING,
        Edit("T.grid(4, 4, 2)", "T.grid(3, 4, 2)"),
    ),
    plant_lowered(
        "one step of the tile too many",
        "off by one",
        "5 terms are summed of tiles with 4",
        CONV1D,
        Edit("for r_1 in range(4)", "for r_1 in range(5)"),
    ),
    plant_lowered(
        "init of a part",
        "init lost",
        "the registers of the last row are not set to zero",
        BLOCKING,
        Edit("in T.grid(4, 2):", "in T.grid(3, 2):"),
    ),
    plant_lowered(
        "tile of A read by rows of the other",
        "index swapped",
        "the stride of A's tile is taken to be B's",
        BLOCKING,
        Edit("cse_v3 * 16 + i_2 * 4 + k_1", "cse_v3 * 16 + i_2 * 4 + k_1 * 4"),
    ),
)


def _plant_fragment(name: str, kind: str, text: str, *edits: Edit) -> ModuleMutant:
    return plant_lowered(name, kind, text, "matmul on tensor cores", *edits)


IN_TENSOR_CORES = (
    _plant_fragment(
        "ldmatrix from the other tile",
        "wrong buffer",
        "the fragment of A is loaded from the tile of B",
        Edit(
            'T.tvm_access_ptr(T.type_annotation("float16"), A_shared',
            'T.tvm_access_ptr(T.type_annotation("float16"), B_shared',
        ),
    ),
    _plant_fragment(
        "ldmatrix without .trans",
        "fragment's layout",
        "the fragment of B, whose tile has rows of k, is loaded as that of A is",
        Edit('ldmatrix("float16", T.bool(True)', 'ldmatrix("float16", T.bool(False)'),
    ),
    _plant_fragment(
        "ldmatrix of two matrices",
        "fetch one short",
        "ldmatrix.x2 for .x4: half of the fragment of A is never loaded",
        Edit("T.bool(False), 4,", "T.bool(False), 2,"),
    ),
    _plant_fragment(
        "ldmatrix with the rows of others",
        "fragment's layout",
        "lanes 8 to 15 give the rows of lanes 0 to 7",
        Edit("threadIdx_x % 16 * 16", "threadIdx_x % 8 * 16"),
    ),
    _plant_fragment(
        "operands of mma swapped",
        "wrong operand",
        "the fragment of B comes first",
        Edit("A_local.data, 0, B_local.data, 0,", "B_local.data, 0, A_local.data, 0,"),
    ),
    _plant_fragment(
        "first half of B twice",
        "wrong operand",
        "the second mma multiplies with the columns of the first",
        Edit("B_local.data, 4,", "B_local.data, 0,"),
    ),
    _plant_fragment(
        "both halves in one place",
        "aliased",
        "the second mma adds to the sums of the first",
        Edit("C_local.data, 4,", "C_local.data, 0,"),
    ),
    _plant_fragment(
        "accumulator not initialized",
        "init lost",
        "the fragment of the sums is not set to zero",
        drop("C_local[i] = T.float32(0.0)"),
    ),
    _plant_fragment(
        "half of the accumulator initialized",
        "init lost",
        "4 sums of 8 are set to zero",
        Edit("for i in range(8):", "for i in range(4):"),
    ),
    _plant_fragment(
        "fragment stored as rows",
        "fragment's layout",
        "lanes store 8 rows of 4 pairs as 4 rows of 8 pairs",
        Edit(
            "threadIdx_x // 4 * 16 + i // 4 * 8 + threadIdx_x % 4 * 2",
            "threadIdx_x // 8 * 16 + i // 4 * 8 + threadIdx_x % 8 * 2",
        ),
    ),
    _plant_fragment(
        "no barrier before ldmatrix",
        "barrier dropped",
        "lanes load rows that other lanes have just stored",
        drop(SYNC, 1),
    ),
    _plant_fragment(
        "next tiles over these",
        "barrier dropped",
        "lanes store the next tiles while others load from these",
        drop(SYNC, 0),
    ),
)

IN_LOWERED = (*IN_BARRIERS_AND_SHUFFLES, *IN_MEMORY)
