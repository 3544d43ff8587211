"""Lowered modules with a barrier or a shuffle wrong, as a bug in a compiler leaves them."""

from .plant import LOWERED, Edit, Mutant, drop

BLOCKING = "matmul_shared_blocking"
CONV1D = "conv1d_memory_hierarchy"
WINDOW = "window_sum_shared"
REDUCE = "matmul_sum_over_threads"
SYNC = 'T.tvm_storage_sync("shared", T.bool(False), -1)'


def plant_lowered(name: str, kind: str, text: str, original: str, *edits: Edit, **more) -> Mutant:
    """A mutant of a lowered module."""
    return Mutant(
        name=name, kind=kind, text=text, original=original, level=LOWERED, edits=edits, **more
    )


def _dropped(original: str, which: int, text: str, **more) -> Mutant:
    name = f"barrier {which + 1} of {original}"
    return plant_lowered(name, "barrier dropped", text, original, drop(SYNC, which), **more)


IN_LOWERED_BARRIERS = (
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
