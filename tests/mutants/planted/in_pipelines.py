"""Lowered software pipelines with a stage, a tile or a barrier wrong."""

from .in_lowered import SYNC, plant_lowered
from .plant import Edit, drop

PREFETCHED, ASYNCHRONOUS = "matmul_prefetched", "matmul_asynchronous"
COMMIT = 'with T.attr({"async_commit_queue_scope": 0}):'
ALWAYS = "if T.bool(True):"  # in place of an attribute, whose body stays


def _wait(count: int) -> str:
    return f'with T.attr({{"async_wait_queue_scope": 0, "async_wait_inflight_count": {count}}}):'


IN_PIPELINES = (
    plant_lowered(
        "sums of the other stage",
        "stage off by one",
        "the sums read the tiles that are still to come, and not those that are there",
        PREFETCHED,
        Edit("k_0 % 2 * 64", "(k_0 + 1) % 2 * 64"),
    ),
    plant_lowered(
        "tiles stored to this stage",
        "stage off by one",
        "the next tiles are stored where those of this step are",
        PREFETCHED,
        Edit("(k_0 + 1) % 2 * 64 + threadIdx_x", "k_0 % 2 * 64 + threadIdx_x"),
    ),
    plant_lowered(
        "last tile from the first stage",
        "stage off by one",
        "behind the loop the tile of A is read from stage 0, which holds the tile before",
        PREFETCHED,
        Edit("A_shared[cse_v6 + k_1 + 64]", "A_shared[cse_v6 + k_1]"),
    ),
    plant_lowered(
        "prefetch one tile short",
        "fetch one short",
        "the loop that sums one tile and fetches the next makes 2 rounds of 3",
        PREFETCHED,
        Edit("range(3)", "range(2)"),
    ),
    plant_lowered(
        "prefetch of this step",
        "stage off by one",
        "A is prefetched for this step again, and not for the next one",
        PREFETCHED,
        Edit("k_0 * 8 + cse_v2 + 8]", "k_0 * 8 + cse_v2]"),
    ),
    plant_lowered(
        "first tile never stored",
        "fetch one short",
        "in front of the loop the tile of B is loaded, and not stored to shared memory",
        PREFETCHED,
        drop("B_shared[threadIdx_x] = B_shared_local[0]"),
    ),
    plant_lowered(
        "one stage of two",
        "buffer too small",
        "shared memory has room for one tile of A and not for two",
        PREFETCHED,
        Edit("A_shared = T.alloc_shared((128,))", "A_shared = T.alloc_shared((64,))"),
    ),
    plant_lowered(
        "barrier of the pipeline",
        "barrier dropped",
        "nobody waits between the store of a tile and its sums",
        PREFETCHED,
        drop(SYNC, 0),
    ),
    plant_lowered(
        "barrier behind the pipeline",
        "barrier dropped",
        "nobody waits between the store of the last tile and its sums",
        PREFETCHED,
        drop(SYNC, 2),
    ),
    plant_lowered(
        "barrier in the middle of the pipeline",
        "barrier dropped",
        "nobody waits between the sums of one stage and the store to the other",
        PREFETCHED,
        drop(SYNC, 1),
        equivalent="whoever stores to a stage has passed the barrier in front of the sums, behind "
        "which nobody reads that stage any more",
    ),
    plant_lowered(
        "wait dropped",
        "wait dropped",
        "the sums in the loop do not wait for the copies of their tiles",
        ASYNCHRONOUS,
        Edit(_wait(2), ALWAYS),
    ),
    plant_lowered(
        "last wait dropped",
        "wait dropped",
        "the sums of the last tiles do not wait for their copies",
        ASYNCHRONOUS,
        Edit(_wait(0), ALWAYS),
    ),
    plant_lowered(
        "wait one group short",
        "wait one group short",
        "the sums in the loop leave three groups of copies in flight, and two are later ones",
        ASYNCHRONOUS,
        Edit(_wait(2), _wait(3)),
    ),
    plant_lowered(
        "last wait one group short",
        "wait one group short",
        "the sums of the last tiles leave one group of copies in flight: their own",
        ASYNCHRONOUS,
        Edit(_wait(0), _wait(1)),
    ),
    plant_lowered(
        "commit missing in the loop",
        "commit missing",
        "the copies in the loop are never committed, so that no wait is for them",
        ASYNCHRONOUS,
        Edit(COMMIT, ALWAYS, 2),
    ),
    plant_lowered(
        "commits merged",
        "commit missing",
        "the copies of the first two tiles are one group, so that the waits count one too many",
        ASYNCHRONOUS,
        Edit(COMMIT, ALWAYS),
    ),
    plant_lowered(
        "copies to the stage behind",
        "stage off by one",
        "the tiles for two steps later go to the stage of the next step",
        ASYNCHRONOUS,
        Edit("(k_0 + 2) % 3 * 64", "(k_0 + 1) % 3 * 64"),
    ),
    plant_lowered(
        "sums of the next stage",
        "stage off by one",
        "the sums read the stage of the next step",
        ASYNCHRONOUS,
        Edit("= k_0 * 64", "= (k_0 + 1) % 3 * 64"),
    ),
    plant_lowered(
        "copies one tile short",
        "fetch one short",
        "the loop makes one round of two: the last tiles are those of other steps",
        ASYNCHRONOUS,
        Edit("for k_0 in range(2):", "for k_0 in range(1):"),
    ),
    plant_lowered(
        "barrier behind a wait",
        "barrier dropped",
        "each thread waits for its own copies, and nobody for those of the others",
        ASYNCHRONOUS,
        drop(SYNC, 1),
    ),
    plant_lowered(
        "barrier in front of the copies",
        "barrier dropped",
        "copies overwrite the tiles that others still read",
        ASYNCHRONOUS,
        drop(SYNC, 0),
    ),
    plant_lowered(
        "wait behind the sums",
        "wait moved",
        "the wait for a step's tiles stands behind its sums",
        ASYNCHRONOUS,
        Edit(_wait(2), ALWAYS),
        Edit("C_1[blockIdx_y", _wait(2) + "\n    T.evaluate(0)\nC_1[blockIdx_y"),
    ),
)
