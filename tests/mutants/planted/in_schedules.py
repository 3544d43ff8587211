"""Scheduled modules with one line of their text wrong: indices, inits, predicates, operands."""

from .plant import SCHEDULED, Edit, Mutant, drop

BLOCKING = "matmul_shared_blocking"
CONV1D = "conv1d_memory_hierarchy"
PRODUCT = "C_local[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]"


def plant_scheduled(name: str, kind: str, text: str, original: str, *edits: Edit, **more) -> Mutant:
    """A mutant of a scheduled module."""
    return Mutant(
        name=name, kind=kind, text=text, original=original, level=SCHEDULED, edits=edits, **more
    )


IN_SCHEDULES = (
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
